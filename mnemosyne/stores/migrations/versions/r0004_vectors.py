"""Vectors and index rows in PostgreSQL, for all hosts.

Revision 0004. Both tables begin empty: each host fills them with what it embeds from then on. SQLite gets none of them.
"""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_TABLES = """DO $$
    DECLARE
        kind text := 'bytea';
    BEGIN
        BEGIN
            CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public;
        EXCEPTION WHEN OTHERS THEN NULL;
        END;
        SELECT quote_ident(n.nspname) || '.halfvec' INTO kind FROM pg_extension AS e
            JOIN pg_depend AS d ON d.refobjid = e.oid AND d.refclassid = 'pg_extension'::regclass
            JOIN pg_type AS t ON t.oid = d.objid AND d.classid = 'pg_type'::regclass
            JOIN pg_namespace AS n ON n.oid = t.typnamespace WHERE e.extname = 'vector' AND t.typname = 'halfvec';
        EXECUTE 'CREATE TABLE vectors (
            tenant text COLLATE "C" NOT NULL, scope text COLLATE "C" NOT NULL, encoder text COLLATE "C" NOT NULL,
            entry_id text COLLATE "C" NOT NULL, text_hash bytea NOT NULL, checksum bigint NOT NULL,
            vector ' || coalesce(kind, 'bytea') || ',
            PRIMARY KEY (tenant, scope, encoder, entry_id)) PARTITION BY HASH (scope)';
        CREATE TABLE index_segments (
            tenant text COLLATE "C" NOT NULL, scope text COLLATE "C" NOT NULL, ordinal bigint NOT NULL, token text NOT NULL,
            marks bytea NOT NULL, body bytea, PRIMARY KEY (tenant, scope, ordinal)) PARTITION BY HASH (scope);
        ALTER TABLE index_segments ALTER COLUMN body SET STORAGE EXTERNAL;
        FOR place IN 0..15 LOOP
            EXECUTE 'CREATE TABLE vectors_' || place || ' PARTITION OF vectors
                FOR VALUES WITH (MODULUS 16, REMAINDER ' || place || ')';
            EXECUTE 'CREATE TABLE index_segments_' || place || ' PARTITION OF index_segments
                FOR VALUES WITH (MODULUS 16, REMAINDER ' || place || ')';
        END LOOP;
    END $$"""


def upgrade() -> None:
    """Create the tables, where the database is PostgreSQL."""
    bind = op.get_bind()
    if bind.dialect.name == "postgresql":
        bind.exec_driver_sql(_TABLES)
