"""Settings of the lanes: who answers, how many at once, and how the answer is buffered."""

import json
from typing import Annotated, Any
from urllib.parse import SplitResult, urlsplit

from pydantic import BeforeValidator, Field, SecretStr, field_validator
from pydantic_settings import NoDecode

from config.sampling import SamplingSettings
from config.section import Section, listed_in
from gateway.buffer import STRATEGIES
from gateway.routing.policies import POLICIES as ROUTING_POLICIES
from gateway.upstream.engines import KINDS

LANE_NAME = r"^[a-z][a-z0-9-]*(_[a-z0-9-]+)*$"
"""Lower case, and no double underscore: a lane's name has to survive in the name of a variable."""

ENGINE_NAME = r"^([A-Za-z0-9][A-Za-z0-9._-]{0,63})?$"
"""What fits into a header and a metric's label."""


class EngineSettings(Section):
    """One engine. Where only a URL is needed, the URL alone may be written."""

    url: str = Field(description="Address without a path: http://host:port or https://host:port.")
    name: str = Field(
        default="",
        pattern=ENGINE_NAME,
        description="Name in headers, logs and metrics. Empty: the lane's name and the engine's place, lowlatency-0.",
    )
    kind: Annotated[str, listed_in(KINDS)] = Field(
        default="vllm", description="What answers there: vllm, or sim, the simulated engine."
    )
    api_key: SecretStr | None = Field(
        default=None, description="Key sent to the engine as a bearer token. None: no header."
    )
    pool_size: int | None = Field(
        default=None, ge=1, le=65536, description="Connections to this engine. None: the lane's pool_size."
    )
    max_num_seqs: int | None = Field(
        default=None,
        ge=1,
        le=65536,
        description="Sequences the engine runs at once (its --max-num-seqs), where it is known.",
    )

    @field_validator("url")
    @classmethod
    def _address_alone(cls, url: str) -> str:
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise ValueError("not a URL") from None
        _refuse_more_than_an_address(parts)
        host = (parts.hostname or "").lower()
        host = f"[{host}]" if ":" in host else host
        return f"{parts.scheme}://{host}" + (f":{port}" if port is not None else "")


def _refuse_more_than_an_address(parts: SplitResult) -> None:
    """Raises ValueError for whatever is not scheme, host and port; the message never repeats what may be a secret."""
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("must start with http:// or https:// and name a host")
    if parts.username is not None or parts.password is not None:
        raise ValueError("must not hold a user or a password; use api_key")
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError("must end after the host and port: the gateway adds the path, /v1 too")


class BufferSettings(Section):
    """The token buffer: how long text may be held so that several tokens leave in one event."""

    strategy: Annotated[str, listed_in(STRATEGIES)] = Field(
        default="window", description="window: hold text for up to tokens or delay_ms. passthrough: hold nothing."
    )
    tokens: int = Field(default=4, ge=1, le=64, description="Tokens that are held at most before they leave.")
    delay_ms: float = Field(
        default=40, ge=0, le=1000, description="Age in milliseconds at which the oldest token leaves."
    )


def _engines(value: Any) -> Any:
    """Engines as they may be written: a list, a JSON list, or URLs with commas between; a URL stands for an engine."""
    if isinstance(value, str):
        value = _parsed(value)
    if isinstance(value, dict):
        value = [value]
    if isinstance(value, list | tuple):
        return [{"url": item} if isinstance(item, str) else item for item in value]
    return value


def _parsed(text: str) -> Any:
    if not text.lstrip().startswith(("[", "{")):
        return [word.strip() for word in text.split(",") if word.strip()]
    try:
        return json.loads(text)
    except ValueError:
        raise ValueError("must be URLs with commas between, or JSON") from None


class LaneSettings(Section):
    """One lane: its engines, slots, queue and buffer."""

    engines: Annotated[tuple[EngineSettings, ...], NoDecode, BeforeValidator(_engines)] = Field(
        default=(),
        description="Engines of the lane: URLs or tables. Without an engine in any lane, simulated ones answer.",
    )
    pool_size: int = Field(
        default=32,
        ge=1,
        le=65536,
        description="Connections to each engine. A stream holds one connection until it ends.",
    )
    slots: int | None = Field(
        default=None,
        ge=1,
        le=1048576,
        description="Requests that run at once. None: the sum of the engines' connections.",
    )
    queue: int = Field(
        default=64, ge=0, le=1048576, description="Requests that may wait for a slot; one more gets a 429."
    )
    patience_s: float = Field(
        default=30,
        ge=0,
        le=86400,
        description="Seconds a request waits for a slot before it gets a 429. Of the batch lane: 600.",
    )
    routing: Annotated[str, listed_in(ROUTING_POLICIES)] = Field(
        default="least_busy",
        description="Who of the lane's engines gets the next request: least_busy, round_robin, affinity.",
    )
    buffer: BufferSettings = Field(default=BufferSettings(), description="The token buffer of the lane's streams.")
    defaults: SamplingSettings = Field(
        default=SamplingSettings(), description="Fields that requests of the lane get which do not have them."
    )
    priority: int | None = Field(
        default=None,
        ge=-(2**31),
        le=2**31,
        description="vLLM's priority of the lane's requests, lower first, whatever a client asks for itself. Only for "
        "engines that run with --scheduling-policy priority. None: none is sent.",
    )
    overflow: str | None = Field(
        default=None, description="Another lane that takes what this one has no room for. None: it is refused."
    )
