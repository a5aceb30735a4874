"""Values of stored bodies that were read before, so that a turn does not decode the same messages and records again.

A body is known by its place and by all of its bytes: what another process has written since is never overlooked, and a damaged
body is never taken for a sound one. Callers share the values and do not change them.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

MOST_BYTES = 8_000_000
"""How much JSON the kept values of a store may have been: the records of some fifty turns."""

_LARGEST_SHARE = 4


class ReadBodies:
    """The values that were read last, up to `most_bytes` of JSON. It may be used from several threads."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes, self._bytes = most_bytes, 0
        self._held: OrderedDict[str, tuple[bytes, int, Any]] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, place: str, data: bytes) -> Any:
        """Return the value of a body, or None."""
        with self._lock:
            held = self._held.get(place)
            if held is None or held[0] != data:
                return None
            self._held.move_to_end(place)
        return held[2]

    def keep(self, place: str, data: bytes, size: int, value: Any) -> None:
        """Keep the value of a body with `size` bytes of JSON; one that takes a large share of the room is not kept."""
        with self._lock:
            if size > self._most_bytes // _LARGEST_SHARE:
                return
            self._bytes += size - self._held.pop(place, (b"", 0, None))[1]
            self._held[place] = data, size, value
            while self._bytes > self._most_bytes:
                self._bytes -= self._held.popitem(last=False)[1][1]

    def close(self) -> None:
        """Forget everything, and keep nothing from now on."""
        with self._lock:
            self._most_bytes, self._bytes = -1, 0
            self._held.clear()


class BodyCache:
    """The `ReadBodies` of a store: each transaction uses those that were `current` when it began, so that one that began before
    an erasure leaves nothing behind it.
    """

    def __init__(self) -> None:
        self.current = ReadBodies()

    def clear(self) -> None:
        """Forget everything, and let what has begun keep nothing."""
        former, self.current = self.current, ReadBodies()
        former.close()
