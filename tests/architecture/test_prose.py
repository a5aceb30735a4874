"""Docstrings, comments and docs are understood at the first reading: forms that readers stumbled over do not come back."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOWER = ("filament", "mnemosyne")
PACKAGES = (*LOWER, "jacquard")
CODE = (*PACKAGES, "evals", "benchmarks")

OPENING = re.compile(r"(?:What|Which|Whom|Whose|Who|How|Of|As|Where|That|Those)\b")
"""First words of a docstring that leave it without a subject. It begins with a verb or with the noun that it describes."""
FORMS = {
    "'where' for 'if' (', where' of a place: 'in which')": (
        r"(?:[,;]|\bNone|\bTrue|\bFalse|\bnone|\bempty|[`'\")]|\b\d) where\b|\. Where\b"
    ),
    "'is no NOUN' for 'is not a NOUN'": (
        r"(?<!there )(?<!There )\b(?:is|are|was|were) no "
        r"(?!longer|more\b|less|fewer|later|earlier|different|better)\w"
    ),
    "'alone' for 'only'": r"(?<!leave )(?<!leaves )(?<!left )(?<!let )(?<!stand-)\balone\b",
    "'that of' or 'those of' again in a sentence": r"\b(?:that|those) of\b[^.]*\b(?:that|those) of\b",
    "'as it is' for 'unchanged'": r"\bas (?:it|they) (?:is|are|was|were)(?=[.,;:)]|$)",
    "'beside' for 'next to' or 'with'": r"(?<![`.])\bbeside\b(?![`}])",
    "'told' of data, 'told apart'": r"(?<![`])\btold\b|\btells? of\b|\btells? [^.,;]*\bapart\b",
    "'stands' of data": (
        r"\bstands? (?:there|anywhere|nowhere|twice|in|at|on|before|behind|after|below|above|right|next|first|last)\b"
    ),
}
BARE_PARTICIPLES = re.compile(
    r"(?:.*[^eb]ed|begun|borne|bought|bound|brought|built|chosen|done|drawn|driven|eaten|fallen|felt|forgotten|found|given"
    r"|gone|grown|heard|held|hidden|kept|known|laid|left|lost|made|meant|met|paid|said|seen|sent|shown|sold|sought|spoken"
    r"|stood|sworn|taken|taught|thrown|told|torn|won|worn|written)"
)
NOT_PROSE = ("mnemosyne/testing/redactor_samples.py", "mnemosyne/retrieval/text/words.py")


def test_texts_in_code_keep_to_plain_forms() -> None:
    found = [
        f"{name}:{line}: {form}: …{text[max(0, match.start() - 40) : match.end() + 40]}…"
        for name, file in _modules()
        for line, text, form, match in _slips(file)
    ]
    assert found == []


def _modules() -> Iterator[tuple[str, Path]]:
    for file in sorted(file for folder in CODE for file in (ROOT / folder).rglob("*.py")):
        if (name := file.relative_to(ROOT).as_posix()) not in NOT_PROSE:
            yield name, file


def _slips(file: Path) -> Iterator[tuple[int, str, str, re.Match[str]]]:
    """Yield line, text, form and place of each slip: in docstrings, strings under fields, comments, and raised messages."""
    source = file.read_text(encoding="utf-8")
    texts = list(_comments(source))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Raise):
            texts += [(node.lineno, text) for text in _constants(node)]
        if isinstance(node, ast.ClassDef) and (bare := _bare(node.name)) is not None:
            yield node.lineno, node.name, "a participle without its noun", bare
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for child in node.body:
                if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
                    text = "".join(_constants(child.value))
                    texts.append((child.lineno, text))
                    if (opening := OPENING.match(text)) is not None:
                        yield child.lineno, text, "begins without a subject", opening
    if (bare := _bare(file.stem)) is not None:
        yield 1, file.stem, "a participle without its noun", bare
    for line, text in texts:
        for form, pattern in FORMS.items():
            for match in re.finditer(pattern, text):
                yield line, text, form, match


def _bare(name: str) -> re.Match[str] | None:
    """Return a match if a name is one participle and nothing else: `_Found`, `listed`."""
    word = re.fullmatch(r"_*([A-Z]?[a-z]+)", name)
    return word if word is not None and BARE_PARTICIPLES.fullmatch(word[1].lower()) else None


def _constants(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Constant):
        return [" ".join(node.value.split())] if isinstance(node.value, str) else []
    return [text for child in ast.iter_child_nodes(node) for text in _constants(child)]


def _comments(source: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("# ")


# Of the documentation: figures of speech and words of another century, except where a page has its reasons (`--anew`).
BANNED_IN_DOCS = re.compile(
    r"(?<!--)\banew\b|\b(?:is|are|was|were|be|been) told\b|\btold (?:by|of|whole|along)\b|\bnobody asks\b|\ban evidence\b"
    r"|\bstands? (?:there|anywhere|nowhere|twice|in|at|on|beside)\b|\bgo(?:es)? whole\b|\b(?:can|be|is|was) had\b|\bto mend\b"
    r"|\bsecond look\b|\bwork in hand\b|\b(?:the|this) talk\b|\bwhat became of\b|\blies (?:in|at|on|below|beside)\b|\bas ever\b"
    r"|\bgo(?:es|ne)? on (?:with|without|behind)\b|\bcomes? of (?:it|that)\b|\bthe papers\b|\btapes?\b(?!`)|\bwhoever asks\b"
    r"|\b(?:this|one) room\b|\brooms? of\b|\bbrothers\b|\bthe house\b|\bbehind a committed turn\b|\bis let be\b",
    re.IGNORECASE,
)


def test_no_banned_phrase_in_the_docs() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{number}: {match[0]}"
        for file in [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
        for number, line in enumerate(file.read_text(encoding="utf-8").replace("0021-tape", "").splitlines(), 1)
        if (match := BANNED_IN_DOCS.search(line)) is not None
    ]
    assert found == []


@pytest.mark.parametrize("package", PACKAGES)
def test_public_functions_name_the_errors_that_they_raise(package: str) -> None:
    """In their own docstring or in that of their class. The docstrings of commands are the texts of `--help`, for users."""
    found = [
        f"{file.relative_to(ROOT)}:{function.lineno}: {function.name} does not name {error}"
        for file in sorted((ROOT / package).rglob("*.py"))
        if "testing" not in file.parts and "commands" not in file.parts
        for function, above in _public_functions(ast.parse(file.read_text(encoding="utf-8")), "")
        for error in sorted(_raised(function))
        if error not in f"{ast.get_docstring(function) or ''} {above}"
    ]
    assert found == []


def _public_functions(
    node: ast.Module | ast.ClassDef, above: str
) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, str]]:
    for child in node.body:
        if isinstance(child, ast.ClassDef) and not child.name.startswith("_"):
            yield from _public_functions(child, ast.get_docstring(child) or "")
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and (
            not child.name.startswith("_") or child.name in ("__init__", "__post_init__")
        ):
            yield child, above


def _raised(node: ast.AST) -> set[str]:
    """Return the names of the classes that a function raises itself, without its inner functions."""
    names: set[str] = set()
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            continue
        if isinstance(child, ast.Raise) and child.exc is not None:
            raised = child.exc.func if isinstance(child.exc, ast.Call) else child.exc
            name = raised.id if isinstance(raised, ast.Name) else getattr(raised, "attr", "")
            names |= {name} if name[:1].isupper() else set()
        names |= _raised(child)
    return names


ELSEWHERE = re.compile(r"\bseed 00\d|\bspec (?:[A-Z]\d|\d\.\d)|\borigin \d+\.\d|\blab \d", re.IGNORECASE)
"""References to documents that are not in the repository; `docs/design.md` has the rules that the code keeps."""
NOT_YET: tuple[str, ...] = ()


def test_no_reference_leads_out_of_the_repository() -> None:
    folders = (*PACKAGES, "benchmarks", "docs", "evals", "templates")
    found = [
        f"{name}:{number}: {match[0]}"
        for file in sorted(file for folder in folders for file in (ROOT / folder).rglob("*"))
        if file.suffix in {".py", ".md", ".yaml"}
        and not (name := file.relative_to(ROOT).as_posix()).startswith(NOT_YET)
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if (match := ELSEWHERE.search(line)) is not None
    ]
    assert found == []
