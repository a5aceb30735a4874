"""Alembic's entry point: migrates on the connection from `mnemosyne.stores.migrations.migrate`, inside its transaction."""

from __future__ import annotations

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
