"""The conversation as prompt blocks: the messages of the history window and the user's input. Pure.

A speaker's name precedes the text only where the role does not say it: not for the world's own player and narrator, nor
for the generic names of the two roles, but for the people of an imported conversation. A message that got no reply says so in a
`<notice>` after its text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from filament import escape_text
from jacquard.core.block_kinds import HISTORY_SOURCE, INPUT_ID, USER_SOURCE, slot_of
from jacquard.core.blocks import BlockKind, Placement, Position, PromptBlock
from jacquard.pipeline.worlds import party_names
from mnemosyne.chains.unanswered import is_unanswered
from mnemosyne.chains.uris import EntryAddress, format_uri
from mnemosyne.schema.evidence import BlockType, Priority
from mnemosyne.schema.memory import Chain, Trust, session_scope
from mnemosyne.schema.session import Role, WindowMessage
from mnemosyne.schema.world import WorldPack

NEWEST_MESSAGES = 6
_PLAIN_PARTIES = frozenset({"", "user", "player", "assistant", "agent", "narrator", "model", "system", "tool"})
_UNANSWERED = {
    "en": "<notice>This message got no reply.</notice>",
    "zh": "<notice>这条消息没有得到回复。</notice>",
}
_TRUST = {Role.USER: Trust.USER, Role.ASSISTANT: Trust.MODEL, Role.TOOL: Trust.TOOL, Role.SYSTEM: Trust.AUTHORED}


def history_blocks(
    messages: Sequence[WindowMessage], world: WorldPack, count: Callable[[str], int], session_id: str = ""
) -> tuple[PromptBlock, ...]:
    """Return one block for each message of a session, oldest first; `rank` is its age (0 = newest).

    A message that got no reply is followed by a notice in the world's language. System messages are MUST, of the others the
    newest NEWEST_MESSAGES are HIGH, older ones MEDIUM. A tool call and its result are kept or dropped together (P5): in a
    turn with tool messages, everything but those of the user and the system is one group.
    """
    notice = _UNANSWERED["zh" if world.locale.lower().startswith("zh") else "en"]
    known, scope = default_parties(world), session_scope(session_id)
    with_tools = {each.turn_id for each in messages if each.message.role is Role.TOOL}
    blocks = []
    for place, each in enumerate(messages):
        message, age = each.message, len(messages) - 1 - place
        speaker = speaker_of(each, known)
        content = escape_text(f"{speaker}: {message.content}" if speaker else message.content)
        if is_unanswered(message):
            content = f"{content}\n{notice}"
        grouped = each.turn_id in with_tools and message.role not in (Role.USER, Role.SYSTEM)
        blocks.append(
            PromptBlock(
                block_id=message.message_id,
                block_type=BlockType.CONVERSATION,
                slot=slot_of(BlockKind.MESSAGE),
                source=HISTORY_SOURCE,
                content=content,
                role=message.role,
                priority=_priority(message.role, age),
                placement=Placement(position=Position.IN_HISTORY, depth=age),
                group=f"turn:{each.turn_id}" if grouped else None,
                rank=age,
                tokens=count(content),
                title=speaker or (message.author.id if message.author else message.role.value),
                trust=_TRUST[message.role],
                at=message.at,
                kind=BlockKind.MESSAGE,
                uri=format_uri(EntryAddress(scope=scope, chain=Chain.HISTORY, entry_id=message.message_id)),
            )
        )
    return tuple(blocks)


def _priority(role: Role, age: int) -> Priority:
    if role is Role.SYSTEM:
        return Priority.MUST
    return Priority.HIGH if age < NEWEST_MESSAGES else Priority.MEDIUM


def without_notice(content: str) -> str:
    """Return the content of a message's block without the notice that it got no reply."""
    for notice in _UNANSWERED.values():
        content = content.removesuffix(f"\n{notice}")
    return content


def input_block(user_message: str, count: Callable[[str], int]) -> PromptBlock:
    """Return the block of the user's message, which is never dropped."""
    content = escape_text(user_message)
    return PromptBlock(
        block_id=INPUT_ID,
        block_type=BlockType.CONVERSATION,
        slot=slot_of(BlockKind.INPUT),
        source=USER_SOURCE,
        content=content,
        role=Role.USER,
        priority=Priority.MUST,
        placement=Placement(position=Position.USER_ANCHOR),
        tokens=count(content),
        volatile=True,
        title="user input",
        trust=Trust.USER,
        kind=BlockKind.INPUT,
    )


def default_parties(world: WorldPack) -> frozenset[str]:
    """Return the names, case-folded, that the role of a message already implies: generic ones, the player, the persona."""
    return _PLAIN_PARTIES | {name.casefold() for name in party_names(world).values()}


def speaker_of(each: WindowMessage, known: frozenset[str]) -> str:
    """Return the name to show before a message, on one line, or an empty text."""
    author = each.message.author
    name = " ".join(author.id.split()) if author else ""
    return "" if name.casefold() in known else name
