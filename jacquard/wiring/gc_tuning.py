"""Settings of the whole process while an engine works: the garbage collector's and the interpreter's switch interval.

They keep a turn from waiting for a collection, or for other threads to give up the interpreter.
"""

from __future__ import annotations

import gc
import sys
import threading

SWITCH_SECONDS = 0.0002
YOUNG_OBJECTS = 5_000
"""How many new objects bring a collection of the young ones; Python's own choice is 700, a turn makes some thousands."""
FULL_COLLECTION_EACH = 15
"""How many collections of the middle generation lie between two of everything; Python's own choice is 10."""


class ProcessTuning:
    """Keeps what lives by now out of later garbage collections, makes all of them rarer, and lets threads take turns more often,
    until released.

    Model libraries bring some 400,000 objects that live as long as the process does. A full collection walks them all and
    stops every thread for 0.2 to 0.4 seconds, in the middle of a turn. What is left out is still freed when nothing refers
    to it; only rings of it that become garbage later stay until the release. What comes later is walked for some 10 ms by each
    full collection, ten times less often. A thread that calculates holds the interpreter for 5 ms by default before another
    gets it, so that three of them keep the event loop waiting for 15.

    Where several have settled the process, the last release ends it.
    """

    _lock = threading.Lock()
    _holders = 0
    _before: tuple[float, tuple[int, int, int]] = (0.0, (0, 0, 0))

    def __init__(self) -> None:
        self._settled = False

    def settle(self) -> None:
        """Collect garbage once and freeze the rest; takes as long as a full collection."""
        gc.collect()
        gc.freeze()
        kind = type(self)
        with kind._lock:
            if not self._settled:
                self._settled = True
                kind._holders += 1
                if kind._holders == 1:
                    kind._before = seconds, (young, middle, old) = sys.getswitchinterval(), gc.get_threshold()
                    sys.setswitchinterval(min(seconds, SWITCH_SECONDS))
                    gc.set_threshold(max(young, YOUNG_OBJECTS), middle, max(old, FULL_COLLECTION_EACH))

    def release(self) -> None:
        """Set the process back, if this is the last that settled it."""
        kind = type(self)
        with kind._lock:
            if self._settled:
                self._settled = False
                kind._holders -= 1
                if kind._holders == 0:
                    gc.unfreeze()
                    sys.setswitchinterval(kind._before[0])
                    gc.set_threshold(*kind._before[1])
