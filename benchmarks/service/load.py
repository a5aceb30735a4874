"""Load on an engine: turns that are due at times drawn in advance, whatever became of those before (an open loop)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from time import perf_counter

import anyio

OK = 200


@dataclass(kw_only=True, slots=True)
class TimedTurn:
    """One turn: when it was due and ended (seconds), what it was answered with, and whether a refusal said when to come again.

    `acknowledged` is set when the reply was acknowledged; `turn_id` then names the turn.
    """

    session_id: str
    due: float = 0.0
    ended: float = 0.0
    status: int = OK
    says_when: bool = False
    acknowledged: bool = False
    turn_id: str = ""
    code: str = ""

    @property
    def milliseconds(self) -> float:
        """The time from when it was due to its end."""
        return 1000 * (self.ended - self.due)


Play = Callable[[TimedTurn, str], Awaitable[None]]
"""Prepares and commits one turn with this input, and notes what came of it."""


@dataclass(kw_only=True)
class Sessions:
    """Sessions that take turns, each with one turn at a time; more than are free at once are opened.

    After `length` turns a session ends, and a new one takes its place.
    """

    prefix: str
    inputs: Callable[[int], str]
    length: int
    _free: list[str] = field(default_factory=list)
    _played: Counter[str] = field(default_factory=Counter)
    _opened: int = 0
    _turns: int = 0

    def take(self) -> tuple[str, str]:
        """Return a session that is free, and its next input."""
        if not self._free:
            self._opened += 1
            self._free.append(f"{self.prefix}-{self._opened:05}")
        self._turns += 1
        return self._free.pop(0), self.inputs(self._turns)

    def give_back(self, session_id: str) -> None:
        """Make a session free for its next turn, or end it."""
        self._played[session_id] += 1
        if self._played[session_id] < self.length:
            self._free.append(session_id)
        else:
            self.open(1)

    def open(self, count: int) -> None:
        """Make so many sessions more free."""
        for _ in range(count):
            self._opened += 1
            self._free.append(f"{self.prefix}-{self._opened:05}")


async def play_at_rate(play: Play, sessions: Sessions, rate: float, turns: int, seed: int) -> list[TimedTurn]:
    """Play turns that come at random, `rate` a second in the mean; return them in the order in which they were due."""
    chance, done = random.Random(seed), list[TimedTurn]()

    async def one(played: TimedTurn, text: str) -> None:
        await play(played, text)
        played.ended = perf_counter()
        sessions.give_back(played.session_id)

    due = perf_counter()
    async with anyio.create_task_group() as group:
        for _ in range(turns):
            due += chance.expovariate(rate)
            await anyio.sleep(max(0.0, due - perf_counter()))
            session_id, text = sessions.take()
            played = TimedTurn(session_id=session_id, due=due)
            done.append(played)
            group.start_soon(one, played, text)
    return done


async def play_at_once(play: Play, sessions: Sessions, at_once: int, turns: int) -> list[TimedTurn]:
    """Play turns of which so many are under way all the time; return them in the order in which they began (a closed loop)."""
    done = list[TimedTurn]()

    async def keep_playing() -> None:
        while len(done) < turns:
            session_id, text = sessions.take()
            played = TimedTurn(session_id=session_id, due=perf_counter())
            done.append(played)
            await play(played, text)
            played.ended = perf_counter()
            sessions.give_back(session_id)

    async with anyio.create_task_group() as group:
        for _ in range(at_once):
            group.start_soon(keep_playing)
    return done


async def find_capacity(play: Play, sessions: Sessions, at_once: int, seconds: float) -> float:
    """Return how many turns a second are made when `at_once` turns are under way all the time."""
    count, began = 0, perf_counter()

    async def keep_playing() -> None:
        nonlocal count
        while perf_counter() - began < seconds:
            session_id, text = sessions.take()
            played = TimedTurn(session_id=session_id, due=perf_counter())
            await play(played, text)
            sessions.give_back(session_id)
            count += played.acknowledged

    async with anyio.create_task_group() as group:
        for _ in range(at_once):
            group.start_soon(keep_playing)
    return count / (perf_counter() - began)
