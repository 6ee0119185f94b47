"""Chunks as an engine writes them, to play to the buffer, and an assembler of its own to read what comes out.

The assembler shares no code with the gateway: it is what the gateway's output is held against.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

Json = dict[str, Any]
Event = tuple[bytes, bytes]

TRACES = Path(__file__).parent
DONE = b"[DONE]"
ARRAYS = ("content", "refusal", "text_offset", "token_logprobs", "tokens", "top_logprobs")


def dump(body: Json) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def chunk(delta: Any, index: int = 0, finish: str | None = None, *, top: Json | None = None, **choice: Any) -> bytes:
    """The data of a chat chunk of one choice; `top` and `choice` add keys."""
    body = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    entry = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish, **choice}
    return dump({**body, "choices": [entry], **(top or {})})


def role(index: int = 0) -> bytes:
    return chunk({"role": "assistant", "content": ""}, index)


def content(text: str, index: int = 0, **more: Any) -> bytes:
    return chunk({"content": text}, index, **more)


def reasoning(text: str, index: int = 0, name: str = "reasoning", **more: Any) -> bytes:
    return chunk({name: text}, index, **more)


def tool(
    tool_index: int, arguments: str | None, call_id: str | None = None, name: str | None = None, index: int = 0
) -> bytes:
    function: Json = {"name": name} if name else {}
    if arguments is not None:
        function["arguments"] = arguments
    head: Json = {"id": call_id, "type": "function"} if call_id else {}
    return chunk({"content": None, "tool_calls": [{**head, "index": tool_index, "function": function}]}, index)


def finish(reason: str = "stop", index: int = 0, delta: Json | None = None, **more: Any) -> bytes:
    return chunk(delta or {}, index, reason, stop_reason=None, **more)


def usage(prompt: int, completion: int) -> Json:
    return {"prompt_tokens": prompt, "total_tokens": prompt + completion, "completion_tokens": completion}


def usage_only(prompt: int, completion: int) -> bytes:
    return dump({"id": "chatcmpl-1", "choices": [], "usage": usage(prompt, completion)})


def text(piece: str, index: int = 0, finish_reason: str | None = None, **more: Any) -> bytes:
    """The data of a completions chunk."""
    entry = {"index": index, "text": piece, "logprobs": None, "finish_reason": finish_reason, **more}
    return dump({"id": "cmpl-1", "object": "text_completion", "choices": [entry]})


def wire(*events: bytes) -> bytes:
    return b"".join(b"data: " + data + b"\n\n" for data in events)


def unwire(stream: bytes) -> list[Event]:
    """The events of a stream in the one form that the gateway may write: name line, data lines, LF, empty line."""
    assert b"\r" not in stream
    assert not stream or stream.endswith(b"\n\n")
    events = []
    for block in stream.split(b"\n\n")[:-1]:
        if block.startswith(b":"):
            continue
        lines = block.split(b"\n")
        name = lines.pop(0).removeprefix(b"event: ") if lines[0].startswith(b"event: ") else b""
        assert lines
        assert all(line.startswith(b"data: ") for line in lines), block
        events.append((b"\n".join(line[6:] for line in lines), name))
    return events


def datas(stream: bytes) -> list[bytes]:
    return [data for data, _ in unwire(stream)]


class Assembled:
    """What a client makes of chunks: for each choice its story (kinds and texts in order), arrays, ends, keys."""

    def __init__(self) -> None:
        self.stories: dict[int, list[list[str]]] = {}
        self.arrays: dict[tuple[int, str], list[Any]] = {}
        self.ends: dict[int, list[Any]] = {}
        self.usage: dict[str, Any] = {}
        self.keys: dict[int | str, set[str]] = {}
        self.others: list[bytes] = []  # events that are no chunk of one choice, in order

    def add(self, data: bytes) -> None:
        try:
            body = json.loads(data)
        except ValueError:
            body = None
        if not isinstance(body, dict) or not isinstance(body.get("choices"), list) or len(body["choices"]) != 1:
            self.others.append(data)
            return
        (choice,) = body["choices"]
        index = choice["index"]
        if body.get("usage"):
            self.usage[str(index)] = body["usage"]
        self._say(index, choice)
        self._collect(index, choice)
        if choice.get("finish_reason"):
            self.ends.setdefault(index, []).append((choice["finish_reason"], choice.get("stop_reason")))
        if choice.get("delta") != {} or choice.get("finish_reason"):
            self.keys.setdefault(index, set()).update(_keys(body))

    def _say(self, index: int, choice: Json) -> None:
        story = self.stories.setdefault(index, [])
        delta = choice.get("delta", {"text": choice.get("text")})
        said = [(key, value) for key, value in delta.items() if key != "tool_calls"]
        for call in delta.get("tool_calls") or []:
            said += [(f"tool {call['index']} {key}", call.get(key)) for key in ("id", "type")]
            said += [(f"tool {call['index']} {key}", value) for key, value in call.get("function", {}).items()]
        for kind, value in said:
            if value in {None, ""} if isinstance(value, str | None) else False:
                continue
            if isinstance(value, str) and story and story[-1][0] == kind:
                story[-1][1] += value
            else:
                story.append([kind, value if isinstance(value, str) else json.dumps(value)])

    def _collect(self, index: int, choice: Json) -> None:
        arrays = {"token_ids": choice.get("token_ids"), **{n: (choice.get("logprobs") or {}).get(n) for n in ARRAYS}}
        for name, values in arrays.items():
            if values is not None:
                self.arrays.setdefault((index, name), []).extend(values)


def _keys(value: Any, path: str = "") -> Iterator[str]:
    """The keys of a chunk as paths, with the values that are neither text nor counts."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from (
                _keys(inner, f"{path}.{key}")
                if key not in {"usage", "token_ids", *ARRAYS}
                else [f"{path}.{key} {type(inner).__name__}"]
            )
    elif isinstance(value, list):
        for inner in value:
            yield from _keys(inner, f"{path}[]")
    elif path.rpartition(".")[2] in {"content", "reasoning", "reasoning_content", "text", "arguments"}:
        yield f"{path} {type(value).__name__}"
    else:
        yield f"{path}={value!r}"


def assemble(events: Iterable[bytes]) -> Json:
    assembled = Assembled()
    for data in events:
        assembled.add(data)
    return vars(assembled)


def cut(stream: bytes, size: int) -> list[bytes]:
    return [stream[at : at + size] for at in range(0, len(stream), size)]


def traces(*paths: str) -> list[str]:
    """The names of the recorded streams of these endpoints."""
    return sorted(
        folder.name
        for folder in TRACES.iterdir()
        if (folder / "body.sse").exists() and json.loads((folder / "request.json").read_bytes())["path"] in paths
    )


def body_of(trace: str) -> bytes:
    return (TRACES / trace / "body.sse").read_bytes()
