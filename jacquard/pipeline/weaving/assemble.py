"""Joins a skein (the ordered blocks of a prompt) into role messages and one XML text, and records the span (place) of
every block.

The texts of the blocks were escaped when they were rendered. A message that is shown exactly as written is never joined
with markup in one role message. In the XML text, such a message is enclosed in lines with a boundary that the message
does not contain.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from filament import escape_attribute
from filament.boundaries import choose_boundary
from jacquard.core.blocks import FRAME, MESSAGE_OVERHEAD_TOKENS, BlockKind, PlacedBlock, Position, Skein
from jacquard.core.errors import AssemblerError
from jacquard.core.receipt import BlockSpan, PrefixReport
from mnemosyne.core.errors import CodecError
from mnemosyne.schema.session import Role
from mnemosyne.values import dataclass

if TYPE_CHECKING:

    class _AcceptedMessage(dict[str, str], Any):  # type: ignore[misc]
        """Dict that fits the message types of every client; each has TypedDicts of its own, which no other dict fits."""

else:
    _AcceptedMessage = dict


class PromptMessage(_AcceptedMessage):
    """One role message in the form in which it is sent to a provider: a dict with `role` and `content`. Both are
    attributes too.

    The message is a dict so that every client accepts it and it can be written as JSON. The message cannot be changed,
    because the receipt describes the prompt that is sent. `dict(message)` is a copy that can be changed.
    """

    __slots__ = ()

    def __init__(self, *, role: str, content: str) -> None:
        super().__init__(role=role, content=content)

    @classmethod
    def from_plain(cls, plain: Any) -> PromptMessage:
        """Return the message whose recorded form is `plain`.

        Raises CodecError if `plain` is not a mapping with the texts `role` and `content`.
        """
        role, content = (plain.get("role"), plain.get("content")) if isinstance(plain, Mapping) else (None, None)
        if not isinstance(role, str) or not isinstance(content, str):
            raise CodecError("This is not a message of a prompt: it needs the texts `role` and `content`.")
        return cls(role=role, content=content)

    @property
    def role(self) -> str:
        """Speaker: `system`, `user` or `assistant`."""
        return self["role"]

    @property
    def content(self) -> str:
        """Text, escaped as the prompt needs it."""
        return self["content"]

    def __hash__(self) -> int:  # type: ignore[override]
        return hash((self.role, self.content))

    def __repr__(self) -> str:
        return f"PromptMessage(role={self.role!r}, content={self.content!r})"

    def __copy__(self) -> PromptMessage:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> PromptMessage:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return PromptMessage.from_plain, (dict(self),)

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("A message of a prompt cannot be changed; change a copy of it: dict(message).")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse


@dataclass(frozen=True, kw_only=True, slots=True)
class AssembledPrompt:
    """Prompt as role messages and as one XML text, with the span of every block."""

    messages: tuple[PromptMessage, ...]
    text: str
    spans: tuple[BlockSpan, ...]
    """Places of the blocks. The spans cover every character of every message, in order. The block id `frame` marks our
    own text between blocks, and the overhead of messages.
    """
    tokens: int
    """Sum of the tokens of all spans."""

    @property
    def frame_tokens(self) -> int:
        """Tokens of the prompt outside of its blocks."""
        return sum(span.tokens for span in self.spans if span.block_id == FRAME)


_Piece = tuple[str, PlacedBlock | None]
"""Piece of a message: the text of a block, or of the frame between blocks (None)."""

_Group = tuple[str, list[_Piece], PlacedBlock | None]
"""Role of a message, its pieces, and the block to which its overhead is charged (None: the frame)."""


def assemble(skein: Skein, count: Callable[[str], int]) -> AssembledPrompt:
    """Return the prompt of a skein. `count` returns the tokens of a text."""
    groups: list[_Group] = []
    for _, part in groupby(skein.system, key=lambda b: b.placement.order if skein.separate else 0):
        groups.append((Role.SYSTEM.value, _pieces(list(part), skein.layer_attributes), None))
    tail, history = _split_tail(skein)
    for role, blocks in groupby(history, key=_message_key):
        if role[1]:
            said = list(blocks)
            groups += _join_neighbours(said) if skein.alternates else map(_message_group, said)
        else:
            groups.append((role[0], _pieces(list(blocks), skein.layer_attributes), None))
    if skein.user_input is not None:
        before = _pieces([*tail, *skein.anchor], skein.layer_attributes)
        if before and skein.user_input.block.place.as_written:
            groups.append((Role.SYSTEM.value, before, None))
            before = []
        # If each part has a message of its own, nothing precedes the input in its message.
        is_marked = bool(before) or not (
            skein.separate or skein.user_input.block.place.as_written or not skein.alternates
        )
        last: _Group = (Role.USER.value, _add_input(before, skein.user_input, is_marked=is_marked), None)
        newest = history[-1] if history and skein.alternates else None
        # If the anchor blocks have a message of their own, it is between the two.
        if newest is not None and groups[-1][0] == newest.block.place.role and _can_join(newest, skein.user_input):
            last = _join_groups(groups.pop(), last)
        groups.append(last)
    messages, spans = _join(groups, count)
    tokens = sum([span.tokens for span in spans])
    return AssembledPrompt(messages=messages, text=_write_xml(skein, tail, history), spans=spans, tokens=tokens)


def prefix(
    assembled: AssembledPrompt,
    previous: Sequence[Mapping[str, str]],
    count: Callable[[str], int],
    volatile: Collection[str] = (),
) -> PrefixReport:
    """Return a report on the beginning that the prompt `assembled` shares with `previous`, and on their first
    difference. `previous` contains the messages of the previous turn.

    `volatile` contains the ids of blocks that change in each turn. `count` returns the tokens of a text.
    """
    shared, broken = 0, None
    by_message: list[list[BlockSpan]] = [[] for _ in assembled.messages]
    for span in assembled.spans:
        by_message[span.message].append(span)
    for place, (message, spans) in enumerate(zip(assembled.messages, by_message, strict=True)):
        old = previous[place] if place < len(previous) else None
        same_role = old is not None and old.get("role") == message.role
        length = _count_common_chars(message.content, old["content"]) if same_role and old is not None else 0
        if same_role and old is not None and length == len(message.content) == len(old["content"]):
            shared += sum([span.tokens for span in spans])
            continue
        whole = [span for span in spans if span.end <= length and same_role]
        shared += sum(span.tokens for span in whole)
        cut = next((span for span in spans if span.end > length), None)
        if cut is not None and same_role:
            shared += min(cut.tokens, count(message.content[cut.start : length]))
        broken = next((s.block_id for s in spans if s.end > length and s.block_id != FRAME), None) if previous else None
        break
    messages, chars = _find_stable_part(assembled, volatile)
    return PrefixReport(
        shared_tokens=shared,
        total_tokens=assembled.tokens,
        first_break=broken,
        stable_messages=messages,
        stable_chars=chars,
    )


def _find_stable_part(assembled: AssembledPrompt, volatile: Collection[str]) -> tuple[int, int]:
    """Return the number of messages, and of characters of the next one, before the first volatile block."""
    end = (0, 0)
    for span in assembled.spans:
        if span.block_id in volatile:
            # The frame at the end of a message (the closing tag of its layer) is as stable as the layer.
            return max(end, (span.message, 0))
        # The frame before a volatile block (the opening tag of its layer) belongs to it.
        if span.block_id != FRAME:
            end = (span.message, span.end)
            if span.end == len(assembled.messages[span.message].content):
                end = (span.message + 1, 0)
    return len(assembled.messages), 0


def _count_common_chars(left: str, right: str) -> int:
    limit = min(len(left), len(right))
    if left[:limit] == right[:limit]:
        return limit
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if left[:middle] == right[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _message_key(placed: PlacedBlock) -> tuple[str, bool]:
    """Return the role of a block's message, and whether the block has a message of its own."""
    return str(placed.block.place.role), placed.block.kind is BlockKind.MESSAGE


def _message_group(placed: PlacedBlock) -> _Group:
    return str(placed.block.place.role), [(placed.block.content, placed)], placed


def _join_neighbours(blocks: Iterable[PlacedBlock]) -> list[_Group]:
    """Return the messages of the conversation; neighbours of one role are one message."""
    groups: list[_Group] = []
    before: PlacedBlock | None = None
    for block in blocks:
        group = _message_group(block)
        groups.append(_join_groups(groups.pop(), group) if before is not None and _can_join(before, block) else group)
        before = block
    return groups


def _can_join(before: PlacedBlock, block: PlacedBlock) -> bool:
    """Return whether two messages are sent as one: of one role, and with nothing but text."""
    role = block.block.place.role
    is_talk = role in (Role.USER, Role.ASSISTANT) and before.block.place.role is role
    return is_talk and not (before.block.attached_tokens or block.block.attached_tokens)


def _join_groups(first: _Group, second: _Group) -> _Group:
    return first[0], [*first[1], ("\n\n", None), *second[1]], first[2]


def _is_tail(block: PlacedBlock) -> bool:
    """Return whether a block is after the history; such blocks are sent in the user's message."""
    return block.placement.position is Position.AFTER_HISTORY and block.block.kind is not BlockKind.MESSAGE


def _pieces(blocks: Sequence[PlacedBlock], attributes: Mapping[str, Mapping[str, str]]) -> list[_Piece]:
    """Return blocks and the frame between them: neighbours of one layer share its wrapper, of one section its element."""
    pieces: list[_Piece] = []
    for layer, members in groupby(blocks, key=lambda b: b.block.place.layer):
        if pieces:
            pieces.append(("\n\n", None))
        if layer is None:
            _spread(pieces, list(members), "\n\n")
            continue
        extra = "".join(f' {name}="{escape_attribute(value)}"' for name, value in attributes.get(layer, {}).items())
        pieces.append((f'<context_layer type="{layer}"{extra}>\n', None))
        for place, (section, inner) in enumerate(groupby(members, key=lambda b: b.block.place.section)):
            if place:
                pieces.append(("\n", None))
            if section is not None:
                pieces.append((f"<{section}>\n", None))
            _spread(pieces, list(inner), "\n")
            if section is not None:
                pieces.append((f"\n</{section}>", None))
        pieces.append(("\n</context_layer>", None))
    return pieces


def _spread(pieces: list[_Piece], blocks: Sequence[PlacedBlock], between: str) -> None:
    for place, block in enumerate(blocks):
        if place:
            pieces.append((between, None))
        pieces.append((block.block.content, block))


def _add_input(before: list[_Piece], user_input: PlacedBlock, *, is_marked: bool) -> list[_Piece]:
    """Return the pieces with the input after the other blocks of its message; `is_marked`: in an element of its own."""
    if not is_marked:
        return [(user_input.block.content, user_input)]
    opening = "\n\n<user_input>\n" if before else "<user_input>\n"
    return [*before, (opening, None), (user_input.block.content, user_input), ("\n</user_input>", None)]


def _join(
    groups: Sequence[_Group], count: Callable[[str], int]
) -> tuple[tuple[PromptMessage, ...], tuple[BlockSpan, ...]]:
    messages: list[PromptMessage] = []
    spans: list[BlockSpan] = []
    for place, (role, pieces, owner) in enumerate(groups):
        at = 0
        spans.append(_span(owner, place, at, at, MESSAGE_OVERHEAD_TOKENS))
        for text, block in pieces:
            end = at + len(text)
            spans.append(_span(block, place, at, end, _count_piece(text, block, count)))
            at = end
        messages.append(PromptMessage(role=role, content="".join([text for text, _ in pieces])))
    return tuple(messages), tuple(spans)


def _count_piece(text: str, placed: PlacedBlock | None, count: Callable[[str], int]) -> int:
    if placed is None:
        return count(text)
    # The tokens of a shortened block are an upper limit.
    block = placed.block
    return count(text) + block.attached_tokens if block.shortened else block.tokens


def _span(placed: PlacedBlock | None, message: int, start: int, end: int, tokens: int) -> BlockSpan:
    if placed is None:
        return BlockSpan(block_id=FRAME, message=message, start=start, end=end, tokens=tokens)
    block = placed.block
    return BlockSpan(block_id=block.block_id, message=message, start=start, end=end, tokens=tokens, kind=block.kind)


def write_xml(skein: Skein) -> str:
    """Return a skein as one XML text, in the order of its messages."""
    return _write_xml(skein, *_split_tail(skein))


def _split_tail(skein: Skein) -> tuple[list[PlacedBlock], list[PlacedBlock]]:
    """Return the blocks after the history, and the history with the blocks before and inside it."""
    tail: list[PlacedBlock] = []
    history: list[PlacedBlock] = []
    for block in skein.history:
        (tail if _is_tail(block) else history).append(block)
    return tail, history


def _write_xml(skein: Skein, tail: Sequence[PlacedBlock], history: Sequence[PlacedBlock]) -> str:
    def join_pieces(blocks: Sequence[PlacedBlock]) -> str:
        return "".join([text for text, _ in _pieces(blocks, skein.layer_attributes)])

    lines = ["<root>", "<system>", join_pieces(skein.system), "</system>", "<chat_history>"]
    for (_, is_message), blocks in groupby(history, key=_message_key):
        line = list(blocks)
        if is_message:
            lines += [_message_element(b, skein.boundary) for b in line]
        else:
            lines.append(join_pieces(line))
    lines.append("</chat_history>")
    if tail or skein.anchor:
        lines.append(join_pieces([*tail, *skein.anchor]))
    if skein.user_input is not None:
        lines += _bounded("user_input", "", skein.user_input, skein.boundary)
    return "\n".join([*lines, "</root>"])


def _message_element(block: PlacedBlock, boundary: str) -> str:
    role = f' role="{block.block.place.role!s}"'
    if not block.block.place.as_written:
        return f"<message{role}>{block.block.content}</message>"
    return "\n".join(_bounded("message", role, block, boundary))


def _bounded(name: str, attributes: str, placed: PlacedBlock, boundary: str) -> list[str]:
    """Return the lines of an element with a message; one shown as written ends only at its own boundary."""
    content = placed.block.content
    if not placed.block.place.as_written:
        return [f"<{name}{attributes}>", content, f"</{name}>"]
    mark = choose_boundary(boundary, content)
    return [f'<{name}{attributes} boundary="{mark}">', content, f'</{name} boundary="{mark}">']


class Assembler(Protocol):
    """Joins a skein into messages. Pure: it reads no clock and calls nothing, and equal arguments give equal prompts.

    1. The spans cover every character of every message, in order and without overlap.
    2. A span names a block of the skein, or `frame` for text of the assembler's own.
    3. The tokens of all spans add up to `tokens`.

    The assembler is called in a worker thread, several times for one turn. A prompt that breaks a rule is refused with
    AssemblerError.
    """

    def assemble(self, skein: Skein, count: Callable[[str], int]) -> AssembledPrompt:
        """Return the prompt of a skein; `count` returns the tokens of a text."""
        ...


class RoleMessageAssembler:
    """Built-in `Assembler`. It makes role messages in which each layer has its wrapper, and the same content as one XML
    text.
    """

    def assemble(self, skein: Skein, count: Callable[[str], int]) -> AssembledPrompt:
        """Return the prompt of a skein; `count` returns the tokens of a text."""
        return assemble(skein, count)


ROLE_MESSAGES = RoleMessageAssembler()
"""Assembler of all prompts for which the host provides none."""


def name_of_assembler(assembler: Assembler) -> str:
    """Return the class name of a host's assembler. Return '' for the built-in assembler. The record of a turn contains
    this name for replays.
    """
    return "" if isinstance(assembler, RoleMessageAssembler) else type(assembler).__name__


def assemble_checked(assembler: Assembler, skein: Skein, count: Callable[[str], int]) -> AssembledPrompt:
    """Return the prompt that `assembler` makes of `skein`.

    Raises AssemblerError if the prompt of a host's assembler breaks a rule of `Assembler`. `count` returns the tokens
    of a text.
    """
    made = assembler.assemble(skein, count)
    if (name := name_of_assembler(assembler)) and (fault := _find_fault(made, skein)):
        raise AssemblerError(name, fault)
    return made


def _find_fault(made: AssembledPrompt, skein: Skein) -> str:
    """Return half a sentence on the first rule that a prompt breaks; '' if it breaks none."""
    if not isinstance(made, AssembledPrompt):
        return f"returned {type(made).__name__}; it must return an AssembledPrompt"
    if not all(isinstance(message, PromptMessage) for message in made.messages):
        return "returned messages that are no PromptMessage"
    known = {each.block.block_id for each in skein.blocks()} | {FRAME}
    spans: dict[int, list[BlockSpan]] = {}
    for span in made.spans:
        if span.block_id not in known:
            return f"has a span of {span.block_id!r}, which is no block of this prompt"
        if not 0 <= span.message < len(made.messages):
            return f"has a span of message {span.message}, but the prompt has {len(made.messages)} messages"
        spans.setdefault(span.message, []).append(span)
    for place, message in enumerate(made.messages):
        at = 0
        for span in spans.get(place, ()):
            if span.start != at or span.end < span.start:
                return f"has a span from {span.start} to {span.end} of message {place}, where one from {at} on is due"
            at = span.end
        if at != len(message.content):
            return f"covers {at} of the {len(message.content)} characters of message {place} with spans"
    total = sum(span.tokens for span in made.spans)
    return "" if total == made.tokens else f"says {made.tokens} tokens, but its spans add up to {total}"
