"""Finds open threads (promises, debts and questions that a turn leaves open), and finds the turns that end them.

The rules are for English and Chinese. Example: the reply "I will bring you the lantern, I promise." leaves a promise
open. A thread is stored as an event of its turn. It is recalled when a person, place or date in it is mentioned. The
end of a thread is an event too, so thread and end belong to the branch of their turns. Only plain statements count. A
sentence leaves no thread open if it denies, asks or supposes something, or reports something as done.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from jacquard.core.names import NameDictionary
from jacquard.memory.summarize.sentences import is_question, split_sentences
from jacquard.memory.summarize.worth import is_idle, is_outside, is_protocol, names_in
from jacquard.pipeline.curation.selectors.relevance import content_words
from mnemosyne.chains.audience import NOBODY, audience_field, audience_of_messages, told_messages
from mnemosyne.chains.event import CLOSED
from mnemosyne.core.lazy_patterns import lazy_pattern
from mnemosyne.schema.memory import (
    QUEST_UPDATE,
    TAKES_FROM_RECALL,
    THREAD,
    Chain,
    MemoryEntry,
    Trust,
    session_scope,
)
from mnemosyne.schema.record import TurnRecord
from mnemosyne.schema.session import Message, Role
from mnemosyne.values import dataclass

PROMISE, DEBT, QUESTION = "promise", "debt", "question"
KINDS = (PROMISE, DEBT, QUESTION)
THREAD_KEPT = "thread_kept"
"""Kind of an event that ends a thread. Recall then leaves out the thread."""

MOST_OF_A_TURN = 3
"""Maximum number of threads that one turn may open by these rules."""
SENTENCE_CHARS = 300
"""Longer sentences are not considered."""
_READ_CHARS = 8_000
_KEYS = 12
_SHARED = 2
_EVADED_WITHIN = 3
"""An evasion is within this many first sentences of a reply."""
_LEAST_ZH = 6

_HINT_TEXT = (
    "promis|swear|swore|vow|pledge|borrow|repay| word| owe| back|pay |money|loan|honour|honor|"
    "保证|发誓|起誓|立誓|承诺|许诺|答应|欠|借了|借走|借来|借用|还你|还您|还他|还她|还给|归还|再还|会还|要还|"
    "约定|约好|说定|说好|一言为定|一定|必定"
)
_KEPT_TEXT = (
    "promise|vow|oath|debt|owe|paid|repa|settle|question|asked| word|are even| back|"
    "说到做到|兑现|履行|守信|守约|守诺|守住|守了|如约|依约|答应|清|还给|还了|债|你问|问过"
)
_HINTS, _HINTS_KEPT = tuple(_HINT_TEXT.split("|")), tuple(_KEPT_TEXT.split("|"))
"""Words of which every promise, every debt and every end of one contains at least one. A text without them is not read
further.
"""
_FUTURE = lazy_pattern(
    r"(?i)\b(?:will|shall|would|won['’]t|going to|nobody|no one|never again)\b|['’]ll\b"
    r"|\b(?:promise|swear|swore|vow|pledge)\w*(?: \w+)? (?:to|never|not to)\b"
)
_VOW = lazy_pattern(
    r"\b(?i:I|we)(?i:,? (?:do|hereby|solemnly|now|also|both))? (?i:promise|swear|vow|pledge)\b"
    r"|\b(?i:(?:I|we) (?:give|gave)) [\w' ]{1,40}?\b(?i:my|our) word\b|\b(?i:you have my word|my word on it|on my honou?r)\b"
    r"|\b(?:[A-Z]\w+|he|she|they) (?:promise[sd]|swears|swore|vow(?:s|ed)|pledge[sd])"
    r"(?: (?:me|you|us|him|her|them|[A-Z]\w+))?,? (?:to|that|never|he|she|they|it)\b"
)
_BARE_VOW = lazy_pattern(
    r"(?i)^[\"“]?(?:I (?:promise|swear)|you have my word|(?:that|this) is a promise|that['’]s a promise|my word on it)\b.{0,20}$"
    r"|^[「“]?(?:我|这是我的?)(?:保证|发誓|承诺|诺言)"
)
_WILL_DO = lazy_pattern(r"\b(?:I|We|we)(?: will| shall|['’]ll)\b|我们?[^，。]{0,8}(?:会|要|就|一定)")
_NO_VOW = lazy_pattern(
    r"(?i)\b(?:promise|swear|vow)s?d? (?:\w+ )?(?:nothing|no such|anything)\b|\bno promises?\b|\bswear to god\b"
    r"|\b(?:if|whether|unless|as|did|had|when) (?:\w+ ){0,3}(?:promise|swear|swore|vow)"
    r"|\b(?:not|never|cannot|can't|won't|don't|doesn't|didn't|refuses? to) (?:\w+ ){0,2}(?:promise|swear|vow|pledge)"
    r"|\b(?:kept|keeps?|broke|breaks?|forgot|fulfil\w*|honou?r\w*) (?:\w+ )?(?:promise|word|vow|oath)s?\b"
)
_OWES = lazy_pattern(
    r"\b(?i:I|you|we|they|he|she|[A-Z]\w+)(?i:'ll)?(?i: (?:still|now|also|both|will|already)){0,2} (?i:owes?)\b"
    r"|\b(?i:I|we)(?i:'ll| will| shall) (?i:(?:pay|give) [\w' ]{1,30}?\bback|repay|return (?:the|your) (?:money|coins?|loan))\b"
    r"|\b(?i:I|we) (?i:borrow)\b"
)
_NO_DEBT = lazy_pattern(
    r"(?i)\bowes? (?:\w+ ){0,2}(?:nothing|anything|no(?:thing)? more)\b|\b(?:not|never|no longer|don't|doesn't) owes?\b|\bowed\b"
    r"|\b(?:if|what|who|whom|whoever|how much) (?:\w+ ){0,3}owes?\b|\bowes? its\b|\bback (?:for|now)\b"
)
_ASKS = lazy_pattern(
    r"(?i)\b(?:who|whose|whom|what|where|when|why|which)\b(?!.{0,20}\bweather\b)"
    r"|\bhow (?:did|do|does|can|could|many|much|old|long|far|has|have)\b"
)
_ASKS_ZH = lazy_pattern(r"^(?!.*天气).*(?:谁|什么(?!意思)|哪|为何|为什么|怎么(?!样|办|了)|多少|几[个时天年人])")
_EVADES = lazy_pattern(
    r"(?i)\b(?:do|does|did)(?: not|n['’]t) (?:answer|reply|respond|say|know)\b|\bsay(?:s|ing)? nothing\b|\bno (?:answer|reply)\b"
    r"|\bwithout (?:answering|an answer)\b|\bchang(?:es|ing|ed) the subject\b|\b(?:avoid|evade|dodge)\w* (?:the|your|my) question\b"
    r"|\bnot (?:now|yet|here|tonight)\b|\b(?:another|some other) time\b"
    r"|\bask (?:me |us )?(?:again |that )?(?:later|tomorrow|then)\b"
    r"|\b(?:can ?not|can['’]t|must not|may not|dare not|won['’]t|will not) (?:say|tell|speak|answer)\b"
    r"|\b(?:will|['’]ll) (?:tell|explain|answer)\b.{0,40}\b(?:later|tomorrow|when|once|tonight)\b"
    r"|\b(?:no one|nobody) (?:knows|answers|replies|speaks)\b"
    r"|没有?(?:回答|答话|应声|作声|开口)|一言不发|不发一言|默不作声|不[语言](?=[，。」])|不[肯愿]意?(?:回答|答|说|讲|开口)|不(?:回答|作答|答话|吭声|能说|便说|好说|知道|清楚)|岔开|避而不答|笑而不[语答]"
    r"|别(?:问|再问)|改(?:天|日)再|(?:明天|以后|回头|下次|到时候?|日后)再?(?:告诉|说|讲|谈)|时候(?:未|没)到|不到时候|[没无]人知道|谁也不知"
)
_VOW_ZH = lazy_pattern(
    r"(?:保证|发誓|起誓|立誓|承诺|许诺)(?!书|金|人|单)|答应(?:了|过)?(?:[你您他她我]|要|会|替|帮|给|把|在|到|等|陪|明|后)"
)
_PACT_ZH = lazy_pattern(
    r"约(?:定|好)(?!俗|的)|说(?:定|好)了(?![没吗])|说好(?=[明今后初三二一]\w)|一言为定|我们?(?:一定|必定|定)(?:会|要|把|替|帮|回来|去)"
)
_FUTURE_ZH = lazy_pattern(
    r"会|要|一定|必定|必将|绝|决不|再[不也]|永不|不再|把|替|帮|带|陪|送|等你|[明后]天|明[日早晚年]|之前|(?:保证|发誓|承诺|许诺)[^，。]{0,2}不|为你|给[你您他她我]|找到|回来"
)
_NO_VOW_ZH = lazy_pattern(
    r"(?:不|没|没有|未曾?|不敢|不能|不会|无法|别|休想|怎敢|哪敢|何时|什么时候)[^，。！？；]{0,3}(?:保证|发誓|起誓|承诺|许诺|答应|约定|约好|说定|说好)"
    r"|如约|依约|按约|照约|赴约|说到做到|兑现|履行|守(?:信|约|诺)|(?:如果|要是|假如|是否|有没有)[^，。]{0,8}(?:保证|发誓|答应|承诺)"
    r"|什么也不|谁也不|(?:^|[，。！「“])答应我"
)
_OWES_ZH = lazy_pattern(
    r"(?<![哈呵亏拖])欠(?!条|了?欠|据|缺|佳|揍|打|身|伸|妥|考虑|了?[多少]少|抱|谁|什么)|借(?:了|走|来|用了)(?!条|据|口|着|的)"
    r"|(?:一定|必定|定|必|会|要|再|就|初.|月底|年底|[明后]天|周.)(?:会|要|当|再)?(?:把[^，。]{1,10})?(?:归?还|偿还)(?:给)?[你您他她]"
)
_NO_DEBT_ZH = lazy_pattern(
    r"(?:不|没|没有|没人|无人|谁也不|从不|不再|并不|互不)(?:拖|亏|再)?欠|欠[着了]?(?:多少|几)|还(?:清|完|给了|了|上了)|还给(?![你您])|付清|结清|两清|借(?:给|你|您)?(?:条|据)|如果|要是|谁欠"
)
_DATE = lazy_pattern(
    r"(?i)\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b|\b(?:midnight|noon|dawn|dusk|new moon|full moon|harvest|solstice)\b"
    r"|\b(?:january|february|april|june|july|august|september|october|november|december)\b"
    r"|(?:周|星期|礼拜)[一二三四五六日天]|初[一二三四五六七八九十]|十五|[正腊]月|[子丑寅卯辰巳午未申酉戌亥]时|[一二三四五]更|午夜|正午|月圆|清明|中秋|除夕"
)
_PERSON_ZH = lazy_pattern(r"[阿老小](?![人爷板师婆家是实子心时孩声说姐路事儿])[一-鿿]")
_PLACE_ZH = lazy_pattern(
    r"[一-鿿]{1,2}(?:坊|祠堂|庙|寺|桥|井|镇|村|府|山|河|岛|城|码头|客栈|驿馆|洞|渡口|钟楼|教堂|酒馆|铁匠铺)"
)
_KEEPS_PROMISE = lazy_pattern(
    r"(?i)\b(?:kept|keeps?|keeping|fulfil\w*|honou?r(?:s|ed)) (?:my|his|her|their|your|our|the|its) (?:promise|word|vow|oath)\b"
    r"|\bas (?:I |we |he |she |they )?(?:had )?promised\b|\btrue to (?:my|his|her|their|your) word\b"
    r"|说到做到|兑现|履行|信守|如约|依约|守(?:住|了)?(?:信|诺言|约定|承诺)|答应过?[你您我他她]?的[^，。]{0,12}(?:带来|做到|办到|拿来|给[你您我他她])"
)
_KEEPS_DEBT = lazy_pattern(
    r"(?i)\b(?:pay|pays|paid|repay|repays|repaid|return|returns|returned|give|gives|gave|hand|hands|handed|settle|settles|settled)\b"
    r"[^.!?]{0,80}\b(?:owed?|debt|loan|back|in full)\b|\bdebt is (?:paid|settled)\b|\bwe are even\b|\bno longer owes?\b"
    r"|还清|还给了?|还了|偿还了|付清|结清|两清|债[^，。]{0,4}(?:还|清|了结)"
)
_KEEPS_QUESTION = lazy_pattern(
    r"(?i)\b(?:answers?|answered) (?:my|your|his|her|the) (?:old |first )?question\b"
    r"|\byou (?:once )?asked (?:me )?(?:who|what|where|why|when|how)\b"
    r"|你(?:上次|之前|以前|曾经?)问[过起我]"
)
_KEEPS = ((PROMISE, _KEEPS_PROMISE), (DEBT, _KEEPS_DEBT), (QUESTION, _KEEPS_QUESTION))
_NOT_KEPT = lazy_pattern(
    r"(?i)\b(?:not|never|n['’]t|cannot|if|when|until|before|will|shall|must|should|want|try|tries|promis\w+ to|swears?)\b|['’]ll\b"
    r"|[没不未别]|一定|保证|发誓|等|如果|要是|会|要"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenThread:
    """Promise, debt or question that a turn leaves open."""

    kind: str
    """One of KINDS."""
    text: str
    """Sentence that states the thread, together with the previous sentence if it is needed to understand the first."""
    is_users: bool = False
    """True if the user wrote the sentence, not the model."""


def find_threads(asked: str, told: str) -> tuple[OpenThread, ...]:
    """Return the threads that a user's message (`asked`) and its reply (`told`) leave open, at most MOST_OF_A_TURN.

    If two threads are about the same thing, only the later one is returned. A question counts only if the reply evades
    the question.
    """
    asked, told = asked[:_READ_CHARS], told[:_READ_CHARS]
    is_evaded = ("?" in asked or "？" in asked) and _EVADES.search(told[: 2 * SENTENCE_CHARS]) is not None
    has_ours, has_theirs = _has_any(asked, _HINTS), _has_any(told, _HINTS)
    if not (has_ours or has_theirs or is_evaded) or is_outside(asked):
        return ()
    ours = _sentences(asked) if has_ours or is_evaded else []
    theirs = _sentences(told) if has_theirs or is_evaded else []
    found = [
        OpenThread(kind=kind, text=text, is_users=is_users)
        for is_users, sentences in ((True, ours), (False, theirs))
        for text, before, sentence in sentences
        if (kind := _kind_of(before, sentence)) is not None
    ]
    if is_evaded and _is_evaded([sentence for _, _, sentence in theirs]):
        questions = [sentence for _, _, sentence in ours if _is_worth_an_answer(sentence)]
        found += [OpenThread(kind=QUESTION, text=text, is_users=True) for text in questions[-1:]]
    kept: list[OpenThread] = []
    for each in found:
        kept = [one for one in kept if one.kind != each.kind or not _share(one.text, each.text)]
        kept.append(each)
    return tuple(kept[-MOST_OF_A_TURN:])


def _has_any(text: str, words: Sequence[str]) -> bool:
    # Every commit searches for them, and a generator would cost a call for each word.
    return any(map(f" {text.lower()}".__contains__, words))


def _sentences(text: str) -> list[tuple[str, str, str]]:
    """Return the sentences of a text, each with the text to remember and the previous sentence.

    Speech without its speaker and a bare vow are remembered together with the previous sentence.
    """
    found: list[tuple[str, str, str]] = []
    before = ""
    for sentence in split_sentences(text):
        is_short = len(sentence) <= SENTENCE_CHARS
        if is_short and not is_protocol(sentence):
            is_speech = sentence[0] in '"“「『«' and sentence.rstrip()[-1] in '"”」』»'
            joins = bool(before) and (is_speech or _BARE_VOW.search(sentence) is not None)
            found.append((f"{before} {sentence}" if joins else sentence, before, sentence))
        before = sentence if is_short else ""
    return found


def _kind_of(before: str, sentence: str) -> str | None:
    """Return the kind of a sentence: a promise, a debt (a promise to pay), or None."""
    if is_question(sentence) or not _has_any(sentence, _HINTS):
        return None
    if (_OWES.search(sentence) and not _NO_DEBT.search(sentence)) or (
        _OWES_ZH.search(sentence) and not _NO_DEBT_ZH.search(sentence)
    ):
        return DEBT
    if _NO_VOW.search(sentence) or _NO_VOW_ZH.search(sentence):
        return None
    if _BARE_VOW.search(sentence) and _WILL_DO.search(before) and not is_question(before):
        return PROMISE
    says = (_VOW.search(sentence) and _FUTURE.search(sentence)) or _PACT_ZH.search(sentence)
    return PROMISE if says or (_VOW_ZH.search(sentence) and _FUTURE_ZH.search(sentence)) else None


def _is_evaded(told: Sequence[str]) -> bool:
    """Return whether a reply consists of an evasion."""
    place = next((place for place, sentence in enumerate(told[:_EVADED_WITHIN]) if _EVADES.search(sentence)), None)
    if place is None:
        return False
    said = [sentence for sentence in told[place + 1 :] if any(sign in sentence for sign in '"“「『«')]
    return all(_EVADES.search(sentence) for sentence in said)


def _is_worth_an_answer(sentence: str) -> bool:
    """Return whether a sentence asks for information, and not how somebody is."""
    if not is_question(sentence) or is_idle(sentence):
        return False
    if _ASKS_ZH.search(sentence):
        return len(sentence) >= _LEAST_ZH
    return _ASKS.search(sentence) is not None and len(content_words(sentence)) >= _SHARED


def _share(one: str, other: str) -> bool:
    return bool(content_words(one) & content_words(other))


def make_threads(record: TurnRecord, reply: Message, at: datetime | None) -> tuple[MemoryEntry, ...]:
    """Return the threads that a turn leaves open, as events of this turn. `reply` is the reply of the turn, and `at`
    its time (None: unknown).
    """
    asked = [each for each in told_messages(record.messages) if each.role is Role.USER]
    found = find_threads("\n".join(each.content for each in asked), reply.content)
    speaker = asked[-1].author.id if asked and asked[-1].author is not None else Role.USER.value
    agent = reply.author.id if reply.author is not None else Role.ASSISTANT.value
    return tuple(
        build_thread(
            record,
            f"{record.turn_id}.thread.{number}",
            each.kind,
            each.text,
            speaker=speaker if each.is_users else agent,
            trust=Trust.USER if each.is_users else Trust.MODEL,
            at=at,
        )
        for number, each in enumerate(found, start=1)
    )


def build_thread(
    turn: TurnRecord,
    entry_id: str,
    kind: str,
    text: str,
    *,
    at: datetime | None,
    speaker: str | None = None,
    trust: Trust = Trust.MODEL,
) -> MemoryEntry:
    """Return a thread as an event of `turn`, visible to the viewers who may know the turn. The keys of the event are
    the names and dates in `text`. `kind` is one of KINDS. `speaker` wrote the text, `trust` is the trust in it, and
    `at` is its time (None: unknown).
    """
    dates = [found.group().lower() for found in _DATE.finditer(text)]
    more = [found.group() for pattern in (_PERSON_ZH, _PLACE_ZH) for found in pattern.finditer(text)]
    return MemoryEntry(
        entry_id=entry_id,
        scope=session_scope(turn.session_id),
        chain=Chain.EVENT,
        kind=THREAD,
        text=text,
        speaker=speaker,
        at=at,
        turn_id=turn.turn_id,
        keys=tuple(dict.fromkeys((*sorted(names_in(text)), *more, *dates)))[:_KEYS],
        tags=(kind,),
        trust=trust,
        metadata=audience_field(audience_of_messages(told_messages(turn.messages))),
    )


def name_entities(threads: Iterable[MemoryEntry], lexicon: NameDictionary) -> tuple[MemoryEntry, ...]:
    """Return threads with the entities of the world that their texts name."""
    return tuple(
        replace(
            each, entities=tuple(dict.fromkeys(one for found in lexicon.find(each.text) for one in found.entity_ids))
        )
        for each in threads
    )


def find_keeping(asked: str, told: str) -> dict[str, str]:
    """Return kind of thread -> sentence of the turn that ends a thread of this kind. For most turns the result is
    empty. `asked` is the user's message and `told` the reply.
    """
    found: dict[str, str] = {}
    for text in (asked[:_READ_CHARS], told[:_READ_CHARS]):
        if _has_any(text, _HINTS_KEPT):
            for _, _, sentence in _sentences(text):
                for kind, pattern in _KEEPS:
                    if pattern.search(sentence) and not is_question(sentence) and not _NOT_KEPT.search(sentence):
                        found[kind] = sentence
    return found


def find_kept(
    threads: Sequence[MemoryEntry], keeping: dict[str, str], events: Iterable[MemoryEntry]
) -> list[tuple[MemoryEntry, str]]:
    """Return the open threads that a turn ends, each as (thread, reason).

    `threads` are the open threads. A sentence in `keeping` (kind of thread -> sentence) ends the thread of this kind
    that matches the sentence best. If a quest ends in `events`, all threads that share enough words with this event
    end.
    """
    kept: dict[str, tuple[MemoryEntry, str]] = {}
    for kind, sentence in keeping.items():
        fitting = [(_overlap(each, sentence), each) for each in threads if kind in each.tags]
        best = max(fitting, key=lambda pair: pair[0], default=None)
        if best is not None and best[0] >= _SHARED:
            kept[best[1].entry_id] = best[1], sentence
    for event in events:
        if event.kind == QUEST_UPDATE and CLOSED.intersection(event.tags):
            for each in threads:
                if _overlap(each, event.text) >= _SHARED:
                    kept.setdefault(each.entry_id, (each, event.text))
    return list(kept.values())


def _overlap(thread: MemoryEntry, sentence: str) -> int:
    """Return how many words a thread shares with a sentence; 0 if they name others."""
    names, theirs = names_in(thread.text), names_in(sentence)
    if names and theirs and not any(one in other or other in one for one in names for other in theirs):
        return 0
    return len(content_words(thread.text) & content_words(sentence))


def build_keeping(turn: TurnRecord, entry_id: str, thread: MemoryEntry, text: str, at: datetime | None) -> MemoryEntry:
    """Return the event of `turn` that ends `thread`. `text` is the reason. No viewer may see this event. `at` is the
    time of the turn (None: unknown).
    """
    return MemoryEntry(
        entry_id=entry_id,
        scope=session_scope(turn.session_id),
        chain=Chain.EVENT,
        kind=THREAD_KEPT,
        text=text,
        at=at,
        turn_id=turn.turn_id,
        viewers=NOBODY,
        trust=Trust.MODEL,
        metadata={TAKES_FROM_RECALL: thread.entry_id},
    )


def open_threads(events: Sequence[MemoryEntry]) -> list[MemoryEntry]:
    """Return the threads that are still open: those of `events`, the events of a path, that no other event of the path
    ends. They keep their order.
    """
    kept = {each.metadata.get(TAKES_FROM_RECALL) for each in events if each.kind == THREAD_KEPT}
    return [each for each in events if each.kind == THREAD and each.entry_id not in kept]
