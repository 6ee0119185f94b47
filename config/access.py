"""Settings of keys and their limits, and of traces."""

from pydantic import Field, SecretStr, field_validator

from config.section import Section

REDIS_SCHEMES = ("redis://", "rediss://", "unix://")


class KeySettings(Section):
    """Who may ask. Keys are in the database of batches; `tokenlane keys new` makes one."""

    required: bool = Field(
        default=False, description="Refuse requests without a key even while there is none. With a key it is always so."
    )
    refresh_s: float = Field(
        default=2,
        gt=0,
        le=60,
        description="Seconds between two looks at the keys: after so long a key that was revoked is refused.",
    )
    redis_url: SecretStr | None = Field(
        default=None,
        description="redis://[:password@]host:port/db where gateways count together. None: each counts for itself.",
    )

    @field_validator("redis_url")
    @classmethod
    def _scheme_is_known(cls, url: SecretStr | None) -> SecretStr | None:
        if url is not None and not url.get_secret_value().startswith(REDIS_SCHEMES):
            raise ValueError("must start with redis://, rediss:// or unix://")
        return url


class TracingSettings(Section):
    """Traces through OpenTelemetry. Needs the extra `otel`."""

    endpoint: str | None = Field(
        default=None,
        pattern=r"^https?://",
        description="Where a collector takes traces: http://host:4318/v1/traces. None: no traces.",
    )
    ratio: float = Field(
        default=1.0,
        ge=0,
        le=1,
        description="Share of the requests that are traced; one whose client traces it is traced as the client says.",
    )
