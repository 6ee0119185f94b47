"""A batch by a gateway's Files and Batch API: its lines, its state, its results, and what is wrong with those."""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from benchmarks.proof.measure import Asked

ENDPOINT = "/v1/chat/completions"
OVER = frozenset({"completed", "failed", "expired", "cancelled"})
PATIENCE = 30
"""Seconds that one answer may take."""

Object = Mapping[str, Any]


def custom_ids(count: int) -> list[str]:
    """Of the lines of a batch."""
    return [f"line-{number:05}" for number in range(count)]


def input_file(asked: Asked, count: int) -> bytes:
    """So many lines, each with a prompt that no cache has seen."""
    workload = asked.workload()
    rows = []
    for number, custom_id in enumerate(custom_ids(count)):
        body = json.loads(workload.body("batch", number))
        del body["stream"], body["stream_options"]
        rows.append(json.dumps({"custom_id": custom_id, "method": "POST", "url": ENDPOINT, "body": body}))
    return "\n".join([*rows, ""]).encode()


@dataclass(frozen=True, slots=True)
class Desk:
    """The API of one gateway. Every method raises OSError where it does not answer, or not with 200.

    Args:
        url: of its root.
    """

    url: str

    def submit(self, lines: bytes) -> str:
        """Uploads the lines and makes a batch of them; returns its id."""
        upload = {"file": ("lines.jsonl", lines, "application/jsonl")}
        file = self._ask("POST", "/files", files=upload, data={"purpose": "batch"}).json()
        asked = {"input_file_id": file["id"], "endpoint": ENDPOINT, "completion_window": "24h"}
        return str(self._ask("POST", "/batches", json=asked).json()["id"])

    def batch(self, batch_id: str) -> Object:
        """The Batch object."""
        found: Object = self._ask("GET", f"/batches/{batch_id}").json()
        return found

    def results(self, batch: Object) -> list[Object]:
        """The lines of the output file and of the error file."""
        files = [batch["output_file_id"], batch["error_file_id"]]
        texts = [self._ask("GET", f"/files/{file}/content").text for file in files if file]
        return [json.loads(line) for text in texts for line in text.splitlines()]

    def _ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        try:
            with httpx.Client(trust_env=False, timeout=PATIENCE) as client:
                answer = client.request(method, f"{self.url}/v1{path}", **more)
                answer.raise_for_status()
        except httpx.HTTPError as error:
            raise OSError(f"{method} {path}: {error}") from error
        return answer


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a batch.

    Args:
        results: lines of both files.
        missing: custom_ids without a result.
        twice: custom_ids with more than one, or that nobody asked for.
        bad: custom_ids whose answer is none of status 200.
        changed: custom_ids whose result is another than the one that was there before.
        counts_differ: what `request_counts` says, where it is wrong; else empty.
    """

    results: int
    missing: Collection[str]
    twice: Collection[str]
    bad: Collection[str]
    changed: Collection[str]
    counts_differ: str

    @property
    def problems(self) -> list[str]:
        """In words; none: each line has exactly one good result, and kept it."""
        lists = {"missing": self.missing, "twice": self.twice, "bad": self.bad, "changed": self.changed}
        told = [f"{len(ids)} {name}, such as {min(ids)}" for name, ids in lists.items() if ids]
        return [*told, *([self.counts_differ] if self.counts_differ else [])]


def judge(batch: Object, results: Sequence[Object], count: int, before: Mapping[str, str]) -> Verdict:
    """Whether each line has exactly one result.

    Args:
        batch: the Batch object at the end.
        results: lines of both files.
        count: lines of the input.
        before: custom_id -> id of the result that was recorded at some time before.
    """
    wanted, found = set(custom_ids(count)), Counter(str(each["custom_id"]) for each in results)
    ids = {str(each["custom_id"]): str(each["id"]) for each in results}
    counts = {"total": count, "completed": count, "failed": 0}
    return Verdict(
        results=len(results),
        missing=wanted - found.keys(),
        twice={name for name, times in found.items() if times > 1 or name not in wanted},
        bad={str(each["custom_id"]) for each in results if (each["response"] or {}).get("status_code") != 200},
        changed={name for name, result in before.items() if ids.get(name) != result},
        counts_differ="" if batch["request_counts"] == counts else f"request_counts: {batch['request_counts']}",
    )
