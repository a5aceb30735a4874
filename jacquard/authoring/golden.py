"""Tests golden prompts: renders the cases of a pack and compares each with the prompt that an author approved.

A case is the file `templates/tests/<name>.yaml`. Its approved prompt is `<name>.txt` in the same folder. A case starts
after the pack's prologue, without a store or a model. Files are only written if `update` is set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from filament import PayloadError, dump_yaml, load_yaml
from jacquard.authoring.findings import show_path, suggest_names
from jacquard.authoring.render import render_turn
from jacquard.authoring.replay.line_diff import diff_lines
from jacquard.authoring.target import FOLDER, TESTS_FOLDER, find_target
from jacquard.authoring.turns import AuthorTurn, build_pack_turn
from jacquard.core.errors import JacquardError
from jacquard.core.protocols import Planner, Selection
from jacquard.templating.profiles import AUTO
from mnemosyne.chains.session_start import session_start
from mnemosyne.files import write_file
from mnemosyne.protocols import TokenEstimator
from mnemosyne.schema.record import SessionWindow
from mnemosyne.schema.session import Message, Role, SessionHead, WindowMessage
from mnemosyne.schema.world import WorldPack
from mnemosyne.values import dataclass

KEYS = (
    "input",
    "template",
    "layout",
    "state",
    "messages",
    "memories",
    "limit_tokens",
    "max_tokens",
    "contains",
    "lacks",
)
"""Keys that the file of a case may have."""
PROLOGUE_TURNS = 6
"""Number of the newest prologue turns that a case shows if it has no messages of its own."""


class Verdict(StrEnum):
    """Result of a case. NEW: the case has no golden prompt yet. WRITTEN: the golden prompt of the case was written."""

    PASSED = "passed"
    CHANGED = "changed"
    FAILED = "failed"
    NEW = "new"
    WRITTEN = "written"


@dataclass(frozen=True, kw_only=True, slots=True)
class GoldenResult:
    """Result of one case.

    `tokens` is the length of the rendered prompt. `lines` are the faults, as sentences or as lines of a diff.
    """

    name: str
    verdict: Verdict
    tokens: int
    lines: tuple[str, ...] = ()

    @property
    def is_good(self) -> bool:
        """True if the case passed or its golden prompt was just written."""
        return self.verdict in (Verdict.PASSED, Verdict.WRITTEN)

    def to_json(self) -> dict[str, Any]:
        """Return the result as `--json` prints it."""
        return {"name": self.name, "verdict": self.verdict.value, "tokens": self.tokens, "lines": list(self.lines)}


def find_golden_cases(pack: Path) -> tuple[Path, ...]:
    """Return the files of a pack's cases, sorted by name."""
    return tuple(sorted((pack / FOLDER / TESTS_FOLDER).glob("*.yaml")))


def run_case(
    case: Path,
    pack: Path,
    world: WorldPack,
    *,
    planner: Planner,
    estimator: TokenEstimator,
    shipped: Path,
    update: bool = False,
) -> GoldenResult:
    """Render one case and compare the prompt with the golden prompt of the case. If `update` is true, write the golden
    prompt instead.

    `case` is the file of the case, `pack` the folder of the pack, and `shipped` the folder of the shipped templates.
    The rules in the case (`contains`, `lacks`, `max_tokens`) are checked first. If a rule is broken, nothing is
    written. Raises JacquardError if the case cannot be read, and TemplateError if a template cannot be rendered.
    """
    fields = read_case(case)
    turn = build_case_turn(fields, world, planner)
    target = find_target(fields.get("template"), pack=pack, shipped=shipped) if fields.get("template") else None
    meant = target or replace(find_target(turn.template_id, pack=pack, shipped=shipped), own=False)
    rendering = render_turn(turn, meant, estimator, layout=fields.get("layout"))
    faults = _find_broken_rules(fields, rendering.text, rendering.tokens)
    if faults:
        return GoldenResult(name=case.stem, verdict=Verdict.FAILED, tokens=rendering.tokens, lines=faults)
    golden = case.with_suffix(".txt")
    text = rendering.text + "\n"
    if update:
        write_file(golden, text)
        return GoldenResult(name=case.stem, verdict=Verdict.WRITTEN, tokens=rendering.tokens)
    if not golden.is_file():
        line = f"{show_path(str(golden))} is missing; look at the prompt, then write it with --update"
        return GoldenResult(name=case.stem, verdict=Verdict.NEW, tokens=rendering.tokens, lines=(line,))
    stored = golden.read_text(encoding="utf-8", errors="replace")
    if stored == text:
        return GoldenResult(name=case.stem, verdict=Verdict.PASSED, tokens=rendering.tokens)
    return GoldenResult(
        name=case.stem,
        verdict=Verdict.CHANGED,
        tokens=rendering.tokens,
        lines=diff_lines(stored.split("\n"), text.split("\n")),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class GoldenCase:
    """A case that was made from a recorded turn.

    `text` is the file of the case. `left_out` are the ids of memories that the prompt of the turn had and a case cannot have,
    because they are not in the pack.
    """

    text: str
    left_out: tuple[str, ...]


def build_case(turn: AuthorTurn, world: WorldPack) -> GoldenCase:
    """Return the case that has the input, the conversation, the state and the template of a recorded turn."""
    request = turn.request
    known = {entry.entry_id for entry in (*world.lore, *session_start("golden", world).entries)}
    wanted = turn.selection.entry_ids
    said = [each.message for each in request.window.messages if each.message.role in (Role.USER, Role.ASSISTANT)]
    fields: dict[str, Any] = {
        "input": request.message.content,
        "template": turn.template_id,
        "layout": None if turn.layout == AUTO else turn.layout,
        "state": _find_differences(world.state, request.window.state),
        "messages": [{each.role.value: each.content} for each in said],
        "memories": [each for each in wanted if each in known],
        "limit_tokens": turn.limit_tokens,
    }
    text = dump_yaml({name: value for name, value in fields.items() if value or name == "messages"}) + "\n"
    return GoldenCase(text=text, left_out=tuple(each for each in wanted if each not in known))


def _find_differences(base: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of `now` that differ from those of `base`, mapping by mapping."""
    found: dict[str, Any] = {}
    for key, value in now.items():
        old = base.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            if below := _find_differences(old, value):
                found[key] = below
        elif key not in base or old != value:
            found[key] = value
    return found


def read_case(case: Path) -> Mapping[str, Any]:
    """Return the contents of the file `case`. Raises JacquardError if the file is not valid; the error names the file
    and the fault.
    """
    try:
        fields = load_yaml(case.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise JacquardError(
            f"{show_path(str(case))}: byte {error.start} is not UTF-8; save the file as UTF-8."
        ) from error
    except PayloadError as error:
        raise JacquardError(f"{show_path(str(case))}: {error}") from error
    if not isinstance(fields, dict) or not isinstance(fields.get("input"), str) or not fields["input"].strip():
        raise JacquardError(f"{show_path(str(case))}: a case is a mapping with `input`, the user's message.")
    for key, value in fields.items():
        if key not in KEYS:
            raise JacquardError(f"{show_path(str(case))}: {key}: is not a key here{suggest_names(str(key), KEYS)}")
        if (want := _check_value(key, value)) is not None:
            raise JacquardError(f"{show_path(str(case))}: {key}: must be {want}.")
    return fields


def build_case_turn(fields: Mapping[str, Any], world: WorldPack, planner: Planner) -> AuthorTurn:
    """Return the turn of a case.

    `fields` are the contents of the case (`read_case`). The state of the turn is the pack's initial state, overridden
    by the state in the case. The messages of the turn are those in the case, else the newest messages of the prologue.
    Raises JacquardError if the case names a memory that the pack does not have.
    """
    start = session_start("golden", world)
    depth = len(start.turns)
    head = SessionHead(
        session_id="golden",
        world_id=world.world_id,
        branch_id="main",
        turn_id=start.turns[-1].turn_id if start.turns else None,
        depth=depth,
        lineage=(),
        version=0,
    )
    said = [
        WindowMessage(message=message, turn_id=turn.turn_id, branch_id="main", depth=number)
        for number, turn in enumerate(start.turns, start=1)
        for message in turn.messages
    ]
    messages = _read_messages(fields["messages"], depth) if "messages" in fields else said[-2 * PROLOGUE_TURNS :]
    window = SessionWindow(head=head, messages=(), state=_merge_mappings(world.state, fields.get("state", {})))
    turn = build_pack_turn(world, messages, window, fields["input"], planner)
    wanted = tuple(fields.get("memories", ()))
    entries = {entry.entry_id: entry for entry in (*world.lore, *start.entries)}
    missing = [entry_id for entry_id in wanted if entry_id not in entries]
    if missing:
        raise JacquardError(
            f"memories: there is no entry {missing[0]!r} in the pack{suggest_names(missing[0], entries)}"
        )
    return replace(
        turn,
        entries=tuple(entries[entry_id] for entry_id in wanted),
        selection=Selection(entry_ids=wanted),
        limit_tokens=fields.get("limit_tokens", turn.limit_tokens),
    )


def _read_messages(raw: list[Mapping[str, str]], depth: int) -> list[WindowMessage]:
    return [
        WindowMessage(
            message=Message(role=Role(next(iter(each))), content=next(iter(each.values())), message_id=f"m{number}"),
            turn_id=f"m{number // 2}",
            branch_id="main",
            depth=max(1, depth),
        )
        for number, each in enumerate(raw)
    ]


def _merge_mappings(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` overridden by `over`, mapping by mapping."""
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        merged[key] = _merge_mappings(old, value) if both else value  # type: ignore[arg-type]
    return merged


def _find_broken_rules(fields: Mapping[str, Any], text: str, tokens: int) -> tuple[str, ...]:
    faults = [f"the prompt lacks {each!r}" for each in fields.get("contains", ()) if each not in text]
    faults += [f"the prompt holds {each!r}" for each in fields.get("lacks", ()) if each in text]
    most = fields.get("max_tokens")
    if most is not None and tokens > most:
        faults.append(f"the prompt has {tokens} tokens, more than max_tokens {most}")
    return tuple(faults)


def _check_value(key: str, value: Any) -> str | None:
    """Return the required form of a key's value, or None if the value is valid."""
    if key in ("input", "template", "layout"):
        return None if isinstance(value, str) and value else "text"
    if key == "state":
        return None if isinstance(value, dict) else "a mapping"
    if key in ("limit_tokens", "max_tokens"):
        return (
            None if isinstance(value, int) and not isinstance(value, bool) and value > 0 else "a whole number above 0"
        )
    if key == "messages":
        roles = ("user", "assistant")
        good = isinstance(value, list) and all(
            isinstance(each, dict)
            and len(each) == 1
            and all(k in roles and isinstance(v, str) for k, v in each.items())
            for each in value
        )
        return None if good else "a list of `user: words` and `assistant: words`"
    good = isinstance(value, list) and all(isinstance(each, str) for each in value)
    return None if good else "a list of texts"
