"""Foreign exceptions to those of this library. A message holds no address, no header and no key."""

import httpx

from gateway.errors import EngineBroke, EngineError, EngineStale, EngineUnreachable


class PoolExhausted(RuntimeError):
    """More requests at once than the pool has connections: whoever sends has to admit first. Nothing was sent."""


class StaleConnection(httpx.ReadError):
    """A kept-alive connection died before any byte of the answer came."""


class BrokenAnswer(httpx.RemoteProtocolError):
    """What came is not an HTTP answer, or not all of it; the message is ours and holds nothing of the answer."""


_SAID = (
    (StaleConnection, EngineStale, "the engine closed a kept-alive connection"),
    (httpx.ConnectTimeout, EngineUnreachable, "no connection to the engine in time"),
    (httpx.ConnectError, EngineUnreachable, "no connection to the engine"),
    (httpx.UnsupportedProtocol, EngineUnreachable, "the engine's URL is not an http or https URL"),
    (httpx.InvalidURL, EngineUnreachable, "the engine's URL cannot be read"),
)
"""What is raised for each foreign exception; the first row that fits. All others are an `EngineBroke`."""


def engine_error(error: httpx.HTTPError | httpx.InvalidURL) -> EngineError:
    """What an exception of httpx means here; the exception itself becomes the cause."""
    said: EngineError
    for foreign, ours, message in _SAID:
        if isinstance(error, foreign):
            said = ours(message)
            break
    else:
        said = EngineBroke(str(error) if isinstance(error, BrokenAnswer) else "the connection to the engine broke")
    said.__cause__ = error
    return said
