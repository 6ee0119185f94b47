"""Runs the application in uvicorn, and ends it with grace.

The first SIGTERM or SIGINT stops admission; the server goes on answering (503, not ready) until the streams have
finished or the grace is over; then what is left ends with an error event. A second signal ends at once.
"""

import asyncio
import gc
import signal
import socket
import sys
from types import FrameType

import structlog
import uvicorn
from fastapi import FastAPI
from sse_starlette.sse import AppStatus

from app import logs
from app.main import create_app
from app.protocol import bounded_protocol
from app.wiring import Service
from config.settings import ServerSettings, Settings

log = structlog.get_logger("tokenlane")

GC_THRESHOLDS = (2_000, 10, 50)
"""Objects more than before at which the youngest are looked through; how many times until the next generation is."""

LOOK_AGAIN = 0.05
"""Seconds between two looks at whether the last stream has finished."""


class CannotListen(Exception):
    """The address or the port cannot be had."""


def run(settings: Settings) -> int:
    """Serves until a signal; returns the exit status. Raises CannotListen."""
    logs.configure(settings.server)
    AppStatus.enable_automatic_graceful_drain = False  # it would end every stream half a second after SIGTERM
    own = settings.server
    try:
        listening = listen(own, unread=settings.timeouts.write_deadline_s)
    except OSError as error:
        raise CannotListen(f"cannot listen on {own.host}:{own.port}: {error.strerror or error}") from error
    app = create_app(settings)
    server = Server(uvicorn_config(app, settings), app, settings.server.shutdown_grace_s)
    server.run(sockets=[listening])
    return 0 if server.started else 1


class Server(uvicorn.Server):
    """uvicorn, but with a drain before its own shutdown.

    Args:
        config: uvicorn's.
        app: holds the service in its state once it is started.
        grace: seconds that running requests have to finish.
    """

    def __init__(self, config: uvicorn.Config, app: FastAPI, grace: float) -> None:
        super().__init__(config)
        self._app = app
        self._grace = grace
        self._draining: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts as uvicorn does, then says where."""
        await super().startup(sockets)
        if self.started:
            self.serving()

    @property
    def service(self) -> Service:
        """The running parts, once the server is started."""
        service: Service = self._app.state.service
        return service

    def serving(self) -> None:
        """What is done once it serves."""
        self._announce()
        _settle_memory()

    def _announce(self) -> None:
        """Says where it serves, and how to try it."""
        host, port = self.servers[0].sockets[0].getsockname()[:2]
        url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        settings = self.service.settings
        model = settings.sim.model if settings.embedded else "MODEL"
        body = f'{{"model":"{model}","stream":true,"messages":[{{"role":"user","content":"hi"}}]}}'
        print(f"tokenlane serves on {url}", file=sys.stderr)
        print(f"  curl -N {url}/v1/chat/completions -H 'content-type: application/json' -d '{body}'", file=sys.stderr)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal drains, the second one ends."""
        if self._draining is None and self.started:
            asyncio.get_running_loop().call_soon_threadsafe(self._drain, sig)
        else:
            self.should_exit = self.force_exit = True

    def _drain(self, sig: int) -> None:
        if self._draining is None:
            log.info("draining", signal=signal.Signals(sig).name, grace_s=self._grace)
            self._draining = asyncio.create_task(self._finish())

    async def _finish(self) -> None:
        service = self.service
        service.drain()
        loop = asyncio.get_running_loop()
        until = loop.time() + self._grace
        while service.gateway.live and loop.time() < until:  # noqa: ASYNC110 - an event would cost each request
            await asyncio.sleep(LOOK_AGAIN)
        service.gateway.end_all()
        self.should_exit = True


def _settle_memory() -> None:
    """Lets the garbage collector pass by what lives as long as the process, and come less often.

    Requests make few cycles. A full collection over everything that was imported takes tens of milliseconds, in which
    no stream moves; at a thousand streams collections are a third of all CPU (see docs/performance.md).
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


def uvicorn_config(app: FastAPI, settings: Settings) -> uvicorn.Config:
    """Settings of uvicorn: uvloop, httptools with bounds, no line of its own in the log."""
    server = settings.server
    return uvicorn.Config(
        app,
        loop="uvloop",
        http=bounded_protocol(settings.limits.head_bytes),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=int(server.keepalive_s),
        timeout_graceful_shutdown=int(server.stop_timeout_s - server.shutdown_grace_s),
    )


def listen(server: ServerSettings, *, unread: float = 30.0) -> socket.socket:
    """The listening socket; port 0 takes a free one.

    A client that takes no byte of what was written to it for `unread` seconds is disconnected by the system where that
    can be told so (Linux): one that vanished without a word, or that will never read the end of its answer.
    """
    family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(unread * 1000))
    try:
        listening.bind((server.host, server.port))
        listening.listen(server.backlog)
    except OSError:
        listening.close()
        raise
    listening.setblocking(False)
    return listening
