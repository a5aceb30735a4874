"""Summarizes with a small model. The model is asked once more if its answer is too long, was cut off, or lost too much.

All text to summarize is escaped and marked as data. The answer is not trusted: its length is limited, thoughts and code
fences are removed, and an answer that must have lost content of the previous summary is refused. This module must not
import a concrete model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from filament import escape_attribute, escape_text, unescape
from jacquard.adapters.prompts.templates import render_prompt, warm_prompts, words_per_token
from jacquard.core.errors import ModelError, SummarizerError
from jacquard.core.model_answers import read_fence, strip_thoughts
from jacquard.core.model_calls import Call
from jacquard.core.protocols import (
    ConversationTurn,
    LlmAdapter,
    LlmRequest,
    LlmResponse,
    MessagePart,
    SummaryRequest,
    SummaryText,
)
from jacquard.pipeline.truncation import keep_last_sentences
from mnemosyne.values import dataclass

LINE_CHARS = 4000
"""Longer messages are cut for the model call."""
ANSWER_CHARS = 20_000
"""Maximum number of characters read of an answer."""
SHRUNKEN = 0.65
"""Minimum length of a new summary, as a share of the previous summary or of the limit, whichever is shorter. A shorter
summary is refused.
"""

SHRUNKEN_WITH_ROOM = 0.9
"""Share that replaces SHRUNKEN if the previous summary takes less than ROOMY of the limit, because nothing has to be
left out yet.
"""

ROOMY = 0.7
"""Share of the limit below which nothing of a summary has to be shortened."""

KEPT_TOKENS = 60
"""Summaries with fewer tokens may shrink by any amount."""

MAY_GO = 0.2
"""Share of the names and numbers in the previous summary that may be lost, if the previous summary is so long that it
must be shortened.
"""

NAMED_LOST = 5
"""Maximum number of lost names and numbers that an error lists."""

LONGER = 1.25
"""Factor by which an answer may exceed its token limit. Sentences are cut from a longer answer."""

_WRAPPED = re.compile(r"\A<(summary|new_summary|summary_so_far)>(.*?)(?:</\1>)?\Z", re.DOTALL)
_LABEL = re.compile(
    r"\A(?:\*\*)?(?:(?:new |updated )?summary(?: so far)?|(?:新的?|更新后的?)?(?:摘要|前情提要|前情摘要))(?:\*\*)?\s*[:：]\s*",
    re.I,
)
_ENDS = re.compile(r"[.!?…。！？;；:：\"'”’」』»）)\]*>]\Z")
_ENDED = re.compile(r"[.!?][\"'”’)»]?\s+\S|[。！？…][」』”’）]?\S")
_NUMBER = re.compile(r"\d+[.,:]?\d+")
_BRACKETS = re.compile(r"\[[^\]]*\]")
_BLANK = re.compile(r"\n{3,}")
_CUT_MARK = re.compile(r"\[…\]?")
_BLANKS = re.compile(r"[ \t]{2,}")


def summary_prompt(request: SummaryRequest, refused: str = "") -> tuple[MessagePart, ...]:
    """Return the messages of a summarizer's call. The system message contains the rules. The user message contains the
    previous summary and the new turns.

    `refused` is an earlier answer to the same request that could not be used ('': there is none).
    """
    so_far = without_cut_marks(request.previous)
    background = f"<who_is_who>\n{escape_text(request.background)}\n</who_is_who>\n" if request.background else ""
    previous = f"<summary_so_far>\n{escape_text(so_far)}\n</summary_so_far>\n" if so_far else ""
    again = {"refused": escape_text(refused)} if refused else {}
    return render_prompt(
        "summary_again" if refused else "summary",
        request.locale,
        words=int(request.limit_tokens * words_per_token(request.locale)),
        summary_so_far=background + previous,
        turns=render_conversation(request.turns),
        **again,
    )


def render_conversation(turns: Sequence[ConversationTurn]) -> str:
    """Return turns as data for a model. Each turn is one element with the id of the turn. Each line begins with its
    speaker.
    """
    return "\n".join(
        "\n".join(
            [
                f'<turn id="{escape_attribute(turn.turn_id)}">',
                *(f"{escape_text(speaker)}: {escape_text(_clip_line(text))}" for speaker, text in turn.lines),
                *(f"<changes>{escape_text('; '.join(turn.changes))}</changes>" for _ in turn.changes[:1]),
                "</turn>",
            ]
        )
        for turn in turns
    )


def read_summary(answer: str, request: SummaryRequest, count: Callable[[str], int]) -> str:
    """Return the summary in the model's `answer`, even if it is too long. `count` returns the tokens of a text.

    Raises SummarizerError if the summary is empty, is much shorter than the previous one, ends in the middle of a
    sentence, or lacks too many names or numbers of the previous one.
    """
    text = clean_answer(answer)
    if not text:
        raise SummarizerError("The model's summary is empty.")
    before, now = count(request.previous), count(text)
    share = SHRUNKEN_WITH_ROOM if before < request.limit_tokens * ROOMY else SHRUNKEN
    if before >= KEPT_TOKENS and now < min(before, request.limit_tokens) * share:
        raise SummarizerError(f"The model's summary shrank from {before} to {now} tokens; the old one stays.")
    if _ENDED.search(text) and not _ENDS.search(text):
        raise SummarizerError("The model's summary ends in the middle of a sentence; the old one stays.")
    lost = find_lost(request, text)
    if len(lost) > (0 if before < request.limit_tokens * ROOMY else len(_kept_words(request)) * MAY_GO):
        raise SummarizerError(f"The model's summary lost {', '.join(lost[:NAMED_LOST])}; the old one stays.")
    return text


def find_lost(request: SummaryRequest, text: str) -> list[str]:
    """Return the names and numbers of the previous summary (in `request`) that `text` does not contain."""
    return [word for word in _kept_words(request) if word not in text]


def _kept_words(request: SummaryRequest) -> list[str]:
    """Return the names of the world and the numbers in the previous summary; if one name is part of another, the shorter."""
    names = [name for name in request.names if len(name) > 1 and name in request.previous]
    shortest = [name for name in names if not any(other != name and other in name for other in names)]
    return list(dict.fromkeys((*shortest, *_NUMBER.findall(_BRACKETS.sub("", request.previous)))))


def is_too_long(text: str, limit_tokens: int, count: Callable[[str], int]) -> bool:
    """Return whether a summary exceeds its token limit by more than the factor LONGER. `count` returns the tokens of a
    text.
    """
    return count(text) > limit_tokens * LONGER


def shorten_summary(text: str, limit_tokens: int, count: Callable[[str], int]) -> tuple[str, int]:
    """Return (summary, omitted). If `text` is too long, `summary` is the text without its oldest sentences, and
    `omitted` is the number of omitted sentences. Otherwise they are the text and 0. `count` returns the tokens of a
    text.
    """
    return keep_last_sentences(text, limit_tokens, count) if is_too_long(text, limit_tokens, count) else (text, 0)


def clean_answer(answer: str) -> str:
    """Return the text of a model's answer, unescaped and without thoughts, code fences, labels, extra blank lines and
    cut marks.
    """
    text = strip_thoughts(answer[:ANSWER_CHARS]).strip()
    fenced = read_fence(text, own_line=True)
    text = text if fenced is None else fenced
    if (found := _WRAPPED.match(text)) is not None:
        text = found.group(2).strip()
    text = _BLANK.sub("\n\n", _LABEL.sub("", text, count=1))
    return without_cut_marks(unescape(text))


def without_cut_marks(text: str) -> str:
    """Return a summary without cut marks (`[…]`), which a model would read as part of the story."""
    return _BLANKS.sub(" ", _CUT_MARK.sub("", text)).strip() if "[…" in text else text.strip()


def _clip_line(text: str) -> str:
    return text if len(text) <= LINE_CHARS else text[: LINE_CHARS - 1] + "…"


_CUT_OFF = frozenset({"length", "max_tokens"})


@dataclass(frozen=True, kw_only=True, slots=True)
class _Answer:
    """One answer: its text, which may become the summary unless there is a `fault`."""

    text: str
    call: Call
    fault: str = ""


class ModelSummarizer:
    """Summarizer that asks a small model for a new summary, from the previous one and the turns since."""

    name = "model"

    def __init__(self, llm: LlmAdapter, count: Callable[[str], int], timeout_seconds: float = 60.0) -> None:
        self._llm, self._count, self._timeout_seconds = llm, count, timeout_seconds

    async def summarize(self, request: SummaryRequest) -> SummaryText:
        """Return the new summary with the cost of its model calls. The model is called at most twice. If the last
        answer is still too long, its oldest sentences are cut.

        Raises SummarizerError if the model cannot be called or its answer cannot be used.
        """
        await warm_prompts()
        answer = await self._ask(request)
        unused: tuple[Call, ...] = ()
        if answer.text and (answer.fault or is_too_long(answer.text, request.limit_tokens, self._count)):
            answer, unused = await self._ask_again(request, answer)
        if answer.fault:
            raise SummarizerError(answer.fault, *unused, answer.call)
        content, dropped = shorten_summary(answer.text, request.limit_tokens, self._count)
        return SummaryText(
            content=content,
            model=answer.call.model,
            prompt_tokens=answer.call.prompt_tokens,
            completion_tokens=answer.call.completion_tokens,
            prompt=answer.call.prompt,
            dropped_lines=dropped,
            unused_calls=unused,
        )

    async def _ask_again(self, request: SummaryRequest, first: _Answer) -> tuple[_Answer, tuple[Call, ...]]:
        """Return the better of two answers, and the call of the other."""
        try:
            second = await self._ask(request, refused=first.text)
        except SummarizerError as error:
            if first.fault:
                raise SummarizerError(str(error), first.call, *error.calls) from error
            return first, error.calls
        if second.fault and not first.fault:
            return first, (second.call,)
        return second, (first.call,)

    async def _ask(self, request: SummaryRequest, refused: str = "") -> _Answer:
        asked = LlmRequest(
            messages=summary_prompt(request, refused),
            # Twice the limit, so that an answer that is somewhat too long arrives complete and its oldest part can be cut.
            max_tokens=request.limit_tokens * 2 + 256,
            timeout_seconds=self._timeout_seconds,
        )
        prompt = "\n".join(text for _, text in asked.messages)
        try:
            reply = await self._llm.generate(asked)
        except ModelError as error:
            spent = Call(model=self._llm.model, prompt=prompt)
            raise SummarizerError(f"The model could not be called for a summary: {error}.", spent) from error
        return self._read_answer(reply, prompt, request)

    def _read_answer(self, reply: LlmResponse, prompt: str, request: SummaryRequest) -> _Answer:
        call = Call(
            model=reply.model,
            prompt=prompt,
            answer=reply.content,
            prompt_tokens=reply.prompt_tokens,
            completion_tokens=reply.completion_tokens,
        )
        text = clean_answer(reply.content)
        if text and (reply.finish_reason in _CUT_OFF or len(reply.content) > ANSWER_CHARS):
            fault = "The model's summary was cut off before its end, where the newest talk is told; the old one stays."
            return _Answer(text=text, call=call, fault=fault)
        try:
            return _Answer(text=read_summary(reply.content, request, self._count), call=call)
        except SummarizerError as error:
            return _Answer(text=text, call=call, fault=str(error))
