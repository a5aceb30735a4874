"""Statements and rules that the SQLite and PostgreSQL stores share.

Terms of these modules: a session is referred to by its number (`key`). A body is a column with JSON and a checksum. The
place of a body (table, column, session, row) is part of the checksum. `mnemosyne.stores` explains head, lineage, scope
and chain; `mnemosyne.stores.sql.schema` explains the tables.
"""
