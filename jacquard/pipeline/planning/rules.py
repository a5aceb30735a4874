"""Plans turns by rules (planner tier 0), without a model; every input gets a plan.

Pure, except that the patterns of a pack run under time limits. A dictionary of names is cached for each world; the cache does not
change the plans. This module must not import a stream, a store or a model.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from itertools import accumulate, chain
from types import MappingProxyType

from jacquard.core.degradations import DegradationCode
from jacquard.core.names import NameDictionary, mentions, normalise
from jacquard.core.plan import (
    KEYWORD_CHARS,
    MAX_KEYWORDS,
    OverviewScope,
    PlanContext,
    SearchIntent,
    Temporal,
    Triage,
)
from jacquard.core.quests import Quest, find_active_quests, read_quests
from jacquard.pipeline.curation.recall_query import remove_speaker_labels
from jacquard.pipeline.planning.actions import read_input
from jacquard.pipeline.planning.lexicons.chinese import LEXICON as CHINESE
from jacquard.pipeline.planning.lexicons.english import LEXICON as ENGLISH
from jacquard.pipeline.planning.overview import find_overview
from jacquard.pipeline.planning.reading import OVERVIEW, RECALL, InputReading, is_fight_word, read_input_words
from jacquard.pipeline.planning.template_choice import choose_template, template_ids
from mnemosyne.chains.asides import is_aside, remove_asides
from mnemosyne.schema.record import SessionWindow
from mnemosyne.schema.world import PlannerRules, WorldPack
from mnemosyne.values import dataclass

FILLER_CHARS = 40
COMMAND_CHARS = 80
_ACTED = r"(?:me|say|do|emote|whisper|shout|yell|think|w|说|做|想|喊)"
_COMMAND = re.compile(
    rf"^(?:[/／](?!{_ACTED}\b)(?=[^\W\d_])[\w-]{{1,24}}|![a-z][a-z0-9_-]{{0,24}})(?=\s|$)[^\n/]*$", re.IGNORECASE
)
_SAYS_SOMETHING = re.compile(r"[^\W_]")


class Quiet(StrEnum):
    """Reason why memories are not searched for an input."""

    ASIDE = "words outside of the story"
    COMMAND = "a command to the program"
    FILLER = "nothing to search for"


def find_quiet(user_message: str) -> Quiet | None:
    """Return the reason why memories are not searched for this input. Return None if they are searched."""
    text = user_message.strip()
    if len(text) <= COMMAND_CHARS and _COMMAND.match(text):
        return Quiet.COMMAND
    if is_aside(text):
        return Quiet.ASIDE
    return Quiet.FILLER if is_filler(remove_asides(text)) else None


def is_filler(text: str) -> bool:
    """Return whether all words, signs and emoji of a text name nothing. Examples are 嗯, "ok" and 😀."""
    if not _SAYS_SOMETHING.search(text):
        return True
    words = " ".join("".join(char if char.isalnum() or char == "'" else " " for char in normalise(text)).split())
    if len(words) > FILLER_CHARS:
        return False
    return bool(ENGLISH.filler.fullmatch(words) or CHINESE.filler.fullmatch(words.replace(" ", "")))


_PLAIN_WORDS = (
    "a an the this that these those there here it its he she they we you i me my mine your yours his her hers our ours their "
    "theirs them him us who whom whose what which when where why how is are was were am be been being do does did done has "
    "have had having can could will would shall should may might must if then else and or but nor so yet for of in on at to "
    "from by with about into over after before under between through during without within as than not no yes ok okay please "
    "hi hello hey well oh ah thanks thank let lets let's go goes get give tell show say ask look see take make put use find "
    "list describe explain remember recall think know want need try now today tomorrow yesterday once all any both each "
    "every some such many much more most other another same only also just even still again maybe perhaps according based "
    "since because while although though i'm i'll i've i'd it's don't can't what's who's where's that's there's he's she's "
    "we're they're you're"
)
NOT_NAMES = frozenset(_PLAIN_WORDS.split())


DOMAIN_WEIGHTS: Mapping[Temporal, Mapping[str, float]] = MappingProxyType(
    {
        Temporal.NOW: MappingProxyType({"narrative": 0.5, "lore": 0.6, "event": 0.4}),
        Temporal.PAST: MappingProxyType({"narrative": 0.8, "lore": 0.5, "event": 0.5}),
        Temporal.FUTURE: MappingProxyType({"narrative": 0.4, "lore": 0.6, "event": 0.6}),
    }
)
_DICTIONARIES = 8
_QUOTED = re.compile('「([^「」]{1,40})」|『([^『』]{1,40})』|“([^“”]{1,40})”|《([^《》]{1,40})》|"([^"\n]{1,40})"')
_SENTENCE_ENDS = frozenset(".!?。！？…:\n")
_WORD = re.compile(r"[^\W_][\w'’-]*")


@dataclass(frozen=True, kw_only=True, slots=True)
class InputNames:
    """Names in an input, in order of appearance: ids of entities, and search words."""

    entities: tuple[str, ...]
    keywords: tuple[str, ...]
    ambiguous: tuple[str, ...] = ()
    """Names that belong to several entities."""
    guessed: bool = False
    """True if `keywords` are guessed, and at least one keyword is something else than the capitalised first word of a
    sentence.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class Focus:
    """Quest in focus (the active quest that a turn is about), or None, with the reason for the choice."""

    quest: Quest | None
    reason: str
    pointed: bool = False
    """True if the input refers to the quest, or if the focus is locked."""
    torn: bool = False
    """True if the input refers to another quest as much as to this one."""


class RulePlanner:
    """Plans by rules. No memories are searched for words outside of the story, commands to the program and inputs
    without a subject.

    The confidence of a plan (0..1) is 0.40, changed by these amounts:

    - +0.25 if the input names an entity or asks for an overview; otherwise +0.15 if names were guessed (unless they only begin
      sentences).
    - +0.15 if the focus is certain: it is locked, there is at most one active quest, or the input refers to the quest.
    - +0.10 if a word shows the time.
    - +0.10 if a template rule matches.
    - -0.20 if a name belongs to several entities.
    - -0.20 if the input refers to two quests equally.

    The confidence of declared actions, and of inputs for which nothing is searched, is 1.0.
    """

    def __init__(self) -> None:
        self._dictionaries: dict[tuple[str, str], NameDictionary] = {}

    def plan(self, user_message: str, window: SessionWindow, world: WorldPack) -> PlanContext:
        """Return the plan of the turn that follows the messages in `window`."""
        spoken = remove_speaker_labels(user_message, window, world)
        told = remove_asides(spoken)
        quests = find_active_quests(window.state)
        dictionary = self._dictionary(world)
        names = find_names(told, dictionary)
        text = normalise(told)
        pointing = {quest.quest_id: _score_quest(text, names.entities, quest, dictionary) for quest in quests}
        focus = choose_focus(quests, pointing, find_previous_focus(window), locked=world.planner.focus_locked)
        read = read_input(user_message, world)
        base = PlanContext(
            triage=Triage.NARRATIVE,
            active_quest_id=focus.quest.quest_id if focus.quest else None,
            # A guidance has one goal: that of a quest only if the input may be about it.
            current_goal="" if names.entities and not focus.pointed else goal_of(focus.quest, world.locale),
            template_id=world.planner.default_template,
            search_intent=SearchIntent(enabled=False),
            entities=names.entities,
            flags=(DegradationCode.ACTION_PATTERN_FAILED.value,) if read.faults else (),
        )
        # A declared action changes only numbers: it needs no memories and no model.
        if read.action is not None:
            return replace(
                base,
                triage=Triage.NUMERICAL,
                action_id=read.action.action_id,
                reasons=(f"the whole input is the action {read.action.action_id}", *read.faults),
            )
        quiet = find_quiet(spoken)
        # Out-of-story words search nothing, unless they ask about the story.
        reading = read_input_words(
            spoken if quiet is Quiet.ASIDE else told, world.planner.past_words, world.planner.future_words
        )
        overview = (
            None if quiet in (Quiet.COMMAND, Quiet.FILLER) else _find_overview(reading, dictionary, window, world)
        )
        if quiet is not None and overview is None and not (quiet is Quiet.FILLER and names.entities):
            return _plan_quiet(base, quiet, user_message, window, world.planner, (focus.reason, *read.faults))
        if overview is not None:
            reading = replace(reading, intents=reading.intents - {RECALL} | {OVERVIEW})
        template_id, rule = choose_template(
            reading, window.state, world.planner, find_previous_template(window, world.planner)
        )
        temporal, word = reading.temporal, reading.is_timed
        return replace(
            base,
            template_id=template_id,
            search_intent=SearchIntent(
                enabled=True,
                focus_keywords=names.keywords,
                temporal_context=temporal,
                domain_weight=weights_of(temporal, world.planner, is_history=not reading.has_player),
                overview=overview,
            ),
            confidence=_confidence(
                names,
                focus,
                settled=len(quests) < 2 or world.planner.focus_locked,
                word=word,
                rule=rule,
                overview=overview is not None,
            ),
            reasons=(
                *_reasons(names, focus, temporal, word, template_id, rule),
                *(() if overview is None else (f"the input asks for an overview: {overview.value}",)),
                *read.faults,
            ),
        )

    def _dictionary(self, world: WorldPack) -> NameDictionary:
        key = (world.world_id, world.digest)
        known = self._dictionaries.get(key)
        if known is None:
            known = NameDictionary(world.entities)
            kept = list(self._dictionaries.items())[1 - _DICTIONARIES :]
            self._dictionaries = {**dict(kept), key: known}
        return known


def _find_overview(
    reading: InputReading, dictionary: NameDictionary, window: SessionWindow, world: WorldPack
) -> OverviewScope | None:
    def read_subjects() -> tuple[Mapping[str, str], Collection[str]]:
        player = normalise(world.user_name)
        kinds = {each.entity_id: each.kind for each in world.entities if normalise(each.name) != player}
        return kinds, [quest.title for quest in read_quests(window.state)]

    return find_overview(reading.outside, dictionary, read_subjects)


def find_previous_focus(window: SessionWindow) -> str | None:
    """Return the id of the quest in focus in the previous turn. Return None if there was no focus or no previous turn."""
    plan = window.previous.plan if window.previous is not None else None
    quest_id = plan.get("active_quest_id") if plan is not None else None
    return quest_id if isinstance(quest_id, str) else None


def find_previous_template(window: SessionWindow, rules: PlannerRules) -> str | None:
    """Return the template of the previous turn. Return None if there is no previous turn, or if `rules` do not have
    this template any more.
    """
    plan = window.previous.plan if window.previous is not None else None
    template_id = plan.get("template_id") if plan is not None else None
    return template_id if template_id in template_ids(rules) else None


def _plan_quiet(
    base: PlanContext,
    quiet: Quiet,
    user_message: str,
    window: SessionWindow,
    rules: PlannerRules,
    reasons: tuple[str, ...],
) -> PlanContext:
    """Return the plan of an input that searches nothing; "Go on" keeps the template of the scene."""
    previous = find_previous_template(window, rules) if quiet is Quiet.FILLER else None
    temporal = read_input_words(user_message).temporal if quiet is Quiet.ASIDE else Temporal.NOW
    return replace(
        base,
        template_id=previous or rules.default_template,
        search_intent=SearchIntent(enabled=False, temporal_context=temporal, domain_weight=weights_of(temporal, rules)),
        reasons=(f"the input is {quiet.value}: memory is not searched", *reasons),
    )


def find_names(user_message: str, dictionary: NameDictionary) -> InputNames:
    """Return the names that `dictionary` finds in an input. If it finds none, return guessed names."""
    found = dictionary.find(user_message)
    if not found:
        guessed, is_sure = guess_names(user_message)
        return InputNames(entities=(), keywords=guessed, guessed=is_sure)
    sure = {each.phrase: each.entity_ids[0] for each in found if len(each.entity_ids) == 1}
    return InputNames(
        entities=_drop_repeats(sure.values()),
        keywords=_drop_repeats(dictionary.names[sure[e.phrase]] if e.phrase in sure else e.phrase for e in found)[
            :MAX_KEYWORDS
        ],
        ambiguous=_drop_repeats(each.phrase for each in found if each.phrase not in sure),
    )


def choose_focus(
    quests: Sequence[Quest], pointing: Mapping[str, tuple[bool, int]], previous: str | None, *, locked: bool
) -> Focus:
    """Return the quest in focus: the quest with the id `previous`, unless the input refers more to another one of
    `quests`. If `previous` is not active, the first quest counts as the previous one.

    `pointing` maps the id of each quest to (whether the input contains its title, number of its entities in the input).
    A title counts more than any number of entities. If `locked` is true, the input is ignored.
    """
    if not quests:
        return Focus(quest=None, reason="no quest is active")
    present = next((quest for quest in quests if quest.quest_id == previous), None)
    start = present or quests[0]
    reason = f"{start.quest_id} stays in focus" if present else f"{start.quest_id} is the first active quest"
    if locked:
        return Focus(quest=start, reason=f"{reason}; the focus is locked", pointed=True)
    best = max(quests, key=lambda quest: pointing[quest.quest_id])
    if pointing[best.quest_id] > pointing[start.quest_id]:
        start, reason = best, f"the input points at {best.quest_id}"
    strength = pointing[start.quest_id]
    pointed = strength > (False, 0)
    rivals = sum(each == strength for each in pointing.values()) - 1
    return Focus(quest=start, reason=reason, pointed=pointed, torn=pointed and rivals > 0)


def _score_quest(text: str, entities: Sequence[str], quest: Quest, dictionary: NameDictionary) -> tuple[bool, int]:
    own = {dictionary.find_owner(each) for each in quest.entities}
    return (mentions(text, quest.title), len(own.intersection(entities)))


def goal_of(quest: Quest | None, locale: str) -> str:
    """Return the current goal of a quest: the first open step with its progress, or the quest's description (else its
    title) if no step is open. Return '' if `quest` is None.

    If the step states no progress, the progress of the quest is used, but only if the quest has at most one step. With
    more steps, the progress of the quest may be about another step. The progress is in brackets of the language
    `locale`.
    """
    if quest is None:
        return ""
    steps = quest.open_objectives
    text = steps[0].text if steps else quest.description or quest.title
    progress = (steps[0].progress if steps else "") or (quest.progress if len(quest.objectives) <= 1 else "")
    if not progress:
        return text
    return f"{text}（{progress}）" if locale.startswith("zh") else f"{text} ({progress})"


def weights_of(temporal: Temporal, rules: PlannerRules, *, is_history: bool = False) -> Mapping[str, float]:
    """Return the weights (0..1) of the domains `narrative`, `lore` and `event` for a search.

    The weights are the defaults for the time `temporal`, overridden by the weights that `rules` have for this time.
    `is_history` is true if the input is about a past without the player ("Who built the temple?"). Such a past may be
    the history of the world, which is lore. Then the weights of the present are used, because they do not prefer
    memories of the play.
    """
    if is_history and temporal is Temporal.PAST:
        temporal = Temporal.NOW
    own = rules.domain_weights.get(temporal.value, {})
    merged = {**DOMAIN_WEIGHTS[temporal], **{name: own[name] for name in own if name in DOMAIN_WEIGHTS[temporal]}}
    return MappingProxyType({name: min(1.0, max(0.0, float(weight))) for name, weight in merged.items()})


def guess_names(user_message: str) -> tuple[tuple[str, ...], bool]:
    """Return (names, is_sure): likely names in an input, found without a dictionary.

    Likely names are quoted texts and capitalised words that are not common. `is_sure` is true if at least one of them
    is something else than the capitalised first word of a sentence.
    """
    found: list[tuple[int, str]] = [
        (match.start(), text.strip()) for match in _QUOTED.finditer(user_message) for text in match.groups() if text
    ]
    is_sure = bool(found)
    run: list[re.Match[str]] = []
    for word in chain(_WORD.finditer(user_message), (None,)):
        if run and (word is None or user_message[run[-1].end() : word.start()] != " " or not _is_name(word)):
            found.append((run[0].start(), _join_name([_strip_possessive(each[0]) for each in run])))
            is_sure = is_sure or len(run) > 1 or not _begins_sentence(user_message, run[0].start())
            run = []
        if word is not None and _is_name(word):
            run.append(word)
    return _drop_repeats(text for _, text in sorted(found) if text)[:MAX_KEYWORDS], is_sure


def _join_name(words: Sequence[str]) -> str:
    """Return the first words of a name up to the length of a search word; '' if the first word is longer."""
    ends = accumulate(len(word) + 1 for word in words)
    return " ".join(word for word, end in zip(words, ends, strict=True) if end <= KEYWORD_CHARS + 1)


def _is_name(word: re.Match[str]) -> bool:
    """Return whether a word is capitalised for another reason than beginning a sentence; "I" is never a name."""
    plain = word[0].casefold().replace("’", "'")
    if not word[0][0].isupper() or plain.partition("'")[0] == "i":
        return False
    return not (plain in NOT_NAMES or is_fight_word(plain)) or not _begins_sentence(word.string, word.start())


def _begins_sentence(text: str, place: int) -> bool:
    """Return whether there is only punctuation between a place and the end of the previous sentence or the start of the text."""
    while place > 0:
        place -= 1
        if text[place] in _SENTENCE_ENDS:
            return True
        if text[place].isalnum() or text[place] == "_":
            return False
    return True


def _strip_possessive(word: str) -> str:
    return word[:-2] if word.endswith(("'s", "’s")) else word


def _drop_repeats(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


def _confidence(
    names: InputNames, focus: Focus, *, settled: bool, word: bool, rule: bool, overview: bool = False
) -> float:
    total = 0.40 + (0.25 if names.entities or overview else 0.15 if names.guessed else 0.0)
    total += 0.15 * (settled or focus.pointed) + 0.10 * word + 0.10 * rule
    total -= 0.20 * bool(names.ambiguous) + 0.20 * focus.torn
    return round(min(1.0, max(0.0, total)), 2)


def _reasons(
    names: InputNames, focus: Focus, temporal: Temporal, word: bool, template_id: str, rule: bool
) -> Iterable[str]:
    yield focus.reason
    if focus.torn:
        yield "the input points at another active quest just as much"
    if names.entities:
        yield f"the input names {', '.join(names.entities)}"
    elif names.guessed:
        yield "no entity of the world is named; keywords are guessed from quotes and capitals"
    else:
        yield "the input names no entity"
    if names.ambiguous:
        yield f"several entities are called {', '.join(names.ambiguous)}"
    if word:
        yield f"words of the {temporal.value}"
    if rule:
        yield f"a rule chose the template {template_id}"
