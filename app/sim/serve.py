"""The simulated engine as a program."""

import asyncio
import signal

from app.sim.engine import SimEngine
from app.sim.settings import SimSettings


async def serve(settings: SimSettings, host: str, port: int) -> None:
    """Run an engine until SIGINT or SIGTERM.

    Raises:
        OSError: the address cannot be had.
        ValueError: a setting is wrong.
    """
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    engine = SimEngine(settings)
    try:
        await engine.start(host, port)
        await stop.wait()
    finally:
        await engine.close()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
