"""Files, batches and their lines."""  # noqa: INP001 - alembic runs it, nobody imports it

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ID = sa.String(64)
SEQ = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Makes the tables."""
    op.create_table(
        "files",
        sa.Column("seq", SEQ, primary_key=True),
        sa.Column("id", ID, nullable=False, unique=True),
        sa.Column("owner", ID),
        sa.Column("filename", sa.Text, nullable=False),
        sa.Column("purpose", sa.String(32), nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger),
    )
    op.create_table("batches", *_batch_columns())
    op.create_index("ix_batches_status", "batches", ["status"])
    op.create_table(
        "batch_lines",
        sa.Column("batch", SEQ, sa.ForeignKey("batches.seq"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("custom_id", sa.Text, nullable=False),
        sa.Column("start", sa.BigInteger, nullable=False),
        sa.Column("length", sa.BigInteger, nullable=False),
        sa.Column("prefix", sa.String(64), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("not_before", sa.Float(53), nullable=False),
        sa.Column("worker", ID),
        sa.Column("lease_until", sa.Float(53), nullable=False),
        sa.Column("output", sa.LargeBinary),
        sa.UniqueConstraint("batch", "custom_id", name="uq_batch_lines_custom_id"),
    )
    op.create_index("ix_batch_lines_turn", "batch_lines", ["batch", "state", "prefix", "number"])
    op.create_index("ix_batch_lines_worker", "batch_lines", ["worker"])


def downgrade() -> None:
    """Drops them, and all that is in them."""
    for table in ("batch_lines", "batches", "files"):
        op.drop_table(table)


def _batch_columns() -> list[sa.Column[Any]]:
    whole = ("total", "completed", "failed")
    tokens = ("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens")
    times = ("in_progress_at", "finalizing_at", "completed_at", "failed_at")
    ends = ("expired_at", "cancelling_at", "cancelled_at")
    return [
        sa.Column("seq", SEQ, primary_key=True),
        sa.Column("id", ID, nullable=False, unique=True),
        sa.Column("owner", ID),
        sa.Column("endpoint", sa.String(64), nullable=False),
        sa.Column("input_file_id", ID, nullable=False),
        sa.Column("completion_window", sa.String(16), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("ending", sa.String(16), nullable=False),
        sa.Column("metadata", sa.Text),
        sa.Column("problems", sa.Text),
        sa.Column("model", sa.Text),
        sa.Column("output_ttl", sa.BigInteger),
        sa.Column("output_file_id", ID),
        sa.Column("error_file_id", ID),
        *(sa.Column(name, sa.Integer, nullable=False) for name in whole),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in tokens),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("created_at", "expires_at")),
        *(sa.Column(name, sa.BigInteger) for name in (*times, *ends)),
        sa.Column("worker", ID),
        sa.Column("lease_until", sa.Float(53), nullable=False),
    ]
