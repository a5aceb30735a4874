"""Shows the prompt of a turn as it was sent to the model, if it differs from the prepared prompt. Pure.

The proxy passes the calls of a client to a model, and adds memories to them. A person may edit a prompt before it is sent.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby

from filament.boundaries import unescape_content
from jacquard.core.block_kinds import SAID
from jacquard.core.blocks import FRAME, MESSAGE_OVERHEAD_TOKENS
from jacquard.core.receipt import EDITED, PREPARED, Action, BlockDecision, BlockSpan, SentPrompt, SentText
from jacquard.pipeline.record.prepared_turn import PreparedTurn
from jacquard.pipeline.weaving.assemble import PromptMessage
from mnemosyne.core.codec import replace_struct

CLIENT = "client"
"""Source name of client messages that the session does not have. The block ids of such messages begin with this name."""
_DIGEST_CHARS = 16


def digest_of_text(text: str) -> str:
    """Return the digest that a receipt contains instead of a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]


def as_sent(turn: PreparedTurn) -> PreparedTurn:
    """Return `turn` with the messages that were sent to the model. A turn that the proxy did not send is returned unchanged.

    A client message that the session has word for word is shown with its text and its id in the session. Of all other client
    messages, such as a system prompt, only the size and the digest are known and shown.
    """
    sent = turn.report.sent
    if sent is None:
        return turn
    held = _find_stored(turn, sent.texts)
    messages, spans, added = list[PromptMessage](), list[BlockSpan](), list[BlockDecision]()
    for number, members in groupby(enumerate(sent.texts), key=lambda each: each[1].message):
        content, role = "", ""
        for place, each in members:
            role, start = each.role, len(content) + 2 * bool(content)
            stored = held.get(place)
            text = each.text if each.is_ours else _name_of(place, sent.texts) if stored is None else stored[1]
            if content:
                spans.append(BlockSpan(block_id=FRAME, message=number, start=len(content), end=start, tokens=0))
            content = f"{content}\n\n{text}" if content else text
            if each.is_ours:
                spans += _spans_of_ours(turn, each, start)
                continue
            name = f"{CLIENT}:{place}" if stored is None else stored[0].block_id
            span = BlockSpan(block_id=name, message=number, start=start, end=start + len(text), tokens=each.tokens)
            spans.append(span if stored is None else replace_struct(span, kind=stored[0].kind))
            if stored is None:
                added.append(_decide_own(name, each))
        messages.append(PromptMessage(role=role, content=content))
    shown = {span.block_id for span in spans}
    decisions = [each for each in turn.report.decisions if each.kind not in SAID or each.block_id in shown]
    used = sent.client_tokens + sent.our_tokens
    budget = replace(turn.report.budget, used_tokens=used, limit_tokens=max(used, turn.report.budget.limit_tokens))
    report = replace(turn.report, spans=tuple(spans), decisions=(*decisions, *added), budget=budget)
    return replace(turn, messages=tuple(messages), report=report)


def _name_of(place: int, texts: Sequence[SentText]) -> str:
    text, following = texts[place], texts[place + 1 : place + 2]
    count = following[0].message - text.message if following else 1
    return f"[{text.digest}]" if count <= 1 else f"[{count} messages: {text.digest}]"


def _decide_own(name: str, sent: SentText) -> BlockDecision:
    reason = "The client sent it; the session has not these words."
    return BlockDecision(
        block_id=name,
        action=Action.KEPT,
        code=CLIENT,
        reason=reason,
        tokens=sent.tokens,
        source=CLIENT,
        title=sent.role,
    )


def _find_stored(turn: PreparedTurn, texts: Sequence[SentText]) -> dict[int, tuple[BlockSpan, str]]:
    """Return the messages of the turn's history and input that the client sent word for word, by their places in the call."""
    known: dict[str, list[tuple[BlockSpan, str]]] = {}
    for span in turn.report.spans:
        if span.kind in SAID:
            content = turn.messages[span.message].content[span.start : span.end]
            text = content if turn.report.as_written else unescape_content(content)
            known.setdefault(digest_of_text(text), []).append((span, text))
    found: dict[int, tuple[BlockSpan, str]] = {}
    # Of equal messages, the client shows the newest ones.
    for place in range(len(texts) - 1, -1, -1):
        if not texts[place].is_ours and known.get(texts[place].digest):
            found[place] = known[texts[place].digest].pop()
    return found


def _spans_of_ours(turn: PreparedTurn, sent: SentText, start: int) -> list[BlockSpan]:
    """Return the spans of one text of ours, which begins at `start`; their tokens add up to its own."""
    own = {span.block_id: span for span in turn.report.spans}
    spans, at, spent = list[BlockSpan](), 0, 0
    for block_id in sent.blocks:
        span = own.get(block_id) if block_id != FRAME else None
        text = "" if span is None else turn.messages[span.message].content[span.start : span.end]
        found = sent.text.find(text, at) if text else -1
        if span is None or found < 0:
            continue
        spans.append(_frame(sent, start + at, start + found))
        at, spent = found + len(text), spent + span.tokens
        spans.append(replace_struct(span, message=sent.message, start=start + found, end=start + at))
    spans.append(_frame(sent, start + at, start + len(sent.text), sent.tokens - spent))
    return spans


def _frame(sent: SentText, start: int, end: int, tokens: int = 0) -> BlockSpan:
    return BlockSpan(block_id=FRAME, message=sent.message, start=start, end=end, tokens=tokens)


def record_edit(turn: PreparedTurn, texts: Sequence[str], count: Callable[[str], int]) -> PreparedTurn:
    """Return `turn` with a receipt that states the sent prompt, of which a person may have edited some messages. `texts` are the
    texts of its messages, in their order. If none of them differs from the prompt, the receipt states nothing.

    `count` returns the tokens of a text. Raises ValueError if the prompt has another number of messages.
    """
    pairs = list(zip(turn.messages, texts, strict=True))
    if all(message.content == text for message, text in pairs):
        return replace(turn, report=replace(turn.report, sent=None))
    sent = tuple(
        SentText(
            message=number,
            role=message.role,
            tokens=count(text) + MESSAGE_OVERHEAD_TOKENS,
            text=text,
            place=PREPARED if message.content == text else EDITED,
            blocks=tuple(dict.fromkeys(each.block_id for each in turn.report.spans if each.message == number)),
        )
        for number, (message, text) in enumerate(pairs)
    )
    tokens = sum(each.tokens for each in sent)
    return replace(turn, report=replace(turn.report, sent=SentPrompt(texts=sent, client_tokens=0, our_tokens=tokens)))
