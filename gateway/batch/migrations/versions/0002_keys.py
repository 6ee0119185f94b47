"""Keys of the gateway's clients."""  # noqa: INP001 - alembic runs it, nobody imports it

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Makes the table."""
    op.create_table(
        "api_keys",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
        sa.Column("id", sa.String(64), nullable=False, unique=True),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("prefix", sa.String(16), nullable=False, unique=True),
        sa.Column("digest", sa.LargeBinary, nullable=False),
        sa.Column("lanes", sa.Text),
        sa.Column("models", sa.Text),
        sa.Column("requests_per_minute", sa.BigInteger),
        sa.Column("tokens_per_minute", sa.BigInteger),
        sa.Column("parallel", sa.BigInteger),
        sa.Column("created_at", sa.Float(53), nullable=False),
        sa.Column("expires_at", sa.Float(53)),
        sa.Column("revoked_at", sa.Float(53)),
    )


def downgrade() -> None:
    """Drops it, and with it every key."""
    op.drop_table("api_keys")
