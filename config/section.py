"""What every part of the settings tree has in common."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A frozen group of settings. Keys that it does not know are refused; defaults obey the same bounds."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, validate_default=True)
