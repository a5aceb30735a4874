"""Defines the protocols of the parts that make prompt text from evidence (text from outside).

A ref points at a text (evidence, a message, a remote address), and a selector at a part of the text. A block is a part of the
prompt. The parts parse selectors, look up the texts of refs, and derive and render blocks. This module must not import another
module of protocols.
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
    """Parses selectors and applies them to texts. It does no input or output.

    1. The same text and selector give the same extract.
    2. A selector that cannot be parsed or selects nothing raises SelectorResolveError; no other error is raised.

    A long text is searched in a worker thread.
    """

    def parse(self, selector: str) -> Sequence[Any]:
        """Return the parts of a selector, in order. Raises SelectorResolveError if the selector is malformed."""
        ...

    def extract(self, content: str, selector: str) -> str:
        """Return the part of `content` that a selector points at. Raises SelectorResolveError if the selector is
        malformed or selects nothing.
        """
        ...


class EvidenceResolver(Protocol):
    """Resolves a ref to its present text.

    1. Evidence that has expired gives no text.
    2. A text that changed since the ref was made is returned with the fault SOURCE_CHANGED.
    3. The only error that `resolve` raises for a ref is StoreError. If there is no text, `detail` states why.
    """

    async def resolve(self, session_id: str, ref: Ref, evidence: Evidence | None = None) -> ResolvedRef:
        """Return the text of `ref`, which belongs to the session, or the reason why there is no text.

        `evidence` is the evidence item of the ref, if the caller has loaded it already.
        """
        ...


class BlockDeriver(Protocol):
    """Derives context blocks, pieces of the prompt, from a session and its evidence.

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
    """Renders a block: turns its refs into text.

    1. A block without a text is rendered as the empty text and then left out of the prompt.
    2. `render_block` may be called for several blocks at the same time.
    """

    async def render_block(
        self, block: ContextBlock, resolver: ResolveRef, hints: RenderHints | None = None
    ) -> RenderedBlock:
        """Return the block with its text. The text is plain, because the engine escapes it. `resolver` resolves a ref
        of the block.
        """
        ...
