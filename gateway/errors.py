"""The exception tree: everything that can go wrong with a request, and nothing else.

    GatewayError
    ├── RequestError             the client's mistake; no engine was asked
    │   ├── InvalidRequest       400  not JSON, wrong types, an unusable header
    │   ├── KeyMissing           401  a key is needed and none came
    │   ├── KeyRejected          401  no such key, revoked, or expired
    │   ├── LaneForbidden        403  the key may not use the lane that was named
    │   ├── RouteNotFound        404  a path that is not on the allow-list
    │   ├── ModelNotFound        404  no engine serves it, or not to this key
    │   ├── ResponseNotFound     404  no engine keeps it, or it is another key's
    │   ├── NoSuchFile           404  there is none, or it is another key's
    │   ├── NoSuchBatch          404  the same
    │   ├── MethodNotAllowed     405
    │   ├── BodyTooLarge         413
    │   ├── HeadTooLarge         431  line and headers, or one of the headers
    │   └── UnsupportedEncoding  415  a compressed request body
    ├── Refused                  no engine was asked; try later
    │   ├── LaneFull             429  slots and queue are taken
    │   ├── PatienceExhausted    429  waited in the queue as long as the lane allows
    │   ├── QuotaExceeded        429  the key has used up its requests, its tokens or its parallel requests
    │   ├── KeysUnavailable      503  the keys cannot be read, so that nobody can be let in
    │   ├── BatchesUnavailable   503  the database or the folder of files and batches cannot be used
    │   ├── DiskFull             507  no room for a file, or for what is known of it
    │   ├── NoEngine             503  every engine of the lane is down
    │   └── Draining             503  the gateway shuts down
    ├── EngineError              an engine was asked
    │   ├── EngineAnswered       its own status and body
    │   ├── EngineUnreachable    502  refused, no route, no such name, connect timeout
    │   ├── EngineStale          502  a kept-alive connection was closed before any byte of the answer
    │   ├── EngineBroke          502  the connection broke, or what came is not HTTP or not SSE
    │   ├── EngineTruncated      502  a clean end without a finish
    │   ├── EngineSilent         504  no first token in time
    │   └── EngineStalled        504  a gap between events that is too long
    └── ClientError              nobody is left to be told
        ├── ClientGone           499  the client closed the connection
        └── ClientTooSlow        499  the client did not read for as long as the write deadline

What a client sees of each is decided in one table: `gateway/wire/render.py`.
A message never holds an address of an engine, a key, or a piece of a prompt.
"""


class GatewayError(Exception):
    """The root; only its leaves are raised."""


class RequestError(GatewayError):
    """The client's mistake; no engine was asked."""


class InvalidRequest(RequestError):
    """The request cannot be understood.

    Args:
        message: what is wrong, for the client.
        param: the field that is wrong, where there is one.
    """

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


class KeyMissing(RequestError):
    """A key is needed and none came."""


class KeyRejected(RequestError):
    """The key is none of ours, revoked, or expired. The message never repeats it."""


class LaneForbidden(RequestError):
    """The key may not use the lane that the request names."""


class RouteNotFound(RequestError):
    """The path is not on the allow-list."""


class ModelNotFound(RequestError):
    """No engine serves a model of that name, or the key may not ask for it."""


class ResponseNotFound(RequestError):
    """No engine keeps a response of that id, or another key made it."""

    def __init__(self, response_id: str) -> None:
        super().__init__(f"No response with the id {response_id[:256]!r} was found.")


class NoSuchFile(RequestError):
    """There is no file of that id, or it belongs to another key. Words and shape are OpenAI's."""

    def __init__(self, file_id: str) -> None:
        super().__init__(f"No such File object: {file_id}")
        self.param = "id"


class NoSuchBatch(RequestError):
    """There is no batch of that id, or it belongs to another key. Words and shape are OpenAI's."""

    def __init__(self, batch_id: str) -> None:
        super().__init__(f"No batch found with id '{batch_id}'.")


class MethodNotAllowed(RequestError):
    """The path exists, the method does not."""


class BodyTooLarge(RequestError):
    """The body is larger than the limit named in the message."""


class HeadTooLarge(RequestError):
    """The request's line and headers, or one of them, are larger than the limit named in the message."""


class UnsupportedEncoding(RequestError):
    """The body has a Content-Encoding."""


class Refused(GatewayError):
    """No engine was asked, and the same request may succeed later.

    Args:
        message: why, for the client.
        retry_after: seconds after which another try makes sense.
    """

    def __init__(self, message: str, *, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class LaneFull(Refused):
    """The lane's slots and its queue are taken."""


class PatienceExhausted(Refused):
    """The request waited in the queue for as long as the lane allows."""


class QuotaExceeded(Refused):
    """The key has used up what it may: requests or tokens a minute, or parallel requests.

    Args:
        message: why, for the client.
        retry_after: seconds after which another try makes sense.
        kind: `requests`, `tokens` or `parallel`.
    """

    def __init__(self, message: str, *, retry_after: float, kind: str) -> None:
        super().__init__(message, retry_after=retry_after)
        self.kind = kind


class KeysUnavailable(Refused):
    """The database of keys cannot be read, and has not been since the start: nobody can be let in."""


class BatchesUnavailable(Refused):
    """The database or the folder of files and batches cannot be used now."""


class DiskFull(Refused):
    """There is no room for a file, or in the database for what is known of it."""


class NoEngine(Refused):
    """Every engine of the lane is down."""


class Draining(Refused):
    """The gateway is shutting down."""


class EngineError(GatewayError):
    """An engine was asked and did not give a whole answer."""


class EngineAnswered(EngineError):
    """The engine answered with an error of its own.

    Args:
        status: the HTTP status, or the `code` of an error event that came first in a stream.
        body: the JSON body (of an error event: its data), as it came.
        content_type: of the body, as it came.
        retry_after: the engine's Retry-After header, as it came.
    """

    def __init__(
        self, status: int, body: bytes, *, content_type: str = "application/json", retry_after: str | None = None
    ) -> None:
        super().__init__(f"the engine answered {status}")
        self.status = status
        self.body = body
        self.content_type = content_type
        self.retry_after = retry_after


class EngineUnreachable(EngineError):
    """No connection: refused, no route, no such name, connect timeout."""


class EngineStale(EngineError):
    """A kept-alive connection was closed by the engine before any byte of the answer came."""


class EngineBroke(EngineError):
    """The connection broke, or what came is not HTTP or not an event stream."""


class EngineTruncated(EngineError):
    """The stream ended cleanly but without a finish."""


class EngineSilent(EngineError):
    """No first token within the time that is allowed for it."""


class EngineStalled(EngineError):
    """The gap between two events was longer than is allowed."""


class ClientError(GatewayError):
    """Nobody is left to be told."""


class ClientGone(ClientError):
    """The client closed the connection."""


class ClientTooSlow(ClientError):
    """The client did not read for as long as the write deadline."""


def settle(error: BaseException) -> None:
    """Lets go of the way an error came, once everybody has been told of it.

    The frames of its traceback often refer to it, and to all that a request held: a cycle that only the garbage
    collector would find, and collections are rare while the gateway serves.
    """
    left: list[BaseException | None] = [error]
    while left:
        each = left.pop()
        if each is not None and each.__traceback__ is not None:
            each.__traceback__ = None
            left += [each.__cause__, each.__context__]
