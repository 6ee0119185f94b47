"""The gate against a model: plain lists and a counter, over every order of events, in a time that moves at once."""

import asyncio
import selectors
from collections.abc import Mapping
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.admission.gate import Gate, LaneLimits, Permit
from gateway.admission.lanes import Fifo, LanePolicy, Reserve
from gateway.errors import Draining, LaneFull, PatienceExhausted

LIMITS: Mapping[str, LaneLimits] = {
    "chat": LaneLimits(queue=3, patience=4.0),
    "batch": LaneLimits(queue=4, patience=9.0, slots=2),
}


class InstantSelector(selectors.DefaultSelector):
    """Instead of waiting for the next timer, moves the time there."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout:
            self.now += timeout
        return super().select(0)


class InstantLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock is its selector's."""

    def __init__(self) -> None:
        self.selector = InstantSelector()
        super().__init__(self.selector)

    def time(self) -> float:
        return self.selector.now


@dataclass
class Client:
    """What the model knows of one request."""

    number: int
    lane: str
    arrived: float
    fate: str = "waits"  # waits, runs, full, impatient, gone, done, refused


@dataclass
class Model:
    """A gate that is as plain as can be: every rule looked up in the lists of all there are."""

    slots: int
    reserve: int | None
    clients: list[Client] = field(default_factory=list)
    closed: bool = False

    def among(self, fate: str, lane: str | None = None) -> list[Client]:
        return [client for client in self.clients if client.fate == fate and lane in {None, client.lane}]

    def enter(self, lane: str, now: float) -> None:
        client = Client(len(self.clients), lane, now)
        self.clients.append(client)
        if self.closed:
            client.fate = "refused"
            return
        self.admit()
        if client.fate == "waits" and len(self.among("waits", lane)) > LIMITS[lane].queue:
            client.fate = "full"

    def end(self, client: Client, fate: str) -> None:
        client.fate = fate
        self.admit()

    def lose_patience(self, now: float) -> None:
        for client in self.among("waits"):
            if now >= client.arrived + LIMITS[client.lane].patience:
                client.fate = "impatient"

    def close(self) -> None:
        self.closed = True
        for client in self.among("waits"):
            client.fate = "refused"

    def admit(self) -> None:
        while (client := self.next()) is not None:
            client.fate = "runs"

    def next(self) -> Client | None:
        free = self.slots - len(self.among("runs"))
        able = [client for client in self.among("waits") if free > 0 and self.may_run(client, free)]
        first_of_all = self.reserve is not None
        return min(able, key=lambda client: (first_of_all and client.lane != "chat", client.number), default=None)

    def may_run(self, client: Client, free: int) -> bool:
        running = len(self.among("runs", client.lane))
        ceiling = LIMITS[client.lane].slots
        if ceiling is not None and running >= ceiling:
            return False
        reserved = self.reserve is not None and client.lane != "chat"
        return not reserved or free > (self.reserve or 0) or running == 0 or free == self.slots


class Run:
    """One run of the real gate and the model side by side."""

    def __init__(self, loop: InstantLoop, slots: int, reserve: int | None) -> None:
        self.loop = loop
        policy: LanePolicy = Fifo() if reserve is None else Reserve("chat", reserve)
        self.gate = Gate("test", slots, LIMITS, policy, loop.time)
        self.model = Model(slots, reserve)
        self.tasks: list[asyncio.Task[Permit]] = []
        self.released: set[int] = set()

    async def step(self, what: str, number: int) -> None:
        """One event; several without `settle` between them happen in one tick of the loop."""
        if what in LIMITS:
            self.tasks.append(asyncio.create_task(self.gate.acquire(what)))
            await self.settle()  # a task reaches the gate only when it runs
            self.model.enter(what, self.loop.time())
        elif what == "release":
            self.release(number)
        elif what == "cancel":
            self.cancel(number)
        elif what == "resize":
            self.gate.resize(number % 6)
            self.model.slots = number % 6
            self.model.admit()
        elif what == "close":
            self.gate.close(Draining("closed", retry_after=1.0))
            self.model.close()
        elif what == "time":
            await self.settle()
            await asyncio.sleep(number % 6 + 0.5)
            self.model.lose_patience(self.loop.time())
            self.model.admit()
        else:
            await self.settle()

    def release(self, number: int) -> None:
        held = [client for client in self.model.among("runs") if self.tasks[client.number].done()]
        if held:
            client = held[number % len(held)]
            self.tasks[client.number].result().release()
            self.model.end(client, "done")

    def cancel(self, number: int) -> None:
        """Cancels one whose task has not ended, be it that the gate has just granted or refused it."""
        alive = [client for client in self.model.clients if not self.tasks[client.number].done()]
        if alive:
            client = alive[number % len(alive)]
            self.tasks[client.number].cancel()
            self.model.end(client, "gone")

    async def settle(self) -> None:
        for _ in range(6):
            await asyncio.sleep(0)

    async def compare(self) -> None:
        await self.settle()
        for client, task in zip(self.model.clients, self.tasks, strict=True):
            assert fate_of(task) == ("runs" if client.fate == "done" else client.fate), client
        lanes = self.gate.statistics().lanes
        for lane in LIMITS:
            assert lanes[lane].running == len(self.model.among("runs", lane))
            assert lanes[lane].waiting == len(self.model.among("waits", lane))


def fate_of(task: asyncio.Task[Permit]) -> str:
    if not task.done():
        return "waits"
    if task.cancelled():
        return "gone"
    fates = {LaneFull: "full", PatienceExhausted: "impatient", Draining: "refused", type(None): "runs"}
    return fates[type(task.exception())]


events = st.lists(
    st.tuples(
        st.sampled_from(["chat", "batch"] * 3 + ["release", "cancel"] * 3 + ["resize", "time", "settle"] + ["close"]),
        st.integers(0, 30),
    ),
    max_size=40,
)


@settings(max_examples=300, deadline=None)
@given(events, st.integers(0, 5), st.none() | st.integers(0, 5))
def test_whatever_happens_the_gate_does_what_the_model_does(
    events: list[tuple[str, int]], slots: int, reserve: int | None
) -> None:
    """Case H1 and case H3: every way to end, in every order, several in one tick."""
    complaints: list[object] = []

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, InstantLoop)
        loop.set_exception_handler(lambda _, context: complaints.append(context))
        run = Run(loop, slots, reserve)
        for what, number in events:
            await run.step(what, number)
            if what in {*LIMITS, "time", "settle"}:
                await run.compare()
        await run.compare()
        await finish(run)

    with asyncio.Runner(loop_factory=InstantLoop) as runner:
        runner.run(scenario())
    assert complaints == []


async def finish(run: Run) -> None:
    """Everybody leaves: nothing is left."""
    for task in run.tasks:
        task.cancel()
    await run.settle()
    for task in run.tasks:
        if fate_of(task) == "runs":
            task.result().release()
    assert run.gate.statistics().running == run.gate.statistics().waiting == 0
