"""Makes the texts of context blocks from evidence, with three parts that a host can replace.

The deriver makes context blocks from evidence, the resolver finds the text of a ref (pointer to evidence), and the renderer
writes the text of a block. If a part of a host fails, the turn goes on: the text is left out and the receipt states why. This
module must not import a concrete store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from anyio import create_task_group

from jacquard.core.degradations import describe_degradation
from mnemosyne.core.errors import StoreError
from mnemosyne.core.masking.call_logs import open_log
from mnemosyne.evidence.blocks.derive import EvidenceBlockDeriver
from mnemosyne.evidence.blocks.render import RefRenderer
from mnemosyne.evidence.blocks.resolve import RefResolver, ResolvedBlock
from mnemosyne.protocols import BlockDeriver, Clock, EvidenceResolver, Renderer, Store
from mnemosyne.schema.document import SessionDocument
from mnemosyne.schema.evidence import (
    ContextBlock,
    DeriveOptions,
    Evidence,
    RefFault,
    RenderHints,
    ResolvedRef,
)
from mnemosyne.schema.memory import EMPTY
from mnemosyne.schema.session import Ref
from mnemosyne.values import dataclass

_log = open_log(__name__)
EVERYTHING = DeriveOptions()
"""Options that let a deriver make blocks of everything."""

NO_HINTS = RenderHints()
"""Hints for complete, unchanged texts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EvidenceParts:
    """Parts that derive, resolve and render blocks. `options` are for the deriver, and `hints` for the renderer."""

    deriver: BlockDeriver
    resolver: EvidenceResolver
    renderer: Renderer
    options: DeriveOptions = EVERYTHING
    hints: RenderHints = NO_HINTS

    async def derive(
        self, document: SessionDocument, evidences: Sequence[Evidence]
    ) -> tuple[tuple[ContextBlock, ...], tuple[str, ...]]:
        """Return (blocks, errors): the blocks that the deriver makes of `evidences`, and a sentence for each evidence
        item for which the deriver failed.

        If the deriver fails on all `evidences` together, it is called separately for each of them.
        """
        try:
            return tuple(await self.deriver.derive(document, evidences, self.options)), ()
        except Exception:
            _log.exception("an evidence could not be derived; the others are derived one by one")
        blocks = list(self.options.custom_instructions)
        errors: list[str] = []
        options = replace(self.options, custom_instructions=())
        for each in evidences:
            try:
                blocks += await self.deriver.derive(document, [each], options)
            except Exception as error:
                errors.append(f"evidence {each.evidence_id} was left out: {type(error).__name__}: {error}")
        if not evidences:
            errors.append("The deriver of this engine failed without any evidence; see the log.")
        return tuple({block.block_id: block for block in blocks}.values()), tuple(errors)

    async def render_all(
        self, session_id: str, blocks: Sequence[ContextBlock], loaded: Mapping[str, Evidence] = EMPTY
    ) -> list[ResolvedBlock]:
        """Return the result of `render` for each of `blocks`, in order. `loaded` is passed to `render`.

        The blocks are rendered at the same time, because texts may be fetched from other places.
        """
        if not blocks:
            return []
        rendered: dict[int, ResolvedBlock] = {}
        failures: list[StoreError] = []

        async def render(place: int, block: ContextBlock) -> None:
            try:
                rendered[place] = await self.render(session_id, block, loaded)
            except StoreError as error:
                # Raised again outside of the group, which would wrap it.
                failures.append(error)

        async with create_task_group() as group:
            for place, block in enumerate(blocks):
                group.start_soon(render, place, block)
        if failures:
            raise failures[0]
        return [rendered[place] for place in range(len(blocks))]

    async def render(
        self, session_id: str, block: ContextBlock, loaded: Mapping[str, Evidence] = EMPTY
    ) -> ResolvedBlock:
        """Return `block` with its text, and with the refs that were resolved for the text.

        `loaded` maps ids to evidence that was read already.
        """
        refs = _BlockRefs(self.resolver, session_id, loaded)
        text, error = "", ""
        try:
            text = (await self.renderer.render_block(block, refs, self.hints)).rendered_content
        except StoreError:
            raise
        except Exception as failure:
            _log.exception("a block could not be rendered")
            error = f"block {block.block_id} was left out: {type(failure).__name__}: {failure}"
        details = tuple(each.detail for each in refs.found if each.detail)
        return ResolvedBlock(block=block, text=text, refs=tuple(refs.found), details=details, error=error)


class _BlockRefs:
    """Resolves the refs of one block for its renderer, and keeps what was found: a `ResolveRef`. A renderer that knows only
    ids and selectors calls `resolve`.
    """

    def __init__(self, resolver: EvidenceResolver, session_id: str, loaded: Mapping[str, Evidence]) -> None:
        self._resolver, self._session_id, self._loaded = resolver, session_id, loaded
        self.found: list[ResolvedRef] = []

    async def __call__(self, ref: Ref) -> ResolvedRef:
        try:
            resolved = await self._resolver.resolve(self._session_id, ref, self._loaded.get(ref.evidence_id))
        except StoreError:
            raise
        except Exception as error:
            code = RefFault.CONTENT_NOT_STORED
            detail = f"{code}: evidence {ref.evidence_id}: the resolver failed ({type(error).__name__}: {error})"
            resolved = ResolvedRef(ref=ref, fault=code, detail=detail)
        self.found.append(resolved)
        return resolved

    async def resolve(self, evidence_id: str, selector: str | None = None) -> str:
        """Return the text of a part of an evidence item; '' if there is none."""
        return (await self(Ref(evidence_id=evidence_id, selector=selector))).text


def describe_ingestions(found: Iterable[tuple[str, Sequence[str]]]) -> tuple[str, ...]:
    """Return a degradation as `code: detail` for each code of `found`, with the ids of all evidence that it concerns.

    `found` are pairs of the id of an evidence item and the codes of its ingestion.
    """
    ids: dict[str, dict[str, None]] = {}
    for evidence_id, codes in found:
        for code in codes:
            ids.setdefault(code, {})[evidence_id] = None
    return tuple(
        f"{code}: When evidence {', '.join(names)} was stored: {describe_degradation(code).detail}"
        for code, names in ids.items()
    )


def default_parts(store: Store, clock: Clock, count: Callable[[str], int]) -> EvidenceParts:
    """Return the built-in parts; `count` returns the tokens of a text."""
    return EvidenceParts(
        deriver=EvidenceBlockDeriver(clock, count), resolver=RefResolver(store, clock), renderer=RefRenderer()
    )
