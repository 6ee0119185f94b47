"""How a request ended, as it is counted and as its client has seen it. Pure."""

from gateway.errors import ClientError, EngineAnswered, EngineError, Refused, RequestError
from gateway.telemetry import Outcome
from gateway.wire import render


def outcome(error: BaseException | None) -> Outcome:
    """What ended it, None: nothing did."""
    if error is None:
        return Outcome.OK
    if isinstance(error, RequestError) or (isinstance(error, EngineAnswered) and error.status < 500):
        return Outcome.CLIENT_ERROR
    if isinstance(error, Refused):
        return Outcome.REFUSED
    if isinstance(error, EngineError):
        return Outcome.ENGINE_ERROR
    return Outcome.CLIENT_GONE if isinstance(error, ClientError) else Outcome.INTERNAL


def status(error: BaseException | None, *, committed: bool) -> int:
    """The HTTP status, 499 for a client that left; once a status went out (`committed`) it stays 200 else."""
    if error is None or (committed and not isinstance(error, ClientError)):
        return 200
    return render.answer(error).status
