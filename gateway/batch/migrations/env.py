"""Alembic's entry: the connection is the caller's, who has begun the transaction."""  # noqa: INP001 - alembic runs it, nobody imports it

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
