"""Whether an author's regular expression is one, and whether it could run for ever.

Patterns are matched against an input of limited length, but a repeat inside a repeat takes time that doubles with every
character, so no limit is short enough. The search for such repeats is a scan of the pattern's text: it refuses a few
harmless patterns rather than let a harmful one through.
"""

from __future__ import annotations

import re
import unicodedata
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"""(?P<escape>\\.)
      | (?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])
      | (?P<comment>\(\?\#[^)]*\))
      | (?P<look>\(\?(?:=|!|<=|<!))
      | (?P<open>\((?:\?(?:P<\w+>|[a-zA-Z-]*:|>))?)
      | (?P<other>\(\?[^)]*\))
      | (?P<close>\))
      | (?P<bar>\|)
      | (?P<repeat>(?:[*+?]|\{\d*,?\d*\})[?+]?)
      | (?P<literal>.)""",
    re.VERBOSE | re.DOTALL,
)
_MANY = 16
_MOST_WILDCARDS = 3
_PROBES = ("", "q7 zxv 神!")


@dataclass(slots=True)
class _Group:
    """A group while it is read: the first piece of each alternative, and whether its length can vary."""

    starts: list[str | None] = field(default_factory=lambda: [None])
    varies: bool = False
    unclear: bool = False


def pattern_fault(pattern: str) -> str | None:
    """Return what is wrong with a pattern and what to do, or None."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            compiled = re.compile(pattern)
    except Warning as warning:
        return f"is a doubtful regular expression ({warning}); put a '\\' before a sign meant as itself"
    except re.error as error:
        where = "" if error.pos is None else f" at character {error.pos + 1}"
        return f"is no regular expression ({error.msg}{where}); mend it, or put a '\\' before a sign meant as itself"
    except (RecursionError, OverflowError) as error:
        return f"is no usable regular expression ({error}); make it simpler"
    if compiled.flags & re.VERBOSE:
        return "switches on verbose mode, which hides spaces; write it on one line without (?x)"
    for kind, sign, _, _ in _tokens(pattern):
        if kind == "literal" and (meant := unicodedata.normalize("NFKC", sign)) != sign:
            return f"waits for {sign!r}, but inputs are compared after NFKC, where it is {meant!r}; write that"
    if piece := _runaway(pattern):
        return (
            f"repeats '{piece}', which can itself match the same text in several ways: some inputs would take for ever; "
            "repeat only one of the two"
        )
    if _wildcards(pattern) > _MOST_WILDCARDS:
        return f"has more than {_MOST_WILDCARDS} open wildcards such as '.*', which is slow on long inputs; use fewer"
    if any(compiled.fullmatch(probe) for probe in _PROBES):
        return (
            "matches any input or an empty one, so that nothing would ever reach the model; name the words it waits for"
        )
    return None


def _runaway(pattern: str) -> str | None:
    """Return a piece of `pattern` that is repeated although its own length is unclear, or None."""
    groups = [_Group()]
    starts_at: list[int] = []
    last: _Group | None = None
    began = 0
    for kind, text, start, end in _tokens(pattern):
        if kind == "repeat":
            if _most(text) > _MANY and last is not None and last.unclear:
                return pattern[began:end]
            groups[-1].varies = groups[-1].varies or _most(text) != _least(text)
            groups[-1].unclear = (
                groups[-1].unclear or _most(text) != _least(text) or (last is not None and last.unclear)
            )
            continue
        if kind in ("open", "look"):
            _note_start(groups[-1], None)
            groups.append(_Group())
            starts_at.append(start)
            last = None
        elif kind == "close" and starts_at:
            last, began = _closed(groups.pop()), starts_at.pop()
            groups[-1].unclear = groups[-1].unclear or last.unclear
        elif kind == "bar":
            groups[-1].starts.append(None)
        elif kind not in ("comment", "other"):
            _note_start(groups[-1], text)
            last, began = None, start
    return None


def _wildcards(pattern: str) -> int:
    """Count the unlimited repeats of something that matches nearly everything."""
    count, before = 0, ""
    for kind, text, _, _ in _tokens(pattern):
        broad = before in (".", r"\w", r"\S", r"\W", r"\D") or before.startswith("[^")
        count += kind == "repeat" and broad and _most(text) > _MANY
        before = text
    return count


def _closed(group: _Group) -> _Group:
    """A group with alternatives is unclear unless each begins with a letter of its own."""
    if len(group.starts) > 1:
        firsts = [start for start in group.starts if start is not None and len(start) == 1 and start not in ".^$"]
        group.unclear = group.unclear or len(set(firsts)) < len(group.starts)
    return group


def _note_start(group: _Group, text: str | None) -> None:
    if group.starts[-1] is None:
        group.starts[-1] = text or "("


def _tokens(pattern: str) -> Iterator[tuple[str, str, int, int]]:
    for match in _TOKEN.finditer(pattern):
        yield match.lastgroup or "literal", match.group(), match.start(), match.end()


def _least(repeat: str) -> int:
    if repeat[0] in "*?":
        return 0
    if repeat[0] == "+":
        return 1
    first = re.match(r"\{(\d*)", repeat)
    return int(first[1] or 0) if first else 1


def _most(repeat: str) -> int:
    if repeat[0] == "?":
        return 1
    if repeat[0] in "*+":
        return 10**9
    bounds = re.fullmatch(r"\{(\d*)(,?)(\d*)\}[?+]?", repeat)
    if bounds is None or not (bounds[1] or bounds[3]):
        return 1
    if not bounds[2]:
        return int(bounds[1])
    return int(bounds[3]) if bounds[3] else 10**9
