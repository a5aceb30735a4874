"""Reads the answer of a turn on its way to the client, sends the client the part that the client may see, and commits
the reply.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from time import perf_counter

from jacquard.service.proxy.keeping import CallTimes, KeptTurn, TurnKeeper
from jacquard.service.proxy.replies.answers import AnswerReader, ContentView, WholeView
from jacquard.service.proxy.replies.events import AnswerTooLargeError, EventSplitter
from jacquard.service.proxy.requests.chat_request import MERGED, ChatRequest, with_our_text, write_json
from jacquard.service.values import Principal
from jacquard.templating.profiles import ReplyForm
from mnemosyne.core.masking.call_logs import open_log
from mnemosyne.core.off_loop import calculate

_log = open_log(__name__)


class TurnPassage:
    """`Passage` (see `jacquard.service.proxy.relay`) that commits the reply of a turn.

    The reply is committed before the client gets the end of the answer, so that the next call of the client finds the
    stored reply. If the client or the model server disconnects, the part that the client saw is committed. Chat clients
    keep this part too, and send it with their next call. A reply that is shown unchanged passes byte for byte.
    """

    def __init__(self, keeper: TurnKeeper, principal: Principal, turn: KeptTurn, call: ChatRequest) -> None:
        self._keeper, self._principal, self._turn, self._call = keeper, principal, turn, call
        self._again: ChatRequest | None = None
        self._is_plain = turn.reply_form is ReplyForm.TEXT
        self._answer = AnswerReader(call.api, WholeView if self._is_plain else ContentView)
        self._splitter = EventSplitter()
        self._is_kept = self._is_left = False
        self._called = perf_counter()
        self._first_ms: int | None = None

    async def merge(self, size: int) -> bytes:
        """Return the body of the repeated call, with our text inside the client's system message. `size` is the cost of
        this work for `calculate`.
        """
        self._again = replace(self._call, place=MERGED)
        return await calculate(with_our_text, self._again, self._turn.ours, MERGED, size=size)

    async def take(self, part: bytes) -> bytes:
        """Return the client's form of a part of the stream. Raises AnswerTooLargeError if the answer is too large to be
        read and must not pass unread.
        """
        shown = await self._read(self._splitter.take(part))
        if self._answer.is_complete:
            await self._keep(is_whole=True)
        return part if self._is_plain else shown

    async def end(self) -> bytes:
        """Return the last part for the client. If the stream ended without an end mark, the reply is committed now."""
        rest = self._splitter.end()
        shown = await self._read([rest] if rest else []) + self._answer.end()
        await self._keep(is_whole=True)
        return b"" if self._is_plain else shown

    async def _read(self, events: Iterable[bytes]) -> bytes:
        if self._is_left:
            return b""
        try:
            whole = list(events)
            shown = await calculate(lambda: b"".join(map(self._answer.take, whole)), size=sum(map(len, whole)))
        except AnswerTooLargeError:
            if not self._is_plain:
                # The part that the client has seen is committed.
                raise
            self.leave()
            return b""
        if self._first_ms is None and self._answer.has_begun:
            self._first_ms = self._count_ms()
        return shown

    async def whole(self, status: int, body: bytes) -> bytes:
        """Return the client's form of an answer that is not a stream, and commit the reply. `status` is the HTTP status
        of the answer.

        Raises AnswerTooLargeError if the answer is too large to be read and must not pass unread.
        """
        if status != 200:
            self._is_kept = True
            return body
        try:
            shown = await calculate(self._read_whole, body, size=len(body))
        except AnswerTooLargeError:
            if not self.leave():
                raise
            return body
        if shown is None:
            self._is_kept = True
            return body
        await self._keep(is_whole=True)
        return shown

    def _read_whole(self, body: bytes) -> bytes | None:
        """Return the shown form of an answer; None if it is not one."""
        try:
            value = json.loads(body)
        except (ValueError, RecursionError):
            return None
        if not isinstance(value, dict):
            return None
        return write_json(value) if self._answer.take_whole(value) else body

    def leave(self) -> bool:
        """Stop reading, and commit nothing. Return whether the client may get the rest unread."""
        self._is_left = self._is_kept = True
        self._splitter = EventSplitter()
        _log.warning("proxy: a reply could not be kept (it is too large)")
        return self._is_plain

    async def close(self) -> None:
        """Commit the part of an interrupted reply that the client saw."""
        await self._keep(is_whole=False)

    async def _keep(self, *, is_whole: bool) -> None:
        if not self._is_kept:
            self._is_kept = True
            times = CallTimes(first_ms=self._first_ms, whole_ms=self._count_ms())
            await self._keeper.keep(
                self._principal, self._turn, self._answer, times, is_whole=is_whole, again=self._again
            )

    def _count_ms(self) -> int:
        return round((perf_counter() - self._called) * 1000)
