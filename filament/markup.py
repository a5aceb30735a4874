"""Checks names, escapes and unescapes texts, and removes characters that no prompt may contain.

Every text from outside passes through these functions before it enters a prompt. This module knows nothing of nodes,
YAML or replies.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from filament.errors import MarkupError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*", re.ASCII)
NONCHARACTERS = "\ufdd0-\ufdef" + "".join(
    chr(plane + low) for plane in range(0, 0x110000, 0x10000) for low in (0xFFFE, 0xFFFF)
)
_UNCLEAN = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff{NONCHARACTERS}]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_REPLACEMENT = "\ufffd"
_TEXT_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_ATTRIBUTE_ESCAPES = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;", "\n": "&#10;", "\t": "&#9;"}
)
_BRACKET_TOKEN = re.compile(
    r"\[(?=/?(?:INST|SYSTEM_PROMPT|MODEL_SETTINGS|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|CALL_ID|ARGS|THINK|IMG|"
    r"IMG_BREAK|IMG_END|PREFIX|MIDDLE|SUFFIX|BOS|EOS|[gs]MASK)\]|\|[A-Za-z_]{1,32}\|\])"
)
_ANGLE_TOKEN = re.compile(
    r"<(?=[|｜][^<>|｜\s]{1,64}[|｜]?>|[^<>|｜\s]{1,64}[|｜]>|</?SYS>>|/?s>|(?:seed:)?[be]os>|(?:pad|unk|[se]op|eo[htm])>|"
    r"(?:start|end|begin)_of_[a-z_]{1,32}>|fim_[a-z]{1,16}>|[A-Z]{2,8}_TOKEN>|(?:unused|reserved_|extra_id_|TOKENS_UNUSED_)\d{1,4}>)"
)
"""Texts of control tokens of chat templates. A tokenizer reads such a text as the control token wherever it occurs."""
_ENTITY = re.compile(r"&(?:(amp|lt|gt|quot|apos)|#([0-9]{1,7})|#[xX]([0-9a-fA-F]{1,6}));", re.ASCII)
_NAMED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}


def check_name(name: str) -> str:
    """Return an element or attribute name unchanged.

    Never use text from users, models or lore as a name; such text belongs in a body.

    Raises:
        MarkupError: if the name is not made of ASCII letters, digits, `_`, `.` and `-`, starting with a letter or
            `_`.
    """
    if _NAME.fullmatch(name) is None:
        raise MarkupError(
            f"{name!r} is not an element or attribute name. Start with a letter or _, then use letters, digits, _ . -"
        )
    return name


def clean_text(text: str) -> str:
    r"""Return `text` without the characters that a prompt must not contain.

    Line ends become `\n` (CR LF and lone CR, as in XML). C0 controls other than `\n` and `\t`, DEL, C1 controls, lone
    surrogates and noncharacters become U+FFFD, one each, so that every removed character stays visible.
    """
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _UNCLEAN.sub(_REPLACEMENT, text)


def clean_surrogates(text: str) -> str:
    """Return `text` with each lone surrogate replaced by U+FFFD, because neither UTF-8 nor YAML can express a surrogate."""
    return _SURROGATE.sub(_REPLACEMENT, text)


def escape_text(text: str) -> str:
    """Return `text` cleaned (see `clean_text`) and escaped, so that it is safe between tags.

    `&`, `<` and `>` become entities. So does the opening bracket of a chat template's control token such as `[INST]`.
    """
    return _escape_brackets(clean_text(text).translate(_TEXT_ESCAPES))


def escape_attribute(text: str) -> str:
    """Return `text` cleaned and escaped for a quoted attribute. Unlike `escape_text`, also escape quotes, newlines and tabs."""
    return _escape_brackets(clean_text(text).translate(_ATTRIBUTE_ESCAPES))


def _escape_brackets(text: str) -> str:
    return _BRACKET_TOKEN.sub("&#91;", text) if "[" in text else text


def show_as_written(text: str) -> str:
    """Return `text` for a place in which nothing is escaped.

    Lone surrogates are replaced. A blank is put into each control token of a chat template (`<|im_start|>`, `[INST]`,
    `</s>`), so that no tokenizer reads it as a control token.
    """
    text = clean_surrogates(text)
    if "<" in text:
        text = _ANGLE_TOKEN.sub("< ", text)
    return _BRACKET_TOKEN.sub("[ ", text) if "[" in text else text


def unescape(text: str) -> str:
    """Return `text` with the five XML entities and numeric references decoded once (`&amp;lt;` becomes `&lt;`).

    `unescape(escape_text(t)) == clean_text(t)`. Other entities stay unchanged. A reference to a character that `clean_text`
    would replace stays unchanged, too.
    """
    return _ENTITY.sub(_character, text) if "&" in text else text


def _character(match: re.Match[str]) -> str:
    named, decimal, hexadecimal = match.groups()
    if named:
        return _NAMED[named]
    code = int(decimal) if decimal else int(hexadecimal, 16)
    if code > 0x10FFFF or code == 0x0D or _UNCLEAN.match(chr(code)):
        return match.group()
    return chr(code)


def open_tag(name: str, attributes: Iterable[tuple[str, str]] = (), *, empty: bool = False) -> str:
    """Return `<name a="b">` or, if `empty`, `<name a="b"/>`.

    The attributes are in the given order, and their values are escaped.

    Raises:
        MarkupError: if a name is illegal or an attribute is given twice.
    """
    parts, seen = [check_name(name)], set()
    for key, value in attributes:
        if key in seen:
            raise MarkupError(f"<{name}> has the attribute {key!r} twice. Give it once.")
        seen.add(key)
        parts.append(f'{check_name(key)}="{escape_attribute(value)}"')
    return f"<{' '.join(parts)}{'/' if empty else ''}>"


def close_tag(name: str) -> str:
    """Return `</name>`. Raises MarkupError if the name is illegal."""
    return f"</{check_name(name)}>"
