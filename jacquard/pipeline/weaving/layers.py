"""Collects and orders the layers of context: five named texts (`…__context`) that agents of one process share.

A Collector gathers the texts of the layers, and a Composer puts them in a fixed order with the conversation and the query. The
Composer uses the weaving of the pipeline and adds no text of its own. In a prompt of the pipeline, each block of both streams
belongs to one of the same layers (`layers_of`). Only the layer `compression` is stored: it is the session's rolling summary.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType

from filament import dump_yaml, escape_text
from jacquard.config.sections import LayersConfig
from jacquard.core.block_kinds import HISTORY_SLOT, INPUT_ID, INPUT_SLOT, SAID, SYSTEM_PROMPT, Layer, slot_traits
from jacquard.core.blocks import Block, BlockKind, BlockOrigin, BlockPlace, Placement, Position, SkeinTemplate, SlotRule
from jacquard.core.errors import ConfigError
from jacquard.core.receipt import Action, BlockDecision, decide_block
from jacquard.pipeline.skeleton.todo import list_open_tasks
from jacquard.pipeline.weaving.assemble import PromptMessage, assemble
from jacquard.pipeline.weaving.weave import weave
from mnemosyne.schema.document import Session, SessionDocument
from mnemosyne.schema.evidence import BlockType, Priority
from mnemosyne.schema.session import Role
from mnemosyne.values import dataclass

SUFFIX = "__context"


ORDER: Mapping[str, int] = MappingProxyType(
    {SYSTEM_PROMPT: 10, **{layer.value: 20 + 10 * place for place, layer in enumerate(Layer)}}
)
"""Order of each layer's system message, as in `templates/layouts/layers.yaml`."""

_LAYOUT = SkeinTemplate(
    layout_id="layers",
    rules=tuple(SlotRule(slot=name, position=Position.SYSTEM, order=order) for name, order in ORDER.items()),
    separate=True,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Process:
    """Preset of a process: the layers that an agent may see in its part of the process."""

    layers: frozenset[Layer] = frozenset(Layer)
    """Shared layers that the agent may see at most."""
    checkpoint: bool = True
    """True if the agent sees the conversation."""
    share: bool = True
    """Default of the setting `enable_share_context`."""


_ALONE = frozenset({Layer.FRAMEWORK, Layer.KNOWLEDGE})
PROCESSES: Mapping[str, Process] = MappingProxyType(
    {
        **dict.fromkeys(("sequential", "dynamic", "hierarchical", "react"), Process()),
        "mapreduce_worker": Process(checkpoint=False, share=False),
        **dict.fromkeys(
            ("mapreduce_planner", "mapreduce_reducer"),
            Process(layers=_ALONE | {Layer.EXPERIENCE}, checkpoint=False),
        ),
    }
)
"""Presets by name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CollectedLayers:
    """Input of the Composer. All texts in it are final."""

    contexts: Mapping[str, str]
    """Texts by name; every name ends in `__context`."""
    checkpoint_messages: tuple[PromptMessage, ...] = ()
    query: str | None = None
    """Query of the user (None: the last of `checkpoint_messages` is the query)."""


def process_of(name: str) -> Process:
    """Return the preset `name`.

    Raises ConfigError, with a list of the presets, if the name is unknown.
    """
    if name not in PROCESSES:
        raise ConfigError(f"layers.process: there is no process {name!r}; there are: {', '.join(PROCESSES)}.")
    return PROCESSES[name]


def find_allowed_layers(config: LayersConfig) -> tuple[frozenset[Layer], bool]:
    """Return (layers, sees_conversation): the shared layers that a call may see, and whether the call may see the
    conversation.

    If layers are not shared (`enable_share_context`), only the framework's rules and recalled knowledge remain.
    """
    process = process_of(config.process)
    share = process.share if config.enable_share_context is None else config.enable_share_context
    return (process.layers if share else process.layers & _ALONE), process.checkpoint


class ContextComposer:
    """Renders layers into messages; has no state."""

    def compose(
        self,
        *,
        system_prompt: str,
        contexts: Mapping[str, str],
        checkpoint_messages: Sequence[PromptMessage] = (),
        query: str | None = None,
    ) -> tuple[PromptMessage, ...]:
        """Return the messages in their fixed order. An empty layer gives no message.

        `query` is None if the last of `checkpoint_messages` (the conversation) is the query. Raises ConfigError if a layer is
        unknown, if `checkpoint_messages` contains a system message, or if the query is given twice or not at all.
        """
        for name in contexts:
            if name not in ORDER or not name.endswith(SUFFIX):
                raise ConfigError(f"There is no layer {name!r}; there are: {', '.join(Layer)}.")
        history = _message_blocks(checkpoint_messages)
        spoken = _input(history, query)
        texts = {SYSTEM_PROMPT: system_prompt, **contexts}
        blocks = [
            _block(name, text, BlockKind.CONTEXT, BlockPlace(slot=name)) for name, text in texts.items() if text.strip()
        ]
        woven = weave(blocks, history[:-1] if query is None else history, spoken, _LAYOUT)
        return assemble(woven.skein, _count_nothing).messages


ALL_LAYERS = LayersConfig()
LayerService = Callable[[SessionDocument, str], Awaitable[str]]
"""Returns the final text of one layer for a session and a query; '' leaves the layer out."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextCollector:
    """Collects the layers of a session. The layers todo and compression come from the session's document, and all
    others from services of the host.

    The collector renders no prompt and writes nothing. A service of the host replaces the text of the layer for which
    it is given.
    """

    framework: str = ""
    """Text of the framework layer."""
    services: Mapping[str, LayerService] = field(default_factory=dict)
    config: LayersConfig = ALL_LAYERS

    async def collect(self, document: SessionDocument, query: str) -> CollectedLayers:
        """Return the layers that the process in `config` may see, with the messages that the summary of the session
        does not cover, and `query`.

        Raises ConfigError if a service is given for an unknown layer.
        """
        unknown = [name for name in self.services if name not in set(Layer)]
        if unknown:
            raise ConfigError(f"There is no layer {unknown[0]!r}; there are: {', '.join(Layer)}.")
        layers, checkpoint = find_allowed_layers(self.config)
        session = document.session
        contexts: dict[str, str] = {}
        for layer in Layer:
            if layer not in layers:
                continue
            service = self.services.get(layer.value)
            text = self._render_own_layer(layer, session) if service is None else await service(document, query)
            if text.strip():
                contexts[layer.value] = text
        return CollectedLayers(
            contexts=contexts,
            checkpoint_messages=checkpoint_messages(session) if checkpoint else (),
            query=escape_text(query),
        )

    def _render_own_layer(self, layer: Layer, session: Session) -> str:
        if layer is Layer.FRAMEWORK:
            return self.framework
        if layer is Layer.TODO:
            return todo_context(session)
        return compression_context(session) if layer is Layer.COMPRESSION else ""


def todo_context(session: Session) -> str:
    """Return the open tasks of a session as the text of a block (`jacquard.pipeline.skeleton.todo`). Return '' if no
    task is open.
    """
    shown = list_open_tasks(session.task_state.todo_list.tasks)
    return f"<todo>\n{escape_text(dump_yaml(shown)).strip()}\n</todo>" if shown else ""


def compression_context(session: Session) -> str:
    """Return the rolling summary of a session as the text of a block. Return '' if there is no summary."""
    summary = session.summary.content.strip() if session.summary is not None else ""
    return f"<summary>\n{escape_text(summary)}\n</summary>" if summary else ""


def checkpoint_messages(session: Session) -> tuple[PromptMessage, ...]:
    """Return the conversation of a session, oldest first, without messages that the summary covers and without system
    messages.
    """
    covered = session.summary.message_index_range if session.summary is not None else None
    first = covered.to_index if covered is not None and session.summary and session.summary.content.strip() else 0
    return tuple(
        PromptMessage(role=message.role.value, content=escape_text(message.content))
        for message in session.messages[first:]
        if message.role is not Role.SYSTEM
    )


def layer_of(block: Block) -> str:
    """Return the layer of a block: `system_prompt`, a `…__context`, or '' for history and input.

    A block whose slot has no layer of its own is knowledge.
    """
    if block.kind in SAID:
        return ""
    return slot_traits(block.place.slot, block.place.section).shared_layer or Layer.KNOWLEDGE.value


def layers_of(blocks: Sequence[Block]) -> dict[str, tuple[Block, ...]]:
    """Return the blocks of both streams by layer, in the order of the layers."""
    found: dict[str, list[Block]] = {name: [] for name in ORDER}
    for block in blocks:
        if name := layer_of(block):
            found[name].append(block)
    return {name: tuple(members) for name, members in found.items() if members}


def share(
    blocks: Sequence[Block], history: Sequence[Block], config: LayersConfig
) -> tuple[tuple[Block, ...], tuple[Block, ...], tuple[BlockDecision, ...]]:
    """Return (blocks, history, decisions): the blocks and messages that a call may see, and a decision on each block
    that the call must not see.
    """
    layers, checkpoint = find_allowed_layers(config)
    names = {SYSTEM_PROMPT, *(layer.value for layer in layers)}
    seen = tuple(block for block in blocks if layer_of(block) in names)
    gone = [block for block in blocks if layer_of(block) not in names] + ([] if checkpoint else list(history))
    reason = f"Process {config.process} does not share this layer with the call."
    decisions = tuple(decide_block(block, Action.DROPPED, "not_shared", reason) for block in gone)
    return seen, tuple(history) if checkpoint else (), decisions


def _message_blocks(messages: Sequence[PromptMessage]) -> list[Block]:
    system = [place for place, message in enumerate(messages) if message.role == Role.SYSTEM]
    if system:
        raise ConfigError(
            f"checkpoint_messages[{system[0]}] is a system message; the conversation contains none, layers do."
        )
    return [
        _block(
            f"checkpoint-{place}",
            message.content,
            BlockKind.MESSAGE,
            BlockPlace(
                slot=HISTORY_SLOT,
                role=Role(message.role),
                placement=Placement(position=Position.IN_HISTORY, depth=len(messages) - 1 - place),
            ),
        )
        for place, message in enumerate(messages)
    ]


def _input(history: Sequence[Block], query: str | None) -> Block:
    last = history[-1] if history and history[-1].place.role is Role.USER else None
    if query is None:
        if last is None:
            raise ConfigError("There is no query: give one, or let checkpoint_messages end with the user's words.")
        return last
    if last is not None and last.content == query:
        raise ConfigError("The query is the last of checkpoint_messages already; give it in one place only.")
    return _block(INPUT_ID, query, BlockKind.INPUT, BlockPlace(slot=INPUT_SLOT, role=Role.USER))


def _block(name: str, text: str, kind: BlockKind, place: BlockPlace) -> Block:
    return Block(
        block_id=name,
        kind=kind,
        block_type=BlockType.INSTRUCTION,
        content=text,
        place=place,
        origin=BlockOrigin(source="layers"),
        priority=Priority.MUST,
    )


def _count_nothing(text: str) -> int:
    """Return 0: budgets are the pruner's task, so the Composer counts no tokens."""
    return 0
