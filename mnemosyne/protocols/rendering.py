"""Protocols that make prompt text from evidence: selectors, resolution of refs, derivation and rendering of blocks.

It must not import another module of protocols.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from mnemosyne.schema.document import SessionDocument
from mnemosyne.schema.evidence import ContextBlock, DeriveOptions, Evidence, RenderedBlock, RenderHints, ResolvedRef
from mnemosyne.schema.session import Ref

Fetch = Callable[[str], Awaitable[str]]
"""Returns the text at an address. Any exception means that the text could not be fetched."""

ResolveRef = Callable[[Ref], Awaitable[ResolvedRef]]
"""Resolves a ref of the session that is being worked on."""


class TextSelector(Protocol):
    """Parses selectors and applies them. Pure.

    1. The same text and selector give the same extract.
    2. A selector that cannot be parsed or selects nothing raises SelectorResolveError; no other error is raised.

    A long text is searched in a worker thread.
    """

    def parse(self, selector: str) -> Sequence[Any]:
        """Return the parts of a selector, in order; SelectorResolveError for a malformed one."""
        ...

    def extract(self, content: str, selector: str) -> str:
        """Return the text that a selector points at; SelectorResolveError."""
        ...


class EvidenceResolver(Protocol):
    """Resolves a ref to its present text.

    1. Evidence that has expired gives no text.
    2. A text that changed since the ref was made is returned with the fault SOURCE_CHANGED.
    3. For a ref it raises only StoreError; `detail` states why there is no text.
    """

    async def resolve(self, session_id: str, ref: Ref, evidence: Evidence | None = None) -> ResolvedRef:
        """Return the text of a ref of a session, or the reason why there is none. `evidence`: the item, if it is loaded
        already.
        """
        ...


class BlockDeriver(Protocol):
    """Derives context blocks from a session and its evidence.

    1. It writes nothing.
    2. Ids are unique among the blocks of a call, and the same arguments give the same ids.
    3. A block without a content refers to some of `evidences`.
    """

    async def derive(
        self, session_doc: SessionDocument, evidences: Sequence[Evidence], options: DeriveOptions | None = None
    ) -> Sequence[ContextBlock]:
        """Return the blocks, the least relevant first.

        Args:
            session_doc: The loaded part of the session (the newest messages, the summary, the tasks).
            evidences: The items chosen for the prompt.
        """
        ...


class Renderer(Protocol):
    """Renders a block: its refs become text.

    1. A block without a text is rendered as the empty text, and is then left out.
    2. It may be called for several blocks at once.
    """

    async def render_block(
        self, block: ContextBlock, resolver: ResolveRef, hints: RenderHints | None = None
    ) -> RenderedBlock:
        """Return the block with its text, which is plain: the engine escapes it. `resolver` resolves a ref of the
        block.
        """
        ...
