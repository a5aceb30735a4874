"""Helps authors of templates: the commands `new`, `lint`, `preview`, `diff`, `test` and `watch` of `jacquard author template`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import anyio
import typer
from anyio import to_thread

from jacquard.authoring.findings import Finding, format_finding, suggest_names
from jacquard.authoring.golden import GoldenResult, build_case_turn, find_golden_cases, run_case
from jacquard.authoring.linting.lint import LintReport, lint_templates
from jacquard.authoring.render import Rendering, TurnChange, compare, compare_turns, render_turn, sum_changes
from jacquard.authoring.scaffold import new_template
from jacquard.authoring.target import TemplateTarget, find_enclosing_pack, find_target
from jacquard.authoring.turns import AuthorTurn, TurnReader
from jacquard.cli.author_folder import author_folder, folder_roots
from jacquard.cli.command_parts import (
    DEFAULT_STORE,
    JsonOption,
    StoreOption,
    fail,
    open_store,
    print_json,
    run,
    say,
    show,
    tell,
)
from jacquard.cli.language import speak
from jacquard.cli.template_show import show_change, show_golden, show_rendering, show_totals
from jacquard.core.errors import JacquardError
from jacquard.pipeline.planning.rules import RulePlanner
from jacquard.templating import find_shipped_templates
from jacquard.templating.files import TemplateRoot, TextRoot, fingerprint, template_roots
from jacquard.wiring.runtime import Runtime
from mnemosyne.core.errors import WorldPackError
from mnemosyne.core.tokens import CalibratedEstimator
from mnemosyne.schema.world import WorldPack
from mnemosyne.world import load_world

template = typer.Typer(
    name="template",
    no_args_is_help=True,
    help="Write, check, preview and compare the templates of a pack.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

PackOption = Annotated[Path | None, typer.Option("--world", "-w", metavar="DIR", help="The world pack.")]
TargetArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[TEMPLATE]",
        help="A template (`combat`, `shipped/combat`), or the path of a pack, a folder of templates, one template or a file.",
    ),
]
TurnSession = Annotated[
    str | None, typer.Option("--session", "-s", metavar="ID", help="The session (default: the pack as it begins).")
]
TurnOption = Annotated[
    str | None, typer.Option("--turn", metavar="ID", help="The turn to render (default: the newest).")
]
InputOption = Annotated[
    str | None, typer.Option("--input", "-i", metavar="TEXT", help="A message of the user, instead of a recorded turn.")
]
LayoutOption = Annotated[
    str | None, typer.Option("--layout", metavar="NAME", help="A layout (default: the turn's own).")
]
ViewerOption = Annotated[str | None, typer.Option("--viewer", metavar="NAME", help="Who may read what is shown.")]

_FIRST_INPUT = "…"
_LOOK_SECONDS = 0.2


@template.command()
def new(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Its name; the name of a shipped template overrides that template.")
    ],
    world: Annotated[Path, typer.Option("--world", "-w", metavar="DIR", help="The world pack.")],
    parent: Annotated[
        str, typer.Option("--from", metavar="TEMPLATE", help="The template whose blocks it inherits.")
    ] = "chat",
    blocks: Annotated[str, typer.Option("--blocks", metavar="ID,ID", help="The blocks to change.")] = "guidance",
) -> None:
    """Write a template that inherits the blocks of another one.

    A golden case for it (an input whose prompt `template test` compares) is written too.
    """

    async def work() -> None:
        wanted = [block.strip() for block in blocks.split(",") if block.strip()]
        if not (world / "world.yaml").is_file():
            raise fail(f"{world} is not a world pack: it has no world.yaml. `jacquard author init` writes one.")
        for path in new_template(name, world, find_shipped_templates(), parent=parent, blocks=wanted):
            say(f"wrote {path}", "green")
        tell(f"See it: jacquard author template preview {name} --world {world}")

    run(work)


@template.command()
def lint(
    target: TargetArgument = None,
    world: PackOption = None,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings fail too.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Find faults of templates without rendering a turn.

    Each fault is printed with its file, its line and what to do. If there is an error, the exit code is 1.
    """

    async def work() -> None:
        report = await to_thread.run_sync(_lint, target, world)
        if as_json:
            print_json(report.to_json())
        else:
            for each in report.findings:
                show(format_finding(_speak_finding(each)), "red" if each.severity.value == "error" else "yellow")
            warnings = len(report.findings) - report.errors
            tell(f"{len(report.files)} files: {report.errors} errors, {warnings} warnings", "bold")
        if report.errors or (strict and report.findings):
            raise typer.Exit(1)

    run(work)


@template.command()
def preview(
    target: TargetArgument = None,
    world: PackOption = None,
    session: TurnSession = None,
    turn: TurnOption = None,
    text: InputOption = None,
    layout: LayoutOption = None,
    viewer: ViewerOption = None,
    blocks_only: Annotated[bool, typer.Option("--blocks", help="Tokens by block alone, without the text.")] = False,
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
) -> None:
    """Render the prompt of a recorded turn, or of a new input.

    The prompt is printed with the tokens of each block. Nothing is written.
    """

    async def work() -> None:
        async with _open_author_context(store, world, session) as author:
            meant = author.target(target)
            one = await author.turn(session, turn, text, viewer)
            rendering = await to_thread.run_sync(_render, one, meant, layout)
        if as_json:
            print_json({**rendering.to_json(), "recorded_same": _is_same_prompt(one, rendering)})
        else:
            show_rendering(rendering, text=not blocks_only)
            if one.recorded:
                same = _is_same_prompt(one, rendering)
                tell("the same prompt as went out" if same else "not the prompt that went out", "dim")

    run(work)


@template.command()
def diff(
    old: Annotated[str, typer.Argument(metavar="OLD", help="A template or a path, as everywhere.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The template or path to compare with it.")],
    session: Annotated[
        str, typer.Option("--session", "-s", metavar="ID", help="The session whose turns are rendered.")
    ],
    turns: Annotated[int, typer.Option("--turns", "-n", min=1, metavar="N", help="How many of its newest turns.")] = 10,
    world: PackOption = None,
    layout: LayoutOption = None,
    viewer: ViewerOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="The sums alone.")] = False,
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
) -> None:
    """Render recorded turns with two templates, and print the differences in text and tokens."""

    async def work() -> None:
        async with _open_author_context(store, world, session) as author:
            left, right = author.target(old), author.target(new)
            recorded = await author.reader(viewer).turns(session, turns)
        if not recorded:
            raise fail(f"Session {session!r} has no turn with words of the user yet.")
        changes = await to_thread.run_sync(_compare, recorded, left, right, layout)
        if as_json:
            print_json(
                {**sum_changes(changes), "turns_changed": [change.to_json() for change in changes if change.changes]}
            )
            return
        for change in changes:
            if change.changes and not quiet:
                show_change(change)
        show_totals(changes)

    run(work)


@template.command("test")
def golden(
    pack: Annotated[Path, typer.Argument(metavar="PACK", help="The world pack.")],
    name: Annotated[str | None, typer.Option("--case", metavar="NAME", help="One case alone.")] = None,
    update: Annotated[
        bool, typer.Option("--update", help="Write the prompts as they are now. Look at the diff.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Render the golden cases of a pack, and compare each with its stored prompt.

    The cases are the files `templates/tests/*.yaml`. If one of them differs, the exit code is 1.
    """

    async def work() -> None:
        results = await to_thread.run_sync(_golden, pack, name, update)
        good = all(result.is_good for result in results)
        if as_json:
            print_json({"ok": good, "cases": [result.to_json() for result in results]})
        else:
            for result in results:
                show_golden(result)
        if not good:
            raise typer.Exit(1)

    run(work)


@template.command()
def watch(
    target: TargetArgument = None,
    world: PackOption = None,
    session: TurnSession = None,
    turn: TurnOption = None,
    text: InputOption = None,
    layout: LayoutOption = None,
    viewer: ViewerOption = None,
    renders: Annotated[
        int | None, typer.Option("--renders", min=1, metavar="N", help="Stop after N renderings.")
    ] = None,
    store: StoreOption = DEFAULT_STORE,
) -> None:
    """Render a turn again whenever a template is saved.

    The changes in the prompt are printed. Stop with Ctrl-C.
    """

    async def work() -> None:
        async with _open_author_context(store, world, session) as author:
            meant = author.target(target)
            one = await author.turn(session, turn, text, viewer)
        last: Rendering | None = None
        done = 0
        while True:
            seen = await to_thread.run_sync(fingerprint, meant.roots)
            last = await _render_again(one, meant, layout, last)
            done += 1
            if renders is not None and done >= renders:
                return
            while await to_thread.run_sync(fingerprint, meant.roots) == seen:  # noqa: ASYNC110
                await anyio.sleep(_LOOK_SECONDS)

    run(work)


async def _render_again(
    one: AuthorTurn, meant: TemplateTarget, layout: str | None, last: Rendering | None
) -> Rendering | None:
    """Render once more and print the changes; a template that cannot be rendered is reported, and the last good rendering
    stays.
    """
    try:
        report = await to_thread.run_sync(lint_templates, meant, one.request.world)
        for each in report.findings:
            show(format_finding(_speak_finding(each)), "red" if each.severity.value == "error" else "yellow")
        rendering = await to_thread.run_sync(_render, one, meant, layout)
    except JacquardError as error:
        say(f"error: {error}", "bold red")
        return last
    if last is None:
        show_rendering(rendering, text=False)
    elif rendering.text != last.text:
        show_change(compare(last, rendering))
    else:
        tell(f"no change · {rendering.tokens} tokens", "dim")
    return rendering


class _AuthorContext:
    """Source of a command's turns and templates: a store, or only a pack.

    Templates come from the pack's folder, so that an author sees edits; without a folder, from `world`.
    """

    def __init__(self, runtime: Runtime | None, pack: Path | None, world: WorldPack | None) -> None:
        self._workshop, self._pack, self._world = runtime, pack, world

    def target(self, written: str | None) -> TemplateTarget:
        """Return the templates of the argument; without one, the pack's own templates over the shipped ones."""
        shipped = find_shipped_templates()
        kept = None if self._pack is not None or self._world is None else _read_stored_templates(self._world)
        if written is not None:
            return find_target(written, pack=self._pack, shipped=shipped, kept=kept)
        roots: tuple[TemplateRoot, ...] = (shipped,) if kept is None else (kept, shipped)
        if self._pack is not None:
            roots = folder_roots(self._pack)
        return TemplateTarget(roots=roots, shown=str(self._pack or (kept.shown if kept else "the shipped templates")))

    def reader(self, viewer: str | None) -> TurnReader:
        """Return the reader of turns; raises JacquardError for a command without a store."""
        if self._workshop is None:
            raise JacquardError("Say which session with --session.")
        return TurnReader(
            store=self._workshop.store, worlds=self._workshop.engine.worlds, planner=RulePlanner(), viewer=viewer
        )

    async def turn(self, session: str | None, turn: str | None, text: str | None, viewer: str | None) -> AuthorTurn:
        """Return the turn of the options; raises JacquardError if they do not name one."""
        if session is not None:
            reader = self.reader(viewer)
            return await (reader.turn(session, turn) if text is None else reader.build_new_turn(session, text))
        if self._world is None:
            raise JacquardError("Say whose prompt to render: --session ID, or --world DIR for a pack as it begins.")
        if turn is not None:
            raise JacquardError("--turn needs --session: a pack as it begins has no turns of its own.")
        return _opening(self._world, text)


@asynccontextmanager
async def _open_author_context(store: str, world: Path | None, session: str | None) -> AsyncIterator[_AuthorContext]:
    """Open the parts that a command needs: the store for a session, else only the pack."""
    if session is None:
        pack = None if world is None else await to_thread.run_sync(load_world, world)
        yield _AuthorContext(None, world, pack)
        return
    async with open_store(store, world=world, embedder="none") as runtime:
        head = await runtime.store.head(session)
        found = await runtime.engine.worlds.world(head.world_id, write=False)
        yield _AuthorContext(runtime, world or await author_folder(runtime, head.world_id), found)


def _read_stored_templates(world: WorldPack) -> TextRoot | None:
    return next((root for root in template_roots((), world) if isinstance(root, TextRoot)), None)


def _opening(world: WorldPack, text: str | None) -> AuthorTurn:
    return build_case_turn({"input": text or _FIRST_INPUT}, world, RulePlanner())


def _render(turn: AuthorTurn, target: TemplateTarget, layout: str | None) -> Rendering:
    return render_turn(turn, target, CalibratedEstimator(), layout=layout)


def _compare(
    turns: tuple[AuthorTurn, ...], old: TemplateTarget, new: TemplateTarget, layout: str | None
) -> tuple[TurnChange, ...]:
    return compare_turns(turns, old, new, CalibratedEstimator(), layout=layout)


def _is_same_prompt(turn: AuthorTurn, rendering: Rendering) -> bool | None:
    """Return whether the prompt is the one that was sent; None if none was sent."""
    return rendering.text == turn.recorded if turn.recorded else None


def _lint(written: str | None, world: Path | None) -> LintReport:
    target = find_target(written, pack=world, shipped=find_shipped_templates())
    first = target.roots[0]
    pack = world or (find_enclosing_pack(first) if isinstance(first, Path) else None)
    try:
        loaded = None if pack is None else load_world(pack)
    except WorldPackError:
        loaded = None  # `jacquard author validate` reports its own faults; the templates are read anyway.
    return lint_templates(target, loaded)


def _golden(pack: Path, name: str | None, update: bool) -> list[GoldenResult]:
    world = load_world(pack)
    found = find_golden_cases(pack)
    if not found:
        raise JacquardError(
            f"{pack}/templates/tests: there are no golden cases. `jacquard author template new` writes the first one."
        )
    cases = [case for case in found if name is None or case.stem == name]
    if not cases:
        hint = suggest_names(name or "", [case.stem for case in found])
        raise JacquardError(f"{pack}/templates/tests: there is no case {name!r}{hint}")
    shipped, estimator = find_shipped_templates(), CalibratedEstimator()
    return [
        run_case(case, pack, world, planner=RulePlanner(), estimator=estimator, shipped=shipped, update=update)
        for case in cases
    ]


def _speak_finding(found: Finding) -> Finding:
    return replace(found, message=speak(found.message), advice=speak(found.advice))
