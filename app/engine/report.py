"""The words for what fits."""

from collections.abc import Iterator, Sequence

from app.engine.advise import GIB, Fit, Topology
from app.engine.model import Found


def lines(
    found: Found, memory: Sequence[int], ways: Sequence[Topology], fits: Sequence[Fit], overhead: int
) -> Iterator[str]:
    """The report, a line each."""
    shape = found.shape
    yield f"model: {shape.architecture}, {gib(found.checkpoint)} of weights ({found.source})"
    windows = f", {shape.sliding_layers} with a window of {shape.window} tokens" if shape.sliding_layers else ""
    yield f"       {shape.layers} layers: {shape.full_layers} of full attention{windows}"
    yield f"cards: {', '.join(gib(card) for card in memory)}; assumed beside weights and cache: {gib(overhead)} a card"
    yield ""
    yield "topologies"
    for way in ways:
        yield f"  {way.name}: {way.text}" + ("" if way.starts else " - does not fit")
        for fit in way.fits:
            yield f"    {_engine(fit)}"
    yield ""
    yield "profiles, each alone"
    for fit in fits:
        yield f"  {_engine(fit)}"
    yield ""
    yield "sequences that can be generating at once, by their length in tokens"
    for fit in fits:
        if fit.starts:
            counts = "  ".join(f"{length:,}: {count:,}" for length, count in fit.running.items() if count)
            yield f"  {fit.profile:<17} {counts}"
    if best := next((way for way in ways if way.starts), None):
        names = " and ".join(fit.profile for fit in best.fits)
        yield ""
        yield f"advice: topology {best.name}, {best.text}: {names}"
    else:
        yield ""
        yield "advice: the model does not fit these cards"


def _engine(fit: Fit) -> str:
    share = f"TP {fit.cards}  {fit.share:g} of each card"
    start = f"{fit.profile:<17} {share}  weights {gib(fit.weights)}  KV cache {gib(fit.pool)}"
    if fit.pool <= 0:
        return f"{start}  does not start: the weights leave nothing for the KV cache"
    tokens = f" ({fit.pool // fit.token_bytes:,} tokens at {fit.token_bytes / 1024:g} KiB)"
    if not fit.starts:
        return f"{start}{tokens}  does not start: one sequence of {fit.max_len:,} tokens does not fit"
    return f"{start}{tokens}  {_room(fit)}; vLLM will report {fit.promised:.1f}x"


def _room(fit: Fit) -> str:
    if fit.generating >= fit.wanted:
        return f"all {fit.wanted} sequences fit at their full {fit.max_len:,} tokens"
    return f"{fit.generating} of {fit.wanted} sequences fit at their full {fit.max_len:,} tokens, more when shorter"


def gib(size: int) -> str:
    """Bytes for people."""
    return f"{size / GIB:.1f} GiB"
