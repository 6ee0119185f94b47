"""The policies by which lanes share the slots of one gate. A new one is a file here and a line in `POLICIES`."""

from collections.abc import Callable, Mapping

from gateway.admission.lanes.fifo import Fifo
from gateway.admission.lanes.policy import LanePolicy, LaneView
from gateway.admission.lanes.reserve import Reserve

__all__ = ["POLICIES", "Fifo", "LanePolicy", "LaneView", "Reserve"]

POLICIES: Mapping[str, Callable[[str, int], LanePolicy]] = {
    "fifo": lambda _interactive, _reserve: Fifo(),
    "reserve": Reserve,
}
"""Name -> how it is made, from the interactive lane's name and the number of slots to hold in reserve for it."""
