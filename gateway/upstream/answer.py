"""One HTTP/1.1 answer, read from bytes in any cut; no I/O.

What is read: Content-Length, chunked (extensions and trailers are dropped), until the end of the connection; interim
answers (1xx) are skipped. Bounds: `max_head` bytes for the head, and as many without any byte of a body, so that
neither a head nor trailers nor chunk extensions go on for ever. What comes after the answer makes the
connection unusable, not the answer. Framing follows RFC 9112, 6; httptools (llhttp) in its strict mode refuses
what that forbids, two lengths above all.
"""

import httptools

_PARSER_ERRORS = (httptools.HttpParserError, httptools.HttpParserUpgrade)


class Answer:
    """The state of one answer.

    Attributes:
        status: 0 until the head is complete.
        headers: as they came, in order, without trailers.
        started: a byte has come.
        has_head: the head is complete.
        complete: the answer is complete; nothing of it is missing.
        reusable: it is complete and the connection may carry another one.
        error: why this is not an answer, or not all of one.
    """

    __slots__ = (
        "_head_only",
        "_headers_size",
        "_max_head",
        "_parser",
        "_pieces",
        "_since_body",
        "complete",
        "error",
        "has_head",
        "headers",
        "reusable",
        "started",
        "status",
    )

    def __init__(self, *, max_head: int, head_only: bool = False) -> None:
        """`head_only`: the request was a HEAD, so no body follows whatever the head says."""
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.started = self.has_head = self.complete = self.reusable = False
        self.error: str | None = None
        self._max_head = max_head
        self._head_only = head_only
        self._headers_size = self._since_body = 0
        self._pieces: list[bytes] = []
        self._parser = httptools.HttpResponseParser(self)

    @property
    def over(self) -> bool:
        """Nothing more of this answer is to come."""
        return self.complete or self.error is not None

    def feed(self, data: bytes) -> bytes:
        """Take bytes of the connection; the body's bytes in them, all that came before an error included."""
        self.started = True
        if self.over:
            self.reusable = False
            return b""
        try:
            self._parser.feed_data(data)
        except _PARSER_ERRORS:
            self.reusable = False
            if not self.complete:
                self._fail("the engine's answer is not HTTP")
        return self._body(len(data))

    def end(self) -> None:
        """The engine has closed the connection: the answer is complete if it had no length, else broken."""
        self.reusable = False
        if self.over:
            return
        if not self.has_head:
            self._fail("the engine closed the connection before it answered")
        elif self._has(b"content-length") or self._has(b"transfer-encoding"):
            self._fail("the engine closed the connection before its answer was complete")
        else:
            self.complete = True

    def close(self) -> None:
        """Let go of the parser, which refers back to this: no cycle is left behind. Called once and last."""
        del self._parser

    def _body(self, fed: int) -> bytes:
        pieces = self._pieces
        if pieces:
            self._since_body = 0
            body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            pieces.clear()
            return body
        self._since_body += fed
        if self._since_body > self._max_head and not self.complete:
            self._fail("the head of the engine's answer is too large")
        return b""

    def _fail(self, why: str) -> None:
        if self.error is None:
            self.error = why

    def _has(self, name: bytes) -> bool:
        return any(other.lower() == name for other, _ in self.headers)

    def _unreadable(self) -> str | None:
        for name, value in self.headers:
            lower = name.lower()
            if lower == b"transfer-encoding" and value.strip().lower() != b"chunked":
                return "the engine's answer has a transfer coding that was not asked for"
            if lower == b"content-encoding" and value.strip().lower() not in (b"", b"identity"):
                return "the engine compressed an answer that was asked for as it is"
        return None

    def on_message_begin(self) -> None:
        """Called by the parser, as all below, which do not raise."""
        if self.complete:
            self.reusable = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """A field of the head or of the trailers."""
        self._headers_size += len(name) + len(value)
        if self._headers_size > self._max_head:
            self._fail("the head of the engine's answer is too large")
        elif not self.has_head:
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """The end of a head, perhaps of an interim one."""
        status = self._parser.get_status_code()
        if status < 200:
            self.headers.clear()
            return
        unreadable = self._unreadable()
        if unreadable:
            self._fail(unreadable)
        if self.over:
            return
        self.status = status
        self.has_head = True
        self.complete = self._head_only

    def on_body(self, data: bytes) -> None:
        """Bytes of the body."""
        if not self.complete and self.error is None:  # `over`, which is asked for each token here
            self._pieces.append(data)

    def on_message_complete(self) -> None:
        """The end of an answer, perhaps of an interim one."""
        if self.has_head and not self.over:
            self.complete = True
            self.reusable = self._parser.should_keep_alive()
