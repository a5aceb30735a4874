"""The answer of a turn on its way to the client: read as it passes, shown as the client may see it, and kept before its end."""

from __future__ import annotations

import json

from jacquard.service.proxy.keeping import KeptTurn, TurnKeeper
from jacquard.service.proxy.replies.answers import AnswerReader, ContentView, WholeView
from jacquard.service.proxy.replies.events import EventSplitter
from jacquard.service.proxy.requests.chat_request import Api, write_json
from jacquard.service.values import Principal
from jacquard.templating.profiles import ReplyForm


class TurnPassage:
    """A `Passage` (`jacquard.service.proxy.relay`) that keeps the reply of a turn.

    The reply is kept before the client learns that it is whole, so that the client's next call finds it. Of a reply that was
    cut off (the client hung up, the model server broke off) what the client saw is kept: chat clients keep it too, and send it
    with their next call. A reply that is shown as it came passes byte for byte.
    """

    def __init__(self, keeper: TurnKeeper, principal: Principal, turn: KeptTurn, api: Api) -> None:
        self._keeper, self._principal, self._turn = keeper, principal, turn
        self._is_plain = turn.reply_form is ReplyForm.TEXT
        self._answer = AnswerReader(api, WholeView if self._is_plain else ContentView)
        self._splitter = EventSplitter()
        self._is_kept = False

    async def take(self, part: bytes) -> bytes:
        """Return what the client gets of a part of the stream."""
        shown = b"".join([self._answer.take(event) for event in self._splitter.take(part)])
        if self._answer.is_complete:
            await self._keep(is_whole=True)
        return part if self._is_plain else shown

    async def end(self) -> bytes:
        """Return what the client gets last, and keep a reply whose stream ended without saying so."""
        rest = self._splitter.end()
        shown = (self._answer.take(rest) if rest else b"") + self._answer.end()
        await self._keep(is_whole=True)
        return b"" if self._is_plain else shown

    async def whole(self, status: int, body: bytes) -> bytes:
        """Return what the client gets of an answer that is no stream."""
        if status != 200:
            self._is_kept = True
            return body
        try:
            value = json.loads(body)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            self._is_kept = True
            return body
        is_changed = self._answer.take_whole(value)
        await self._keep(is_whole=True)
        return write_json(value) if is_changed else body

    async def close(self) -> None:
        """Keep what was shown of a reply that was cut off."""
        await self._keep(is_whole=False)

    async def _keep(self, *, is_whole: bool) -> None:
        if not self._is_kept:
            self._is_kept = True
            await self._keeper.keep(self._principal, self._turn, self._answer, is_whole=is_whole)
