"""What is asked of a kind of engine."""

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

    def forwards(self, header: str) -> bool:
        """Whether a client's header of this name (any case) may reach the engine.

        A list of what may, not of what may not: the gateway's key, cookies and forwarding headers never pass.
        """
