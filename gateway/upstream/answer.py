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
        over: nothing more of this answer is to come: it is complete, or broken.
        reusable: it is complete and the connection may carry another one.
        error: why this is not an answer, or not all of one.
    """

    __slots__ = (
        "_head_only",
        "_headers_size",
        "_kept",
        "_max_head",
        "_parser",
        "_pieces",
        "_since_body",
        "complete",
        "error",
        "has_head",
        "headers",
        "on_body",
        "over",
        "reusable",
        "started",
        "status",
    )

    def __init__(self, *, max_head: int, head_only: bool = False) -> None:
        """`head_only`: the request was a HEAD, so no body follows whatever the head says."""
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.started = self.has_head = self.complete = self.over = self.reusable = False
        self.error: str | None = None
        self._max_head = max_head
        self._head_only = head_only
        self._headers_size = self._since_body = 0
        self._pieces: list[bytes] = []
        self._kept: int | None = None  # of the pieces, those before the answer was over
        self.on_body = self._pieces.append  # called by the parser with bytes of the body, for each token
        self._parser = httptools.HttpResponseParser(self)

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
            self._fail("the engine's answer is not HTTP")
        pieces = self._pieces
        if not pieces or self.over:
            return self._body(len(data))
        body = b"".join(pieces)
        pieces.clear()
        self._since_body = 0
        return body

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
            self._end()

    def close(self) -> None:
        """Let go of the parser, which refers back to this: no cycle is left behind. Called once and last."""
        del self._parser

    def _body(self, fed: int) -> bytes:
        pieces = self._pieces
        if self._kept is not None:
            del pieces[self._kept :]
        body = b"".join(pieces)
        pieces.clear()
        self._since_body = 0 if body else self._since_body + fed
        if self._since_body > self._max_head:
            self._fail("the head of the engine's answer is too large")
        return body

    def _end(self) -> None:
        self.complete = self.over = True
        self._kept = len(self._pieces)

    def _fail(self, why: str) -> None:
        if not self.over:
            self.error = why
            self.over = True
            self._kept = len(self._pieces)

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
        if self.over:
            return
        status = self._parser.get_status_code()
        unreadable = self._unreadable()
        if status < 200:
            self.headers.clear()
        elif unreadable:
            self._fail(unreadable)
        else:
            self.status = status
            self.has_head = True
            if self._head_only:
                self._end()

    def on_message_complete(self) -> None:
        """The end of an answer, perhaps of an interim one."""
        if self.has_head and not self.over:
            self._end()
            self.reusable = self._parser.should_keep_alive()
