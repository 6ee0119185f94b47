"""Takes out of a stream the usage that the gateway asked for and the client did not. Pure.

Where tokens are charged for, the engine is told `stream_options.include_usage`. vLLM then sends one more chunk, with
the usage and no choice, and moves `system_fingerprint` from the finish of each choice to that chunk. Here both are
undone: the chunk is dropped, and each finish is held until the fingerprint is known, which gets its old place at the
end of it. What is left are the bytes that the engine sends to a client that asks for nothing.

An engine that states usage on every chunk although nobody asked does so for all its clients
(`--enable-force-include-usage`): then nothing is touched.
"""

from dataclasses import replace

from gateway.wire.chunks import Json, Reading
from gateway.wire.request import edit

FINGERPRINT = "system_fingerprint"


class UnaskedUsage:
    """What one stream goes through between the reading and the strategy."""

    def __init__(self) -> None:
        self._held: list[Reading] = []
        self._forced = False

    def passed(self, reading: Reading) -> list[Reading]:
        """What goes on, in order, when this has come."""
        body = reading.body
        if body is None or reading.error is not None:
            return [*self.rest(), reading]
        if self._is_usage(body):
            return self._finished(body)
        self._forced = self._forced or isinstance(body.get("usage"), dict)
        if reading.ends and reading.strict and not self._forced and FINGERPRINT not in body:
            self._held.append(reading)
            return []
        return [reading]

    def rest(self) -> list[Reading]:
        """What is still held, as it came: the stream ends without a usage."""
        held, self._held = self._held, []
        return held

    def _is_usage(self, body: Json) -> bool:
        return not self._forced and body.get("choices") == [] and isinstance(body.get("usage"), dict)

    def _finished(self, usage: Json) -> list[Reading]:
        if FINGERPRINT not in usage:
            return self.rest()
        value = {FINGERPRINT: usage[FINGERPRINT]}
        return [replace(held, data=edit(held.data, value), body={**(held.body or {}), **value}) for held in self.rest()]
