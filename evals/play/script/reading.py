"""Reads a play: a folder with `play.yaml` and, if it has a world of its own, the pack in it.

The whole script is checked before anything is played; all faults are reported at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from evals.errors import DatasetError
from evals.play.script.values import (
    DEFAULT_BUDGET_TOKENS,
    Edit,
    Fact,
    Failure,
    Fork,
    GivenEvidence,
    HostAction,
    HostEvent,
    Pattern,
    Play,
    Question,
    ScriptTurn,
    Switch,
    ToolResult,
)
from evals.play.script.yaml_fields import Fields, open_yaml
from evals.running.gate import EXAMPLE_PREFIX, find_world

PLAY_FILE = "play.yaml"
PLAYS_FOLDER = Path(__file__).parents[2] / "plays"
MAIN_BRANCH = "main"
NO_WORLD = "none"
_PLAY = ("name", "locale", "world", "user", "budget", "facts", "turns", "events", "lore_labels")
_TURN = ("input", "reply", "fails", "retry", "slips", "facts", "about", "relevant", "ask", "key_facts")
_ACTIONS = ("tool_result", "evidence", "fork", "switch", "edit")


def edit_branch(event: HostEvent) -> str:
    """Return the name of the branch that an edit opens."""
    return f"edit_{event.before}"


def find_plays(names: list[str] | None = None, folder: Path = PLAYS_FOLDER) -> list[Path]:
    """Return the folders of plays: the named ones, each a folder or the name of one that comes with the project; or all.

    DatasetError for one that is not there.
    """
    own = sorted(each.parent for each in folder.glob(f"*/{PLAY_FILE}"))
    if names is None:
        return own
    found = []
    for name in names:
        places = [place for place in (Path(name), folder / name) if (place / PLAY_FILE).is_file()]
        if not places:
            known = ", ".join(each.name for each in own) or "none"
            raise DatasetError(
                f"{name}: there is no folder of this name with a {PLAY_FILE}. Plays of the project: {known}."
            )
        found.append(places[0])
    return found


def read_play(folder: Path) -> Play:
    """Read and check a play; DatasetError with all faults, each with file, line, turn, field and what to do."""
    file = open_yaml(folder / PLAY_FILE)
    root = file.root(_PLAY)
    turns = tuple(_read_turn(row.only(_TURN), number) for number, row in enumerate(root.rows("turns", "turn"), start=1))
    if not turns:
        root.fail("turns", "holds no turn; write at least one")
    play = Play(
        name=root.text("name"),
        locale=root.choice("locale", ("zh", "en")) or "en",
        turns=turns,
        world=_read_world(root, folder),
        user=root.text("user", ""),
        budget=root.number("budget", DEFAULT_BUDGET_TOKENS, least=100),
        facts={name: fact for name, fact in _read_facts(root.section("facts")).items() if fact is not None},
        events=tuple(event for row in root.rows("events", "event") if (event := _read_event(row, turns)) is not None),
        lore_labels={
            name: frozenset(labels.texts(name)) for labels in [root.section("lore_labels")] for name in labels.names()
        },
    )
    if "locale" not in root:
        root.fail("locale", "is missing; write zh or en")
    if play.name and play.name != folder.resolve().name:
        root.fail("name", f"is {play.name!r}; a play has the name of its folder, {folder.resolve().name!r}")
    _check_branches(root, play)
    file.close()
    return play


def _read_world(root: Fields, folder: Path) -> Path | None:
    if "world" not in root:
        return None
    name = root.text("world")
    if name == NO_WORLD:
        return None
    try:
        found = find_world(folder, name)
    except DatasetError as error:
        root.fail("world", str(error))
        return None
    if not (found / "world.yaml").is_file():
        root.fail(
            "world", f"there is no world.yaml in {found}; name a folder beside {PLAY_FILE} or {EXAMPLE_PREFIX}NAME"
        )
    return found


def _read_turn(row: Fields, number: int) -> ScriptTurn:
    fails = row.choice("fails", tuple(Failure))
    if fails is not None and "reply" in row and fails != Failure.CUT_OFF:
        row.fail("reply", f"stands beside `fails: {fails}`; a call that fails has no reply: take one of them away")
    return ScriptTurn(
        number=number,
        input=row.text("input"),
        reply=row.text("reply", may_be_empty=True) if "reply" in row else None,
        fails=None if fails is None else Failure(fails),
        retry=row.flag("retry"),
        slips=row.texts("slips"),
        facts=_read_facts(row.section("facts")),
        about=frozenset(row.texts("about")),
        relevant=frozenset(row.texts("relevant")) if "relevant" in row else None,
        ask=_read_question(row, number),
        key_facts=_read_key_facts(row.section("key_facts")),
    )


def _read_question(row: Fields, number: int) -> Question | None:
    if "ask" not in row:
        return None
    ask = row.section("ask", ("answers", "from"))
    answers = ask.patterns("answers")
    if not answers:
        ask.fail("answers", "is empty; write at least one text that answers the question")
    told = ask.number("from", most=number) if "from" in ask else None
    return Question(answers=answers, told=told)


def _read_key_facts(section: Fields) -> Mapping[str, tuple[Pattern, ...]]:
    found = {name: section.patterns(name) for name in section.names()}
    for name in (name for name, patterns in found.items() if not patterns):
        section.fail(name, "is empty; write at least one text that states the fact")
    return found


def _read_facts(section: Fields) -> Mapping[str, Fact | None]:
    facts: dict[str, Fact | None] = {}
    for name in section.names():
        if section.is_null(name):
            facts[name] = None
            continue
        entry = section.section(name, ("shown", "wrong"))
        facts[name] = Fact(shown=entry.patterns("shown"), wrong=entry.patterns("wrong"))
        if facts[name] == Fact():
            entry.fail(
                "", "says neither `shown` nor `wrong`; write at least one, or `null` for a fact that no longer holds"
            )
    return facts


def _read_event(row: Fields, turns: tuple[ScriptTurn, ...]) -> HostEvent | None:
    row.only(("before", *_ACTIONS, *(("at",) if "fork" in row else ())))
    named = [key for key in row.names() if key in _ACTIONS]
    before = row.number("before", most=max(1, len(turns)))
    if len(named) != 1:
        row.fail("", f"needs exactly one of {', '.join(_ACTIONS)}; it has {', '.join(named) or 'none'}")
        return None
    action = _read_action(row, named[0], turns, before)
    return None if action is None else HostEvent(before=before, action=action)


def _read_action(row: Fields, kind: str, turns: tuple[ScriptTurn, ...], before: int) -> HostAction | None:
    if kind == "fork":
        return Fork(branch=row.text("fork"), at=row.number("at", least=0, most=before - 1))
    if kind == "switch":
        return Switch(branch=row.text("switch"))
    if kind == "edit":
        return _read_edit(row.section("edit", ("turn", *_TURN)), turns, before)
    name = {"tool_result": "name", "evidence": "kind"}[kind]
    body = row.section(kind, (name, "text", "about"))
    about = frozenset(body.texts("about"))
    if kind == "tool_result":
        return ToolResult(name=body.text("name"), text=body.text("text"), about=about)
    return GivenEvidence(kind=body.text("kind"), text=body.text("text"), about=about)


def _read_edit(section: Fields, turns: tuple[ScriptTurn, ...], before: int) -> Edit | None:
    if before < 2:
        section.fail("turn", "there is no earlier turn to edit before turn 1")
        return None
    of = section.number("turn", most=before - 1)
    text = section.text("input")
    if "reply" not in section and turns[before - 1].input == text:
        return Edit(of=of)
    edited, original = _read_turn(section, of), turns[of - 1]
    if "reply" not in section:
        # The model answers the edited input as it answered the first one.
        edited = replace(edited, reply=original.reply, facts=original.facts, about=original.about, slips=original.slips)
    return Edit(of=of, turn=edited)


def _check_branches(root: Fields, play: Play) -> None:
    """Note a branch that is opened twice or was never opened, in the order of play."""
    known = {MAIN_BRANCH}
    rows = root.rows("events", "event")
    for place, event in sorted(enumerate(play.events), key=lambda each: each[1].before):
        row = rows[place] if len(rows) == len(play.events) else root
        if isinstance(event.action, Fork):
            if event.action.branch in known:
                row.fail("fork", f"the branch {event.action.branch!r} is open already; give each its own name")
            known.add(event.action.branch)
        elif isinstance(event.action, Edit):
            known.add(edit_branch(event))
        elif isinstance(event.action, Switch) and event.action.branch not in known:
            row.fail("switch", f"there is no branch {event.action.branch!r} yet; open are {', '.join(sorted(known))}")
