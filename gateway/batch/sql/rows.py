"""Values of `gateway.batch.jobs` as rows, and back."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import orjson

from gateway.batch.jobs import Batch, File, Problem, Purpose, Status, Usage

USAGE = ("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens")
HELD = ("worker", "lease_until")
"""Columns of a batch that are the store's own."""


def file_row(file: File) -> dict[str, Any]:
    """A row of `files`, without its seq."""
    return asdict(file) | {"purpose": str(file.purpose)}


def read_file(row: Mapping[str, Any]) -> File:
    """A row of `files` as a value."""
    values = {name: row[name] for name in File.__slots__}
    return File(**values | {"purpose": Purpose(row["purpose"])})


def batch_row(batch: Batch) -> dict[str, Any]:
    """A row of `batches`, without its seq and with no lease."""
    row: dict[str, Any] = asdict(batch)
    usage: dict[str, int] = row.pop("usage")
    del row["seq"]
    metadata = None if batch.metadata is None else orjson.dumps(batch.metadata).decode()
    row |= {"status": str(batch.status), "metadata": metadata, "problems": problems_text(batch.problems)}
    return row | usage | {"worker": None, "lease_until": 0.0}


def read_batch(row: Mapping[str, Any]) -> Batch:
    """A row of `batches` as a value."""
    values = {name: value for name, value in row.items() if name not in {*USAGE, *HELD}}
    return Batch(
        **values
        | {
            "status": Status(row["status"]),
            "metadata": None if row["metadata"] is None else orjson.loads(row["metadata"]),
            "problems": tuple(Problem(**each) for each in orjson.loads(row["problems"] or "[]")),
            "usage": Usage(**{name: row[name] for name in USAGE}),
        }
    )


def problems_text(problems: Sequence[Problem]) -> str | None:
    """Problems as JSON, None where there is none."""
    return orjson.dumps([asdict(problem) for problem in problems]).decode() if problems else None
