"""What Alembic runs to migrate: on the connection that `mnemosyne.stores.migrations.migrate` hands over, inside its transaction."""

from __future__ import annotations

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
