"""Defines the format of world packs as tables. A table has, for every key of a file, the shape (expected form), the default
and a sentence for authors.

Packs are checked by these tables. `publish` generates the JSON Schema and the authors' page from them.
"""

from __future__ import annotations

from filament.state.quests import OBJECTIVE_STATUSES as OBJECTIVE_STATUSES
from filament.state.quests import QUEST_STATUSES as QUEST_STATUSES
from mnemosyne.schema.memory import Comparison, LoreCategory
from mnemosyne.schema.world import ACTIVATIONS, INTENTS, RECALL
from mnemosyne.shapes import Anything, Choice, Field, Flag, KeyedValues, Many, Number, Record, Shape, Text
from mnemosyne.world.format.shapes import SLUG, Described, OpList, ShortCondition, Tree, identifier

VERBS = ("SET", "PUSH", "ADD", "SUB", "MUL", "DIV", "POP", "DELETE")
TEMPORALS = ("past", "now", "future")

WORDS = Many(item=Text())
IDENTIFIERS = Many(item=identifier())
WEIGHT = Number(low=0, high=1)
PATH = Text(pattern=r"\S+", hint="a path has no spaces", max_chars=500)

_COMPARED = (
    Field(name="path", shape=PATH, required=True, doc="Flat path into the state, such as `hero.health`."),
    Field(
        name="op",
        shape=Choice(words=tuple(each.value for each in Comparison)),
        required=True,
        doc="How the value at the path is compared.",
    ),
    Field(name="value", shape=Anything(), required=True, doc="The value to compare with; a list for `in`."),
)
CONDITION = Record(
    name="condition",
    label="a condition",
    fields=(
        *_COMPARED,
        Field(name="message", shape=Text(blank=True), fallback="", doc="Free text; only a guard shows it."),
    ),
)
GUARD = Record(
    name="guard",
    label="a guard",
    fields=(
        *_COMPARED,
        Field(name="message", shape=Text(), required=True, doc="The reply to the player when it does not hold."),
    ),
)
CONDITIONS = Many(item=ShortCondition(record=CONDITION))
GUARDS = Many(item=ShortCondition(record=GUARD, short=False))

ENTITY = Record(
    name="entity",
    label="an entity",
    fields=(
        Field(name="id", shape=identifier(), required=True, doc="Id of the entity; unique in the pack."),
        Field(name="name", shape=Text(), required=True, doc="Its name in play."),
        Field(name="aliases", shape=WORDS, fallback=(), doc="Other names by which an input may refer to it."),
        Field(name="kind", shape=Text(blank=True), fallback="", doc="A free word: person, place, item, …"),
    ),
)

STATE_RULES = Record(
    name="state_rules",
    label="$meta",
    fields=(
        Field(name="description", shape=Text(), doc="A note for people."),
        Field(name="extensible", shape=Flag(), fallback=True, doc="Whether a reply may add fields."),
        Field(
            name="updatable",
            shape=Anything(),
            doc="true or false, or `field: true or false`; may a reply change values.",
        ),
        Field(
            name="necessary", shape=Anything(), doc="Fields that cannot be removed, in [ ], or self, children or all."
        ),
        Field(
            name="limits",
            shape=KeyedValues(item=Many(item=Number())),
            doc="`field: [least, most]`; null is an open end.",
        ),
        Field(name="lists", shape=WORDS, doc="Fields whose lists are lists, and not values with descriptions."),
        Field(name="types", shape=KeyedValues(item=Anything()), doc="`field: type`, or a list of the possible values."),
        Field(name="units", shape=KeyedValues(item=Text()), doc="`field: unit`, such as kg."),
        Field(
            name="descriptions", shape=KeyedValues(item=Anything()), doc="`field: [[value, text], …]`, or keep or drop."
        ),
        Field(
            name="template", shape=Anything(), doc="Example fields and rules that all things in this mapping follow."
        ),
        Field(name="hidden", shape=Anything(), doc="true, or the fields in [ ] that no prompt shows."),
    ),
)
"""Keys of `$meta` in the state. `checking/meta.py` checks them."""

WORLD = Record(
    name="world",
    label="world.yaml",
    fields=(
        Field(
            name="id",
            shape=Text(pattern=SLUG, hint="a world id consists of a-z, 0-9, '-' and '_', at most 64 characters"),
            required=True,
            doc="Id of the world.",
        ),
        Field(name="title", shape=Text(), required=True, doc="Title of the world."),
        Field(
            name="locale",
            shape=Text(
                pattern=r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*",
                hint="a locale looks like en, zh-CN or pt-BR",
                max_chars=32,
            ),
            required=True,
            doc="Language of the pack.",
        ),
        Field(
            name="profile",
            shape=identifier(),
            fallback="",
            doc="What kind of agent prompts are for: `story`, `assistant`, `coding`, `support`, or a profile of the pack "
            "(`templates/profiles/NAME.yaml`); without it, `story`.",
        ),
        Field(
            name="activation",
            shape=Choice(words=ACTIVATIONS),
            fallback=RECALL,
            doc="How entries with `world_info` reach a prompt: by relevance, as all lore does, or as they do in SillyTavern.",
        ),
        Field(name="instruction", shape=Text(blank=True), fallback="", doc="Opening text of the system prompt."),
        Field(name="persona", shape=Tree(), fallback={}, doc="The character of the model: name, description, voice, …"),
        Field(name="user_name", shape=Text(blank=True), fallback="", doc="The player's name."),
        Field(name="entities", shape=Many(item=ENTITY), fallback=(), doc="Things that an input can refer to by name."),
        Field(name="state", shape=Tree(rules=STATE_RULES), fallback={}, doc="The state tree at the start of play."),
        Field(
            name="story_time",
            shape=Many(item=PATH),
            fallback=(),
            doc="Paths of the state that tell the time of the story, such as `time.day`; memories show what they were then.",
        ),
    ),
)

LORE = Record(
    name="lore",
    label="a lore entry",
    fields=(
        Field(name="id", shape=identifier(), required=True, doc="Id of the entry; unique among all memories."),
        Field(name="name", shape=Text(), required=True, doc="Title shown above the text."),
        Field(
            name="category",
            shape=Choice(words=tuple(each.value for each in LoreCategory)),
            required=True,
            doc="How it gets into the prompt: axiom always, agent and encyclopedia by recall, directive right before the input.",
        ),
        Field(name="content", shape=Text(), required=True, doc="The text; in a Markdown file, everything below `---`."),
        Field(name="kind", shape=Text(blank=True), fallback="", doc="A free word: item, place, person, …"),
        Field(name="keys", shape=WORDS, fallback=(), doc="Words by which the entry is recalled."),
        Field(name="entities", shape=IDENTIFIERS, fallback=(), doc="Ids of the entities that it is about."),
        Field(name="tags", shape=WORDS, fallback=(), doc="Free labels."),
        Field(
            name="priority",
            shape=Number(low=0, high=100, whole=True),
            fallback=50,
            doc="0 to 100; a higher one is nearer to the input and is dropped later.",
        ),
        Field(name="viewers", shape=WORDS, fallback=(), doc="Who may know it; empty means everyone."),
        Field(name="when", shape=CONDITIONS, fallback=(), doc="Conditions on the state; all must hold."),
        Field(name="constant", shape=Flag(), fallback=False, doc="For a directive: active in every turn."),
        Field(name="enabled", shape=Flag(), fallback=True, doc="`false`: kept in the pack, and not used."),
        Field(
            name="world_info",
            shape=Tree(),
            fallback={},
            doc="What an import took from a book of world info: `world` (its name), `uid` and `fields` as SillyTavern has them.",
        ),
    ),
)

OBJECTIVE = Record(
    name="objective",
    label="an objective",
    fields=(
        Field(name="id", shape=identifier(), required=True, doc="Id of the objective; an anchor of the state."),
        Field(name="text", shape=Text(), required=True, doc="What is to be done."),
        Field(name="status", shape=Choice(words=OBJECTIVE_STATUSES), fallback="active", doc="Its status."),
        Field(name="optional", shape=Flag(), fallback=False, doc="True if the quest can end without it."),
        Field(name="progress", shape=Described(), doc="Progress of this step; shown with the goal."),
    ),
)
LINKS = Record(
    name="links",
    label="links",
    fields=(
        Field(name="requires", shape=IDENTIFIERS, fallback=(), doc="Ids of quests that must end before."),
        Field(name="leads_to", shape=IDENTIFIERS, fallback=(), doc="Ids of quests that follow."),
        Field(name="parent", shape=identifier(), doc="Id of the quest that it is a part of."),
    ),
)
QUEST = Record(
    name="quest",
    label="a quest",
    fields=(
        Field(name="id", shape=identifier(), required=True, doc="Id of the quest; an anchor of the state."),
        Field(name="title", shape=Text(), required=True, doc="Title shown to the player."),
        Field(name="status", shape=Choice(words=QUEST_STATUSES), fallback="inactive", doc="Status at the start."),
        Field(name="description", shape=Text(blank=True), fallback="", doc="What it is about."),
        Field(name="objectives", shape=Many(item=OBJECTIVE), fallback=(), doc="Steps, in order."),
        Field(name="links", shape=LINKS, fallback={}, doc="Its links to other quests."),
        Field(name="entities", shape=IDENTIFIERS, fallback=(), doc="Ids of the entities that it is about."),
        Field(
            name="progress",
            shape=Described(),
            doc="Progress of the whole quest: a value, or a value with a description.",
        ),
        Field(name="outcome", shape=Text(), doc="How it ended; recalled for a finished quest."),
    ),
)

NUMBER = Record(
    name="number",
    label="a number",
    fields=(
        Field(
            name="name",
            shape=Text(pattern=r"[A-Za-z_][A-Za-z0-9_]*", hint="a name consists of letters, digits and _"),
            required=True,
            doc="Name of the group; `{name}` in a pattern stands for a number.",
        ),
        Field(name="least", shape=Number(low=0, whole=True), fallback=1, doc="The least that it may be."),
        Field(
            name="most",
            shape=Number(low=0, high=999_999_999, whole=True),
            fallback=999_999_999,
            doc="The most that it may be.",
        ),
        Field(
            name="default", shape=Number(low=0, whole=True), doc="Its value where the input has none; else the least."
        ),
        Field(
            name="message", shape=Text(blank=True), fallback="", doc="The reply to the player outside of the bounds."
        ),
    ),
)
ACTION = Record(
    name="action",
    label="an action",
    fields=(
        Field(name="id", shape=identifier(), required=True, doc="Id of the action."),
        Field(
            name="patterns",
            shape=Many(item=Text(max_chars=500), least=1),
            required=True,
            doc="Regular expressions; one must match the whole input.",
        ),
        Field(name="numbers", shape=Many(item=NUMBER), fallback=(), doc="Groups of the patterns that are numbers."),
        Field(
            name="guards",
            shape=GUARDS,
            fallback=(),
            doc="Conditions; the message of the first that fails is the reply.",
        ),
        Field(
            name="ops",
            shape=Many(item=OpList(verbs=VERBS, short=("POP", "DELETE"), bare=("DELETE",)), least=1),
            required=True,
            doc="Changes of the state: `[VERB, path, value]`; DELETE has no value, POP may have one.",
        ),
        Field(name="reply", shape=Text(), required=True, doc="The reply: a template over the state after the ops."),
    ),
)

TEMPLATE_RULE = Record(
    name="template_rule",
    label="a template rule",
    fields=(
        Field(name="id", shape=identifier(), required=True, doc="Id of the template to use."),
        Field(name="keywords", shape=WORDS, fallback=(), doc="Words, of which at least one must be in the input."),
        Field(
            name="intents",
            shape=Many(item=Choice(words=INTENTS)),
            fallback=(),
            doc="What the input wants, beside the keywords: one of either is enough.",
        ),
        Field(
            name="temporal_context",
            shape=Many(item=Choice(words=TEMPORALS)),
            fallback=(),
            doc="Times; the input must be about one of them.",
        ),
        Field(name="when", shape=CONDITIONS, fallback=(), doc="Conditions on the state; all must hold."),
        Field(name="description", shape=Text(), fallback="", doc="What the template is for; told to the small model."),
    ),
)
WEIGHTS = Record(
    name="weights",
    label="weights",
    fields=tuple(
        Field(name=name, shape=WEIGHT, doc=f"Weight of the {name} chain, 0 to 1.")
        for name in ("narrative", "lore", "event")
    ),
)
DOMAIN_WEIGHTS = Record(
    name="domain_weights",
    label="domain_weights",
    fields=tuple(
        Field(name=name, shape=WEIGHTS, doc=f"Weights when the input is about the {name}.") for name in TEMPORALS
    ),
)
PLANNER = Record(
    name="planner",
    label="planner.yaml",
    fields=(
        Field(name="default_template", shape=identifier(), fallback="chat", doc="Template if no rule fits."),
        Field(name="templates", shape=Many(item=TEMPLATE_RULE), fallback=(), doc="Rules; the first that fits is used."),
        Field(name="past_words", shape=WORDS, fallback=(), doc="Words that refer to the past."),
        Field(name="future_words", shape=WORDS, fallback=(), doc="Words that refer to the future."),
        Field(name="domain_weights", shape=DOMAIN_WEIGHTS, fallback={}, doc="Weights of the chains, by time."),
        Field(name="focus_locked", shape=Flag(), fallback=False, doc="If true, the focused quest is never switched."),
        Field(
            name="confidence_threshold",
            shape=WEIGHT,
            fallback=0.6,
            doc="Below this confidence (0 to 1) a small model may be called.",
        ),
    ),
)

EVENT = Record(
    name="event",
    label="an event",
    fields=(
        Field(name="id", shape=identifier(), required=True, doc="Id of the event; unique among all memories."),
        Field(name="type", shape=identifier(), required=True, doc="A free word: plot_point, item_get, …"),
        Field(name="summary", shape=Text(), required=True, doc="What happened, in one sentence."),
        Field(name="participants", shape=WORDS, fallback=(), doc="Who took part: entity ids or names."),
        Field(name="location", shape=Text(), doc="Where: an entity id or a name."),
        Field(name="quest", shape=identifier(), doc="Id of the quest that it belongs to."),
    ),
)
TURN = Record(
    name="turn",
    label="a turn",
    fields=(
        Field(name="user", shape=Text(blank=True), required=True, doc="What the player said; empty for an opening."),
        Field(name="assistant", shape=Text(), required=True, doc="What the model replied."),
        Field(name="summary", shape=Text(), doc="The turn in one sentence; becomes a narrative memory."),
        Field(name="events", shape=Many(item=EVENT), fallback=(), doc="Events of the turn."),
    ),
)
NARRATIVE = Record(
    name="narrative",
    label="a narrative",
    fields=(
        Field(name="id", shape=identifier(), required=True, doc="Id of the narrative; unique among all memories."),
        Field(name="title", shape=Text(), required=True, doc="Title shown above the text."),
        Field(name="text", shape=Text(), required=True, doc="What happened over these turns."),
        Field(name="from_turn", shape=Number(low=1, whole=True), required=True, doc="First turn, counted from 1."),
        Field(name="to_turn", shape=Number(low=1, whole=True), required=True, doc="Last turn, included."),
    ),
)
HISTORY = Record(
    name="history",
    label="history.yaml",
    fields=(
        Field(name="turns", shape=Many(item=TURN), fallback=(), doc="Turns played before the session, oldest first."),
        Field(name="narratives", shape=Many(item=NARRATIVE), fallback=(), doc="Longer memories over several turns."),
    ),
)

INJECTION = Record(
    name="injection",
    label="a scheduled text",
    fields=(
        Field(name="id", shape=identifier(), required=True, doc="Id of the text; unique among all memories."),
        Field(name="text", shape=Text(), required=True, doc="Instruction to the model, right before the input."),
        Field(name="title", shape=Text(blank=True), fallback="", doc="Title for people; shown in receipts."),
        Field(name="every", shape=Number(low=1, whole=True), doc="Due in every n-th turn, counted from the first."),
        Field(name="on", shape=WORDS, fallback=(), doc="Due after a turn that caused one of these events."),
        Field(name="when", shape=CONDITIONS, fallback=(), doc="Conditions on the state; all must hold as well."),
        Field(
            name="cooldown",
            shape=Number(low=0, whole=True),
            fallback=0,
            doc="Turns after being shown before it can be shown again.",
        ),
        Field(name="once", shape=Flag(), fallback=False, doc="It is shown only once."),
        Field(
            name="priority",
            shape=Number(low=0, high=100, whole=True),
            fallback=50,
            doc="0 to 100; a higher one is nearer to the input.",
        ),
    ),
)

LORE_FILE = Many(item=LORE)
INJECTIONS_FILE = Many(item=INJECTION)
QUESTS_FILE = Many(item=QUEST)
ACTIONS_FILE = Many(item=ACTION)

FILES: dict[str, Shape] = {
    "world": WORLD,
    "lore": LORE_FILE,
    "lore_entry": LORE,
    "quests": QUESTS_FILE,
    "actions": ACTIONS_FILE,
    "planner": PLANNER,
    "injections": INJECTIONS_FILE,
    "history": HISTORY,
}
"""Shapes of the files of a pack, by the names of their schemas. `lore_entry` is a file with one entry of lore."""
