"""What every part of the settings tree has in common."""

from collections.abc import Collection

from pydantic import AfterValidator, BaseModel, ConfigDict


class Section(BaseModel):
    """A frozen group of settings. Keys that it does not know are refused; defaults obey the same bounds."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, validate_default=True)


def listed_in(names: Collection[str]) -> AfterValidator:
    """Allows the names of a registry of the library, so that a new entry there can be chosen at once."""

    def check(name: str) -> str:
        if name not in names:
            raise ValueError(f"must be one of {', '.join(names)}")
        return name

    return AfterValidator(check)
