"""Makes the pages of the reference that follow from the code: Python names, commands, codes, errors, template language, files.
`reference.toml` has their texts in Chinese.

`docs/build.py` puts them into the folder `reference` of both languages. `python docs/reference.py` prints how many names each has.
"""

from __future__ import annotations

import ast
import importlib
import logging
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from jacquard.core.sentences import translate
from jacquard.core.sentences.pages import read_page_texts, translate_page

ROOT = Path(__file__).resolve().parents[1]
TEXTS = ROOT / "docs" / "reference.toml"
PACKAGES = {
    "jacquard": "Prepares turns: engine, settings, receipts. Begin with `open_runtime`.",
    "mnemosyne": "Keeps and finds what was said: stores, values, protocols, recall.",
    "filament": "Converts values to prompt text and replies to values.",
}
_EXAMPLES = """
open_runtime create_context_engine ContextEngine RuntimeConfig config_from_yaml CurationConfig SelectorConfig LimitsConfig
InputTooLargeError GreedyPriorityPruner PruneBudget export_session import_session MemoryStore Store Message Role Author UserFact
FactKind Task ToolCall ModelUsage IngestOptions EvidenceSource SessionDocument parse_reply parse_op judge_ops apply_ops
collect_anchors with_anchors load_yaml
"""
EXAMPLES = tuple(_EXAMPLES.split())
"""Names that a host uses first; each is shown with the shortest example of the guide that uses it."""

SDK = "context SDK"
"""Design document that uses most of the names in ALIASES."""
ALIASES = (
    ("jacquard.PrepareResult", "jacquard.PreparedTurn", SDK),
    ("jacquard.PrepareResult.session_version", "jacquard.PreparedTurn.version", SDK),
    ("jacquard.PruneDecision", "jacquard.BlockDecision", SDK),
    ("jacquard.Report.prune_decisions", "jacquard.Report.decisions", SDK),
    ("jacquard.Report.token_budget", "jacquard.Report.budget.limit_tokens", SDK),
    ("jacquard.Report.token_used", "jacquard.Report.budget.used_tokens", SDK),
    ("jacquard.PruneBudget.tier_budgets", "jacquard.PruneBudget.tier_tokens", SDK),
    ("jacquard.PruneRules.must_keep_priorities", "jacquard.PruneRules.must_keep", SDK),
    ("jacquard.SummarizeConfig", "jacquard.SummaryConfig", SDK),
    ("jacquard.CommitResult.success", "jacquard.CommitResult.success", SDK),
    ("mnemosyne.Event.ts", "mnemosyne.Event.at", SDK),
    ("mnemosyne.Migrator", "mnemosyne.Migrator", SDK),
    ("mnemosyne.Migrator.migrate", "mnemosyne.document_from_json", SDK),
    ("mnemosyne.MigrateResult", "mnemosyne.MigrateResult", SDK),
    ("mnemosyne.ParsedSelector", "mnemosyne.ParsedSelector", SDK),
    ("mnemosyne.Store.put_session.doc", "mnemosyne.Store.put_session.doc", SDK),
    ("mnemosyne.Store.list_evidences.filter", "mnemosyne.Store.list_evidences.filter", SDK),
    ("mnemosyne.Store.list_context_blocks.filter", "mnemosyne.Store.list_context_blocks.filter", SDK),
)
"""Names that a design document uses: (name, the name that it stands for, document). Both begin with their package; the last
part may be a member of a class or a parameter of a method. Equal names: the product has the name of the document.
"""

FEW_NAMES = 6
MANY_NAMES = 24
"""A folder of a package with at least FEW_NAMES and at most MANY_NAMES public names is one page (`group_names`)."""

_BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"(`[^`\n]+`|^(?: {4}.*\n?)+)", re.MULTILINE)


def make_pages(language: str = "en") -> dict[str, str]:
    """Return the Markdown text of each page by its path in the folder of a language.

    Docstrings stay English; what is around them is Chinese in `zh`.
    """
    packages = load_packages()
    pages = {}
    for name in PACKAGES:
        pages |= python_pages(name, packages[name], language)
    if language == "zh":
        texts = read_page_texts([TEXTS])
        pages = {path: translate_page(page, texts) for path, page in pages.items()}
    return make_light_pages(language) | pages


def make_light_pages(language: str = "en") -> dict[str, str]:
    """Return the pages that do not need griffe."""
    pages = make_english_pages()
    if language == "en":
        return pages
    texts = read_page_texts([TEXTS])
    return {path: translate_page(page, texts, translate_sentence) for path, page in pages.items()}


def translate_sentence(text: str) -> str:
    """Return a paragraph of help, or a sentence, in Chinese; another text stays unchanged."""
    from jacquard.cli.help import translate_help

    helped = translate_help(text, "zh")
    return translate(text, "zh") if helped == text else helped


def make_english_pages() -> dict[str, str]:
    """Return the pages that do not need griffe, in English."""
    return {
        **commands_pages(),
        "reference/codes.md": codes_page(),
        "reference/errors.md": errors_page(),
        "reference/template-language.md": template_page(),
        "reference/file-formats.md": files_page(),
        "reference/names.md": names_page(),
    }


def escape(text: str) -> str:
    """Return a text of the code as Markdown in which no tag is a tag, outside of code."""
    parts = _CODE.split(text)
    return "".join(part if number % 2 else part.replace("<", "&lt;") for number, part in enumerate(parts))


def cell(value: object) -> str:
    """Return a text as one cell of a table."""
    return escape(" ".join(str(value).split())).replace("|", "\\|")


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Return a Markdown table; an empty text if it has no rows."""
    lines = [f"| {' | '.join(map(cell, row))} |" for row in rows]
    head = list(head)
    return "\n".join([f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}", *lines, ""]) if lines else ""


def public_names(package: str) -> list[str]:
    """Return the public names of a package, sorted."""
    return sorted(importlib.import_module(package).__all__)


@cache
def load_packages() -> dict[str, Any]:
    """Return what griffe reads of each package. It reads the source and imports nothing."""
    import griffe

    logging.getLogger("griffe").setLevel(logging.ERROR)
    loader = griffe.GriffeLoader(search_paths=[str(ROOT)], docstring_parser=griffe.Parser.google)
    return {name: loader.load(name) for name in PACKAGES}


Names = dict[str, list[tuple[str, Any]]]
"""Public names with what griffe knows of each, by the module that defines them."""


def python_pages(package: str, source: Any, language: str) -> dict[str, str]:
    """Return the pages of a package: one that lists all names, and one for each of its folders (`group_names`)."""
    examples = find_examples(language)
    pages, rows = {}, []
    for group, modules in group_names(package, source).items():
        parts = [
            f"# {package}: {group}\n\nNames of [{package}](../{package}.md), which are imported from `{package}` itself.\n"
        ]
        for module, names in sorted(modules.items()):
            parts.append(f"## {module}\n")
            for name, target in names:
                parts += [describe(name, target, examples), *aliases_of(package, name)]
                rows.append((f"[{name}]({package}/{group}.md#{name.lower()})", target.kind.value, summarize(target)))
        pages[f"reference/{package}/{group}.md"] = "\n".join(parts)
    head = f"# Python: {package}\n\n{PACKAGES[package]} All of these names are imported from `{package}` itself.\n"
    listed = table(("name", "kind", "what it is"), sorted(rows, key=lambda row: row[0].lower()))
    return {f"reference/{package}.md": "\n".join((head, listed))} | pages


def group_names(package: str, source: Any) -> dict[str, Names]:
    """Return the public names of a package by the page that shows them.

    A folder of the package has a page; with few names it shares the page `more`, with many its large modules have their own.
    """
    folders: dict[str, Names] = {}
    for name in public_names(package):
        member: Any = source.members[name]
        target = member.final_target if member.is_alias else member
        module = target.parent.path if target.parent else package
        parts = module.split(".")
        folders.setdefault(parts[1] if len(parts) > 2 else "more", {}).setdefault(module, []).append((name, target))
    groups: dict[str, Names] = {}
    for folder, modules in sorted(folders.items()):
        count = sum(map(len, modules.values()))
        for module, names in sorted(modules.items()):
            group = "more" if count < FEW_NAMES else folder
            if count > MANY_NAMES and len(names) >= FEW_NAMES:
                group = "-".join(module.split(".")[1:])
            groups.setdefault(group, {})[module] = names
    return groups


def summarize(target: Any) -> str:
    """Return the first sentence of a docstring; an empty text if there is none."""
    text = target.docstring.value.partition("\n\n")[0] if target.docstring else ""
    return re.split(r"(?<=\.)\s", text)[0]


def describe(name: str, target: Any, examples: dict[str, list[tuple[str, str]]]) -> str:
    """Return the section of one public name."""
    lines = [f"### {name}", ""]
    if target.kind.value == "function":
        lines += [fence(signature(name, target)), "", *docstring(target)]
    elif target.kind.value == "class":
        bases = ", ".join(map(str, target.bases))
        lines += [
            fence(f"class {name}({bases})" if bases else f"class {name}"),
            "",
            *docstring(target),
            *members_of(target),
        ]
    elif target.kind.value == "module":
        lines += [fence(f"from {target.parent.path} import {name}"), "", *docstring(target)]
    else:
        value = str(target.value or "")
        shown = f" = {value}" if 0 < len(value) <= 80 else ""
        lines += [
            fence(f"{name}: {target.annotation}{shown}" if target.annotation else f"{name}{shown}"),
            "",
            *docstring(target),
        ]
    if used := examples.get(name):
        page, block = min(used, key=lambda each: (not imports(name, each[1]), len(each[1])))
        if name in EXAMPLES:
            lines += [f"Example, from [{page.removesuffix('.md')}](../../{page}):", "", fence(block.rstrip()), ""]
        pages = sorted({page for page, _ in used})
        lines += ["Used on: " + ", ".join(f"[{page.removesuffix('.md')}](../../{page})" for page in pages) + ".", ""]
    return "\n".join(lines)


def imports(name: str, block: str) -> bool:
    """Return whether a block of Python imports a name, and so can be read without the blocks before it."""
    return re.search(rf"^(?:from .* )?import .*\b{name}\b", block, re.MULTILINE) is not None


def fence(code: str) -> str:
    """Return a block of Python."""
    return f"```python\n{code}\n```"


def signature(name: str, function: Any) -> str:
    """Return the signature of a function, one parameter a line if it is long."""
    text = str(function.signature(name=name)).replace("self, ", "").replace("(self)", "()")
    if any(str(each.value).endswith("asynccontextmanager") for each in function.decorators):
        text = f"async with {text.replace('AsyncIterator[', 'AsyncContextManager[')}"
    elif "async" in function.labels:
        text = f"async {text}"
    if len(text) <= 100:
        return text
    head, _, rest = text.partition("(")
    inner, tail = rest[: rest.rindex(")")], rest[rest.rindex(")") :]
    if "->" in tail or ") ->" not in rest:
        return f"{head}(\n    " + ",\n    ".join(split_parameters(inner)) + f",\n{tail}"
    return text


def split_parameters(text: str) -> list[str]:
    """Return the parameters of a signature, split at the commas outside of brackets."""
    parts, depth, start = [], 0, 0
    for index, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    return [*parts, text[start:].strip()]


def docstring(target: Any) -> Iterator[str]:
    """Yield the Markdown of a docstring: text, parameters, errors."""
    if not target.docstring:
        return
    for section in target.docstring.parsed:
        kind, value = section.kind.value, section.value
        if kind == "text":
            yield escape(value) + "\n"
        elif kind in ("parameters", "other parameters", "attributes"):
            yield table(
                ("parameter", "type", "meaning"), ((f"`{e.name}`", f"`{e.annotation}`", e.description) for e in value)
            )
        elif kind == "raises":
            yield table(("raises", "if"), ((f"`{e.annotation}`", e.description) for e in value))
        elif kind == "returns":
            yield "Returns: " + escape(" ".join(e.description for e in value)) + "\n"
        elif kind == "admonition":
            yield f"{value.title or ''}: {escape(value.description)}\n"
        elif kind == "examples":
            yield "\n".join(escape(text) if part.value == "text" else fence(text) for part, text in value) + "\n"


def members_of(target: Any) -> Iterator[str]:
    """Yield the fields of a class as a table, then its methods."""
    fields, methods = [], []
    for name, member in target.members.items():
        if name.startswith("_") or member.is_alias:
            continue
        if member.kind.value == "attribute":
            text = member.docstring.value if member.docstring else declared_sentence(member)
            fields.append((f"`{name}`", f"`{member.annotation}`" if member.annotation else "", text))
        elif member.kind.value == "function":
            methods += [fence(signature(name, member)), "", *docstring(member)]
    yield table(("field", "type", "meaning"), fields)
    yield from methods


def declared_sentence(member: Any) -> str:
    """Return the sentence that a field declares (`doc="…"`), or an empty text."""
    found = re.search(r"\bdoc=('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")", str(member.value or ""))
    return str(ast.literal_eval(found[1])) if found else ""


def find_examples(language: str) -> dict[str, list[tuple[str, str]]]:
    """Return the pages and Python blocks of the guide that use a name, by name. The suite runs every one of these blocks."""
    found: dict[str, list[tuple[str, str]]] = {}
    for page in sorted((ROOT / "docs" / language).rglob("*.md")):
        for block in _BLOCK.findall(page.read_text(encoding="utf-8")):
            names = {node.id for node in ast.walk(ast.parse(block)) if isinstance(node, ast.Name)}
            for name in names:
                found.setdefault(name, []).append((page.relative_to(ROOT / "docs" / language).as_posix(), block))
    return found


def walk_commands() -> Iterator[tuple[str, Any]]:
    """Yield every command of `jacquard` with the words that run it."""
    from typer.core import TyperGroup
    from typer.main import get_command

    from jacquard.cli.app import app

    def walk(path: str, command: Any) -> Iterator[tuple[str, Any]]:
        if not isinstance(command, TyperGroup):
            yield path, command
            return
        for name in command.list_commands(None):  # type: ignore[arg-type]
            yield from walk(f"{path} {name}", command.get_command(None, name))  # type: ignore[arg-type]

    return walk("jacquard", get_command(app))


def commands_pages() -> dict[str, str]:
    """Return the pages of the command line: one for each group, and one that lists all commands."""
    groups: dict[str, list[tuple[str, Any]]] = {}
    for path, command in walk_commands():
        if not command.hidden:
            groups.setdefault(path.split()[1] if path.count(" ") > 1 else "jacquard", []).append((path, command))
    pages, rows = {}, []
    for group, commands in groups.items():
        parts = [f"# Command line: {group}\n\n[All commands](../commands.md). `COMMAND --help` prints the same.\n"]
        for path, command in commands:
            text = escape(command.help or "")
            parts += [f"## {path}\n", text + "\n", table(("argument", "default", "meaning"), list_parameters(command))]
            rows.append((f"[`{path}`](commands/{group}.md#{path.replace(' ', '-')})", text.partition("\n\n")[0]))
        pages[f"reference/commands/{group}.md"] = "\n".join(parts)
    head = "# Command line\n\nAll commands; each leads to its options.\n"
    return {"reference/commands.md": "\n".join((head, table(("command", "what it does"), rows)))} | pages


def list_parameters(command: Any) -> Iterator[tuple[str, str, str]]:
    """Yield the names, the default and the sentence of each argument and option of a command."""
    for each in command.params:
        if getattr(each, "hidden", False) or each.name == "help":
            continue
        is_option = each.opts[0].startswith("-")
        names = (
            ", ".join(f"`{name}`" for name in (*each.opts, *each.secondary_opts))
            if is_option
            else f"`{each.name.upper()}`"
        )
        default = each.default
        is_shown = isinstance(default, str | int | float) and not isinstance(default, bool) and default != ""
        yield (
            names,
            "required" if each.required else f"`{default}`" if is_shown else "",
            getattr(each, "help", None) or "",
        )


def codes_page() -> str:
    """Return the page of events, metrics and degradation codes."""
    from jacquard.adapters.observe.prometheus import PrometheusMetrics
    from jacquard.core.degradations import degradation_table
    from mnemosyne.schema.event import EventType

    metrics = sorted(PrometheusMetrics().registry.collect(), key=lambda each: each.name)
    return "\n".join(
        (
            "# Events, metrics and degradation codes\n",
            "What an engine tells its observers. [Observability](../observability.md) says what each contains.\n",
            "## Events\n",
            table(("event", "constant"), ((f"`{each.value}`", f"`EventType.{each.name}`") for each in EventType)),
            "## Metrics\n",
            table(
                ("metric", "kind", "meaning"), ((f"`{each.name}`", each.type, each.documentation) for each in metrics)
            ),
            "## Degradation codes\n",
            degradation_table() + "\n",
        )
    )


def list_errors() -> Iterator[tuple[str, str, type[BaseException]]]:
    """Yield package, name and class of every public error."""
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in public_names(package):
            value = getattr(module, name)
            if isinstance(value, type) and issubclass(value, BaseException):
                yield package, name, value


def errors_page() -> str:
    """Return the page of all public errors."""
    rows = (
        (f"`{name}`", f"`{package}`", f"`{kind.__mro__[1].__name__}`", (kind.__doc__ or "").strip().split("\n\n")[0])
        for package, name, kind in list_errors()
    )
    head = "# Errors\n\nEvery public error, its package, and what it is a kind of. The facts of an error are its attributes.\n"
    return "\n".join((head, table(("error", "package", "kind of", "raised if"), rows)))


def template_page() -> str:
    """Return the page of variables, filters, tests and functions of templates."""
    from jacquard.authoring.linting.shapes import build_variable_shapes
    from jacquard.templating import language

    variables = (
        (
            f"`{name}`",
            shape.kind,
            ", ".join(f"`{each}`" for each in (shape.fields or (shape.item.fields if shape.item else {}))),
        )
        for name, shape in build_variable_shapes(None).items()
    )

    def listed(names: Iterable[str]) -> str:
        return " ".join(f"`{name}`" for name in names) + "\n"

    return "\n".join(
        (
            "# Template language\n",
            "What a template may read and call; [templates](../templates.md) says how. All other names are refused.\n",
            "## Variables\n",
            table(("variable", "kind", "fields"), variables),
            "## Filters of our own\n",
            listed(language.OWN_FILTERS),
            "## Filters of Jinja\n",
            listed(language.BUILTIN_FILTERS),
            "## Tests\n",
            listed(language.TESTS),
            "## Functions\n",
            listed(language.FUNCTIONS),
            "## Methods\n",
            "Of texts: " + listed(sorted(language.TEXT_METHODS)),
            "Of mappings: " + listed(sorted(language.MAPPING_METHODS)),
            "Of lists: " + listed(sorted(language.LIST_METHODS)),
        )
    )


def names_page() -> str:
    """Return the page of the names that design documents use."""
    rows = (
        (
            f"`{name.partition('.')[2]}`",
            f"another name of `{target.partition('.')[2]}`" if name != target else "the same name",
            f"`{name.partition('.')[0]}`",
            document,
        )
        for name, target, document in ALIASES
    )
    head = (
        "# Names of the design\n\nNames that a design document uses for values, members and parameters, and the names that they "
        "stand for here. Both names work.\n"
    )
    return "\n".join((head, table(("name", "here", "package", "used by"), rows)))


def aliases_of(package: str, name: str) -> Iterator[str]:
    """Yield a sentence for a public name, and for each of its members, that is another name of something."""
    for alias, target, document in ALIASES:
        if alias != target and f"{alias}.".startswith(f"{package}.{name}."):
            own, other = alias.partition(".")[2], target.partition(".")[2]
            yield f"`{own}` is another name of `{other}` ({document}).\n"


def files_page() -> str:
    """Return the page of file formats: those that are published as schemas, and those that are read and written."""
    schemas = sorted((ROOT / "docs" / "schema").glob("*.json"))
    readable = importlib.import_module("mnemosyne.plugins").IMPORTERS.built_in
    return "\n".join(
        (
            "# File formats\n",
            "## Published as JSON Schema\n",
            *(f"- [{each.name}](../schema/{each.name})" for each in schemas),
            "",
            "Every key is described: [world packs](../world-packs.md), [session documents and context packages](../documents.md), "
            "[settings](../settings.md).\n",
            "## Read from other programs\n",
            "Values of `--format`; [files of other programs](../files.md) says what each becomes.\n",
            " ".join(f"`{name}`" for name in readable) + "\n",
        )
    )


if __name__ == "__main__":
    for path, text in make_pages().items():
        sys.stdout.write(f"{path}: {text.count(chr(10))} lines\n")
