"""What is asked of a kind of engine."""

from collections.abc import Mapping
from typing import Protocol


class EngineKind(Protocol):
    """A kind of engine. Stateless."""

    @property
    def name(self) -> str:
        """As in the settings."""

    @property
    def health_path(self) -> str:
        """Answers 200 when the engine says that it is well; that alone does not prove that it generates."""

    @property
    def models_path(self) -> str:
        """Answers the models in OpenAI's shape."""

    def forwarded(self, headers: Mapping[str, str]) -> list[tuple[str, str]]:
        """Of a client's headers, names in lower case, those that may reach the engine.

        A list of what may, not of what may not: the gateway's key, cookies and forwarding headers never pass. The id of
        the request is not one of them: the engine is always told it.
        """
