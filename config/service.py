"""Settings of the service around the lanes: the server, its limits and times, health, the embedded engines."""

from typing import Literal

from pydantic import Field

from config.section import Section

MIB = 1024 * 1024
STOP_MARGIN_S = 5.0
"""Seconds the server waits beyond the grace, so that the last error frames still leave."""


class ServerSettings(Section):
    """The HTTP server."""

    host: str = Field(
        default="127.0.0.1", description="Address to listen on. Other than loopback needs keys or allow_open."
    )
    port: int = Field(default=8080, ge=0, le=65535, description="Port to listen on. 0: the system chooses one.")
    allow_open: bool = Field(
        default=False, description="Serve without keys on an address that other machines can reach."
    )
    metrics_open: bool = Field(default=False, description="Give /metrics to whoever asks, even where keys are needed.")
    shutdown_grace_s: float = Field(
        default=30, ge=0, le=86400, description="Seconds that running streams have to finish after SIGTERM."
    )
    keepalive_s: float = Field(
        default=75,
        gt=0,
        le=86400,
        description="Seconds an idle client connection is kept: longer than a proxy's (nginx: 60).",
    )
    backlog: int = Field(
        default=2048, ge=1, le=65535, description="Connections the system holds until they are accepted."
    )
    access_log: bool = Field(default=True, description="Write one log line for each request.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least level that is logged."
    )
    log_format: Literal["console", "json"] = Field(
        default="console", description="Log lines for people or for machines."
    )

    @property
    def stop_timeout_s(self) -> float:
        """Seconds after which the server itself gives up waiting: always later than the grace."""
        return self.shutdown_grace_s + STOP_MARGIN_S


class TimeoutSettings(Section):
    """How long the gateway waits for whom. A stream as a whole has no limit."""

    connect_s: float = Field(default=5, gt=0, le=600, description="Seconds to connect to an engine.")
    first_token_s: float = Field(default=300, gt=0, le=86400, description="Seconds until an engine's first event.")
    gap_s: float = Field(default=60, gt=0, le=86400, description="Seconds between two events of an engine.")
    answer_s: float = Field(
        default=1800, gt=0, le=86400, description="Seconds an engine has for an answer that is not streamed."
    )
    commit_after_s: float = Field(
        default=5, ge=0, le=86400, description="Seconds without an event after which a streaming client gets its 200."
    )
    ping_s: float = Field(
        default=10, ge=0, le=86400, description="Seconds between pings while a stream is silent. 0: none."
    )
    write_deadline_s: float = Field(
        default=30, gt=0, le=86400, description="Seconds a client may not read before it is cut."
    )
    keepalive_s: float = Field(
        default=4,
        ge=0,
        le=86400,
        description="Seconds an idle connection to an engine is kept: less than vLLM's own 5.",
    )


class LimitSettings(Section):
    """The largest of everything that is held in memory."""

    body_bytes: int = Field(default=20 * MIB, ge=1024, le=1024 * MIB, description="Bytes of a request body.")
    head_bytes: int = Field(
        default=64 * 1024, ge=1024, le=MIB, description="Bytes of a request's line and headers together."
    )
    header_bytes: int = Field(
        default=16 * 1024,
        ge=256,
        le=MIB,
        description="Bytes of one header. Not more than head_bytes, which holds them all.",
    )
    event_bytes: int = Field(
        default=16 * MIB, ge=1024, le=1024 * MIB, description="Bytes of one event of an engine's stream."
    )
    answer_bytes: int = Field(
        default=64 * MIB, ge=1024, le=4096 * MIB, description="Bytes of a whole answer that is not streamed."
    )
    buffer_high_water_bytes: int = Field(
        default=MIB,
        ge=1024,
        le=1024 * MIB,
        description="Bytes held for a slow client before its engine is no longer read.",
    )


class SingleSettings(Section):
    """What applies when one engine serves both lanes (topology single)."""

    reserve: int = Field(
        default=8, ge=0, le=1048576, description="Slots the batch lane leaves free for the default lane."
    )
    pace: bool = Field(
        default=True,
        description="Run only as many batch requests at once as the default lane's TTFT bears. false: as many as fit.",
    )


class EmbeddedSettings(Section):
    """The simulated engines that answer when no lane has an engine."""

    model: str = Field(default="gpt-oss-20b", min_length=1, max_length=256, description="Name of the model they serve.")
    ttft_ms: float = Field(default=60, ge=0, le=3_600_000, description="Milliseconds to the first token.")
    itl_ms: float = Field(default=12, ge=0, le=3_600_000, description="Milliseconds between two tokens.")
    tokens: int = Field(
        default=120, ge=0, le=1_000_000, description="Tokens of an answer when the request sets no limit."
    )


class HealthSettings(Section):
    """When an engine is left out of its lane, and when it comes back."""

    interval_s: float = Field(default=5, gt=0, le=3600, description="Seconds between two probes of an engine.")
    failures: int = Field(
        default=3, ge=1, le=1000, description="Failures in a row after which an engine gets no requests."
    )
