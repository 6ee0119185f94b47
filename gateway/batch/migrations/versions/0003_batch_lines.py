"""How many lines of batches a key may have waiting."""  # noqa: INP001 - alembic runs it, nobody imports it

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the column."""
    op.add_column("api_keys", sa.Column("batch_lines", sa.BigInteger))


def downgrade() -> None:
    """Drops it."""
    op.drop_column("api_keys", "batch_lines")
