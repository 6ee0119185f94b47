"""The tables. A change here needs a migration; a test holds the two together."""

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

ID = String(64)
SEQ = BigInteger().with_variant(Integer, "sqlite")
"""SQLite counts up by itself in a column of type INTEGER alone."""

metadata = MetaData()

files = Table(
    "files",
    metadata,
    Column("seq", SEQ, primary_key=True),
    Column("id", ID, nullable=False, unique=True),
    Column("owner", ID),
    Column("filename", Text, nullable=False),
    Column("purpose", String(32), nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
)

batches = Table(
    "batches",
    metadata,
    Column("seq", SEQ, primary_key=True),
    Column("id", ID, nullable=False, unique=True),
    Column("owner", ID),
    Column("endpoint", String(64), nullable=False),
    Column("input_file_id", ID, nullable=False),
    Column("completion_window", String(16), nullable=False),
    Column("status", String(16), nullable=False, index=True),
    Column("ending", String(16), nullable=False),
    Column("metadata", Text),
    Column("problems", Text),
    Column("model", Text),
    Column("output_ttl", BigInteger),
    Column("output_file_id", ID),
    Column("error_file_id", ID),
    Column("total", Integer, nullable=False),
    Column("completed", Integer, nullable=False),
    Column("failed", Integer, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("cached_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("reasoning_tokens", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Column("in_progress_at", BigInteger),
    Column("finalizing_at", BigInteger),
    Column("completed_at", BigInteger),
    Column("failed_at", BigInteger),
    Column("expired_at", BigInteger),
    Column("cancelling_at", BigInteger),
    Column("cancelled_at", BigInteger),
    Column("worker", ID),
    Column("lease_until", Float(53), nullable=False),
)

lines = Table(
    "batch_lines",
    metadata,
    Column("batch", SEQ, ForeignKey("batches.seq"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("custom_id", Text, nullable=False),
    Column("start", BigInteger, nullable=False),
    Column("length", BigInteger, nullable=False),
    Column("prefix", String(64), nullable=False),
    Column("state", String(16), nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("not_before", Float(53), nullable=False),
    Column("worker", ID),
    Column("lease_until", Float(53), nullable=False),
    Column("output", LargeBinary),
    UniqueConstraint("batch", "custom_id", name="uq_batch_lines_custom_id"),
    Index("ix_batch_lines_turn", "batch", "state", "prefix", "number"),
    Index("ix_batch_lines_worker", "worker"),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("seq", SEQ, primary_key=True),
    Column("id", ID, nullable=False, unique=True),
    Column("name", String(128), nullable=False),
    Column("prefix", String(16), nullable=False, unique=True),
    Column("digest", LargeBinary, nullable=False),
    Column("lanes", Text),
    Column("models", Text),
    Column("requests_per_minute", BigInteger),
    Column("tokens_per_minute", BigInteger),
    Column("parallel", BigInteger),
    Column("batch_lines", BigInteger),
    Column("created_at", Float(53), nullable=False),
    Column("expires_at", Float(53)),
    Column("revoked_at", Float(53)),
)
