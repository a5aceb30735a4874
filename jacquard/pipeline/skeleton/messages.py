"""Turns the messages of the history window and the user's input into prompt blocks. Pure.

The profile (the kind of agent) decides how a prompt shows messages:

- Escaped: the text is escaped in the markup. An input that got no reply, or an empty one, has a `<notice>` after its text.
- As written: the text is shown exactly as it was written, without a notice.

The profile also decides whether the name of the speaker is shown before every message, or only if several people speak.
A name that follows from the role of the message is not shown: the world's player and persona, and generic names such as
`user`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from filament import escape_text, show_as_written
from jacquard.core.block_kinds import HISTORY_SOURCE, INPUT_ID, USER_SOURCE, slot_of
from jacquard.core.blocks import Block, BlockKind, BlockOrigin, BlockPlace, Placement, Position
from jacquard.pipeline.worlds import is_account_id, party_names
from jacquard.templating.profiles import STORY, MessageForm, Profile, SpeakerNames
from mnemosyne.chains.messages.message_parts import is_text_part, read_parts, read_tool_calls
from mnemosyne.chains.unanswered_inputs import is_unanswered
from mnemosyne.chains.uris import format_entry_uri
from mnemosyne.schema.evidence import BlockType, Priority
from mnemosyne.schema.memory import Chain, Trust, session_scope
from mnemosyne.schema.session import Author, Message, Role, WindowMessage
from mnemosyne.schema.world import WorldPack
from mnemosyne.values import dataclass

NEWEST_MESSAGES = 6
PART_TOKENS = 1100
"""Tokens that are counted for a content part that is not text: about the price of an image of 1,000 × 1,000 pixels."""
SMALL_PART_TOKENS = 85
"""Tokens that are counted for an image sent in low detail."""
_PLAIN_PARTIES = frozenset({"", "user", "player", "assistant", "agent", "narrator", "model", "system", "tool"})
_UNANSWERED = {
    "en": "<notice>This message got no reply.</notice>",
    "zh": "<notice>这条消息没有得到回复。</notice>",
}
_TRUST = {Role.USER: Trust.USER, Role.ASSISTANT: Trust.MODEL, Role.TOOL: Trust.TOOL, Role.SYSTEM: Trust.AUTHORED}


@dataclass(frozen=True, kw_only=True, slots=True)
class Speakers:
    """Rule for showing the name of a speaker before a message.

    If `shown` is true, all names except `known` (case-folded) are shown; otherwise no name is shown.
    """

    known: frozenset[str]
    shown: bool = True

    def name_of(self, message: Message) -> str:
        """Return the name to show before `message`, on one line. Return '' if no name is shown."""
        name = _name_of(message.author)
        return name if self.shown and name.casefold() not in self.known else ""


def find_speakers(messages: Iterable[Message], world: WorldPack, profile: Profile = STORY, agent: str = "") -> Speakers:
    """Return the rule for speakers' names in a prompt that shows these messages.

    A profile may show names only if several people speak. Then at least two different names must occur, even if their
    messages have the same role. `agent` is the name of the agent that answers ('': no name). It counts as one who
    speaks, and its own messages are shown without its name.
    """
    known, own = default_parties(world), {" ".join(agent.split()).casefold()}
    if profile.speakers is SpeakerNames.NAMED:
        return Speakers(known=known | own)
    names = {_name_of(message.author).casefold() for message in messages if message.role is not Role.TOOL}
    return Speakers(known=known | own, shown=len((names | own) - known) > 1)


def history_blocks(
    messages: Sequence[WindowMessage],
    world: WorldPack,
    count: Callable[[str], int],
    session_id: str = "",
    profile: Profile = STORY,
    speakers: Speakers | None = None,
) -> tuple[Block, ...]:
    """Return one block for each of `messages` (oldest first). Empty replies are left out.

    System messages have the priority MUST, the newest NEWEST_MESSAGES other messages HIGH, and older messages MEDIUM.
    `rank` of a block is the age of its message (0 = newest). In a turn with tool messages, all messages except user and
    system messages are one group, so that a tool call and its result are kept or dropped together. `speakers` is the
    rule for names (None: the rule that `find_speakers` returns for these messages). `session_id` is the session of the
    messages. `count` returns the tokens of a text.
    """
    shown = speakers or find_speakers((each.message for each in messages), world, profile)
    as_written = profile.messages is MessageForm.AS_WRITTEN
    notice = _UNANSWERED["zh" if world.locale.lower().startswith("zh") else "en"]
    scope = session_scope(session_id)
    with_tools = {each.turn_id for each in messages if each.message.role is Role.TOOL}
    empty = {
        each.message.message_id: each.turn_id
        for each in messages
        if each.message.role is Role.ASSISTANT and not _says_something(each.message)
    }
    if empty:
        messages = [each for each in messages if each.message.message_id not in empty]
    silent = {*empty.values()} - {each.turn_id for each in messages if each.message.role is Role.ASSISTANT}
    blocks = []
    for place, each in enumerate(messages):
        message, age = each.message, len(messages) - 1 - place
        speaker = shown.name_of(message)
        content = _shown_text(message.content, speaker, profile)
        is_silent = each.turn_id in silent and message.role is Role.USER
        if (is_silent or is_unanswered(message)) and not as_written:
            content = f"{content}\n{notice}"
        grouped = each.turn_id in with_tools and message.role not in (Role.USER, Role.SYSTEM)
        attached_tokens = count_attached(message, count)
        blocks.append(
            Block(
                block_id=message.message_id,
                kind=BlockKind.MESSAGE,
                block_type=BlockType.CONVERSATION,
                content=content,
                place=_place_in_history(message.role, age, as_written),
                origin=BlockOrigin(
                    source=HISTORY_SOURCE,
                    title=speaker or _name_of(message.author) or message.role.value,
                    trust=_TRUST[message.role],
                    at=message.at,
                    uri=format_entry_uri(scope, Chain.HISTORY, message.message_id),
                ),
                priority=_priority(message.role, age),
                rank=age,
                group=f"turn:{each.turn_id}" if grouped else None,
                tokens=count(content) + attached_tokens,
                attached_tokens=attached_tokens,
            )
        )
    return tuple(blocks)


@lru_cache(maxsize=1024)
def _place_in_history(role: Role, age: int, as_written: bool) -> BlockPlace:
    placement = Placement(position=Position.IN_HISTORY, depth=age)
    return BlockPlace(slot=slot_of(BlockKind.MESSAGE), role=role, placement=placement, as_written=as_written)


def _says_something(message: Message) -> bool:
    """Return whether a message has anything to send: providers refuse one without text, parts and tool calls."""
    return bool(message.content.strip() or read_tool_calls(message) or read_parts(message))


def _priority(role: Role, age: int) -> Priority:
    if role is Role.SYSTEM:
        return Priority.MUST
    return Priority.HIGH if age < NEWEST_MESSAGES else Priority.MEDIUM


def without_notice(content: str) -> str:
    """Return `content`, the content of a message's block, without the notice that the message got no reply."""
    for notice in _UNANSWERED.values():
        content = content.removesuffix(f"\n{notice}")
    return content


def input_block(
    message: Message,
    count: Callable[[str], int],
    profile: Profile = STORY,
    speakers: Speakers | None = None,
) -> Block:
    """Return the block of the user's input, which is never dropped.

    `speakers` is the rule for names (None: no name is shown). If the profile shows the name of every speaker in the
    history, no name is shown before the input. `count` returns the tokens of a text.
    """
    named = "" if speakers is None or profile.speakers is SpeakerNames.NAMED else speakers.name_of(message)
    content = _shown_text(message.content, named, profile)
    attached_tokens = count_attached(message, count)
    return Block(
        block_id=INPUT_ID,
        kind=BlockKind.INPUT,
        block_type=BlockType.CONVERSATION,
        content=content,
        place=BlockPlace(
            slot=slot_of(BlockKind.INPUT),
            role=Role.USER,
            placement=Placement(position=Position.USER_ANCHOR),
            volatile=True,
            as_written=profile.messages is MessageForm.AS_WRITTEN,
        ),
        origin=BlockOrigin(source=USER_SOURCE, title="user input", trust=Trust.USER),
        priority=Priority.MUST,
        tokens=count(content) + attached_tokens,
        attached_tokens=attached_tokens,
    )


def count_attached(message: Message, count: Callable[[str], int]) -> int:
    """Return the tokens of a message's content that is not text: tool calls are counted as JSON, other parts by their
    kind. `count` returns the tokens of a text.
    """
    if not message.extra:
        return 0
    calls = read_tool_calls(message)
    tokens = count(json.dumps(calls, ensure_ascii=False, default=dict)) if calls else 0
    for part in read_parts(message):
        if not is_text_part(part):
            image = part.get("image_url")
            small = isinstance(image, dict) and image.get("detail") == "low"
            tokens += SMALL_PART_TOKENS if small else PART_TOKENS
    return tokens


def default_parties(world: WorldPack) -> frozenset[str]:
    """Return the case-folded names that the role of a message implies: generic names, the player and the persona."""
    return _PLAIN_PARTIES | {name.casefold() for name in party_names(world).values()}


def _name_of(author: Author | None) -> str:
    name = " ".join(author.id.split()) if author else ""
    return "" if is_account_id(name) else name


def _shown_text(text: str, speaker: str, profile: Profile) -> str:
    said = f"{speaker}: {text}" if speaker else text
    return show_as_written(said) if profile.messages is MessageForm.AS_WRITTEN else escape_text(said)
