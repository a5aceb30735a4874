"""Erases a user, a session or evidence from store, index, originals and caches, and proves the erasure by a search.

A store erases only its own data. But an index keeps words of a message in the rows of neighbouring messages, a vault keeps the
originals of redacted texts, and a retriever caches embedded texts. This module erases in all of these. Data that can be rebuilt
is dropped first and once more at the end, so that a second call finishes an interrupted erasure.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import field, replace
from pathlib import Path

from anyio import to_thread

from mnemosyne.core.errors import IndexUnavailableError
from mnemosyne.privacy.proof import (
    MOST_CHARS,
    WORD_RUN,
    FileSearch,
    Proof,
    find_originals,
    find_places,
    find_rows,
    searchable,
)
from mnemosyne.privacy.redact import find_sensitive
from mnemosyne.privacy.runs import RUN, SHORT_RUN, TELLING, TextMatcher, evenly_limited, without_word, written_forms
from mnemosyne.privacy.scrub import Scrubber, subject_of
from mnemosyne.protocols import Index, OriginalVault, Store
from mnemosyne.retrieval.text.words import word_tokens
from mnemosyne.schema.erasure import ERASED, Erasure, ErasureOutcome, ErasurePreview
from mnemosyne.schema.memory import session_scope
from mnemosyne.values import dataclass

TEXT_CACHES: list[Callable[[], None]] = []
"""Functions that empty the text caches of the packages above this one. Every erasure calls them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryLocations:
    """All places that contain parts of a memory."""

    store: Store
    index: Index | None = None
    rebuild: Callable[[str], Awaitable[object]] | None = None
    """Rebuilds one scope (one session or one world) of the index from the store. If None, the scope is only dropped."""
    vault: OriginalVault | None = None
    folders: tuple[Path, ...] = ()
    """Folders whose files are searched for erased texts."""
    caches: tuple[Callable[[], None], ...] = ()
    """Functions that clear caches in memory."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ErasurePlan:
    """Preview of an erasure."""

    kind: str
    """`user`, `session` or `evidence`."""
    whole: tuple[str, ...] = ()
    """Sessions that are deleted entirely."""
    touched: tuple[str, ...] = ()
    """Other sessions, in which only something is erased."""
    messages: int = 0
    """Number of messages to erase."""
    evidences: int = 0
    originals: int = 0
    """Number of originals in the vault to delete or change."""
    places: tuple[str, ...] = ()
    """Rows of the store that contain one of the texts."""
    texts: tuple[str, ...] = ()
    """Texts to erase. They are only for the caller and must not be stored."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ErasureReport:
    """Report of an erasure, with its proof."""

    plan: ErasurePlan
    outcome: ErasureOutcome
    originals: int = 0
    scopes: tuple[str, ...] = ()
    """Scopes (one session or one world each) that were dropped from the index."""
    faults: tuple[str, ...] = ()
    """One sentence for each scope that could not be dropped."""
    proof: Proof = field(default_factory=Proof)
    not_covered: tuple[str, ...] = ()
    """One sentence for each kind of text that the erasure leaves by its rule; empty if it leaves nothing."""

    @property
    def done(self) -> bool:
        """Whether everything was erased and the proof found nothing."""
        return self.proof.holds and not self.faults


async def plan_erasure(place: MemoryLocations, erasure: Erasure) -> ErasurePlan:
    """Return a preview of `erasure`. Nothing is changed.

    Raises ValueError unless `erasure` names exactly one user, one session, or evidence of one session.
    """
    kind, _ = subject_of(erasure)
    found = await place.store.preview_erasure(erasure)
    concerned = (*found.whole, *found.touched)
    places = await find_places(place.store, TextMatcher(found.texts), concerned)
    return ErasurePlan(
        kind=kind,
        whole=found.whole,
        touched=found.touched,
        messages=found.messages,
        evidences=found.evidences,
        texts=found.texts,
        places=places,
        originals=await _count_originals(place.vault, erasure, found),
    )


async def forget(place: MemoryLocations, erasure: Erasure) -> ErasureReport:
    """Erase the subject of `erasure` in all of `place`, write an audit record to the store, and search for the erased texts.

    A second call finishes an erasure that was interrupted. If the index cannot be cleaned, the report's `faults`
    state it, and the proof shows what is left in the index.

    Raises:
        ValueError: unless `erasure` names exactly one user, one session, or evidence of one session.
        StoreError: from the store.
    """
    kind, _ = subject_of(erasure)
    found = await place.store.preview_erasure(erasure)
    personal = await _find_personal(place, found)
    erasure = replace(erasure, reason=_clean_reason(erasure, found, personal))
    plan = ErasurePlan(
        kind=kind,
        whole=found.whole,
        touched=found.touched,
        messages=found.messages,
        evidences=found.evidences,
        texts=found.texts,
    )
    named = () if erasure.session_id is None else (erasure.session_id,)
    scopes = tuple(session_scope(name) for name in dict.fromkeys((*plan.whole, *plan.touched, *named)))
    originals = 0
    if place.vault is not None:
        originals = await place.vault.drop(**_vault_query(erasure, found))
        originals += await place.vault.scrub(found.scrubbed, session_ids=found.touched, names=personal)
    await _drop_scopes(place, scopes)
    outcome = await place.store.erase(erasure)
    for clear in (*place.caches, *TEXT_CACHES):
        clear()
    scopes = tuple(dict.fromkeys((*scopes, *outcome.entry_ids, *map(session_scope, outcome.sessions))))
    faults = await _drop_scopes(place, scopes)
    if place.rebuild is not None and not faults:
        for scope in scopes:
            await place.rebuild(scope)
    proof = await _prove(place, erasure, found, outcome, personal)
    return ErasureReport(
        plan=plan,
        outcome=outcome,
        originals=originals,
        scopes=scopes,
        faults=faults,
        proof=proof,
        not_covered=_name_uncovered(found, proof),
    )


def _clean_reason(erasure: Erasure, found: ErasurePreview, personal: Sequence[str]) -> str:
    """Return the reason of an erasure, without the erased texts and ids: the record of the erasure stays."""
    reason = Scrubber(found.texts, personal, thorough=False).text(erasure.reason)
    for name in filter(None, (erasure.user_id, erasure.session_id, *erasure.evidence_ids)):
        reason = without_word(reason, name, ERASED)
    return reason


async def _find_personal(place: MemoryLocations, found: ErasurePreview) -> tuple[str, ...]:
    """Return the personal data in the erased texts: from an original, in which redaction once found it, even a short
    number is erased.
    """
    if place.vault is None or not found.touched:
        return ()
    return await to_thread.run_sync(find_sensitive, found.scrubbed)


async def _prove(
    place: MemoryLocations,
    erasure: Erasure,
    found: ErasurePreview,
    outcome: ErasureOutcome,
    personal: Sequence[str],
) -> Proof:
    """Search the sessions of an erasure, their rows and originals, and all files."""
    scrubbed = tuple(dict.fromkeys((*found.scrubbed, *outcome.texts)))
    touched = tuple(dict.fromkeys((*found.touched, *outcome.touched)))
    whole = tuple(dict.fromkeys((*found.whole, *outcome.sessions)))
    texts = tuple(dict.fromkeys((*found.texts, *scrubbed)))
    matcher = TextMatcher(scrubbed)
    places = set(await find_places(place.store, matcher, touched))
    places.update(await find_rows(place.store, whole))
    if place.vault is not None:
        places.update(await find_originals(place.vault, TextMatcher(scrubbed, personal), touched))
    every = TextMatcher(texts)
    places.update(f"audit/{each.audit_id}" for each in await place.store.audits() if every.occurs(each.reason))
    sought = searchable(texts)
    sample = evenly_limited(sought, MOST_CHARS)
    files = FileSearch(store=place.store, vault=place.vault, folders=place.folders, texts=sample, without=whole)
    proof = await files.run()
    names = TextMatcher((), () if erasure.user_id is None else (erasure.user_id,))
    return replace(
        proof,
        texts=len(sought) + len(whole),
        places=tuple(sorted(places)),
        mentions=await find_places(place.store, names, touched),
        too_short=len(texts) - len(sought),
        unsearched=len(sought) - len(sample),
    )


async def prove(place: MemoryLocations, texts: Sequence[str], sessions: Collection[str] | None = None) -> Proof:
    """Search for `texts` that should be gone, and return the proof.

    The search covers the rows of `sessions` (None: of all sessions) and the files. A text in a file is not a fault if
    another session has the text in its own right. If all sessions are searched, it is a fault.
    """
    sought = searchable(texts)
    sample = evenly_limited(sought, MOST_CHARS)
    search = FileSearch(
        store=place.store,
        vault=place.vault,
        folders=place.folders,
        texts=sample,
        without=sessions or (),
        explain=sessions is not None,
    )
    return replace(
        await search.run(),
        texts=len(sought),
        places=await find_places(place.store, TextMatcher(sought), sessions),
        too_short=len(set(texts)) - len(sought),
        unsearched=len(sought) - len(sample),
    )


def _name_uncovered(found: ErasurePreview, proof: Proof) -> tuple[str, ...]:
    """Return one sentence for each kind of text that an erasure leaves by its rule."""
    sentences = list[str]()
    if found.touched:
        sentences.append(
            f"In sessions that stay ({', '.join(found.touched)}), what others or a model said in their own words was not removed, "
            f"nor a copy of fewer than {RUN} characters (Chinese: {SHORT_RUN}) of a longer text: a code, a name or a number "
            "that was copied into a reply, a summary or the state."
        )
    if proof.too_short:
        sentences.append(
            f"{proof.too_short} of the texts have fewer than {TELLING} letters (Chinese: {TELLING // 3} characters): too little to "
            "be distinguished from the words of others. They were removed with their "
            "messages and from the records of the turns, not from "
            "the messages of others or the state, and were not searched for."
        )
    if proof.elsewhere:
        sentences.append(
            f"{proof.elsewhere} of the texts are also held, whole or in part, by other sessions or by a world pack in their own "
            "right, and stay there."
        )
    if proof.unsearched:
        sentences.append(
            f"{proof.unsearched} of the texts were erased but not searched for in files: more than {MOST_CHARS} characters are "
            "searched for by a sample."
        )
    return tuple(sentences)


async def _count_originals(vault: OriginalVault | None, erasure: Erasure, found: ErasurePreview) -> int:
    """Return how many originals an erasure would delete or change."""
    if vault is None:
        return 0
    dropped = await vault.count(**_vault_query(erasure, found))
    quoting = await find_originals(vault, TextMatcher(found.scrubbed), found.touched)
    own = {f"originals/{erasure.session_id}/{name}" for name in erasure.evidence_ids}
    return dropped + len(set(quoting) - own)


async def _drop_scopes(place: MemoryLocations, scopes: Sequence[str]) -> tuple[str, ...]:
    """Remove scopes from the index, with old versions of their tables; return a sentence for each that could not be
    removed.
    """
    faults: list[str] = []
    for scope in scopes if place.index is not None else ():
        try:
            await place.index.drop(scope) if place.index is not None else None
        except IndexUnavailableError as error:
            faults.append(str(error))
    return tuple(faults)


def _vault_query(erasure: Erasure, found: ErasurePreview) -> dict[str, Sequence[str]]:
    """Return the query for originals to delete: those of deleted sessions and of erased evidence."""
    if erasure.evidence_ids:
        return {"session_ids": (str(erasure.session_id),), "evidence_ids": erasure.evidence_ids}
    return {"session_ids": found.whole if erasure.session_id is None else (erasure.session_id,)}


def forms_on_disk(text: str) -> Iterator[bytes]:
    """Yield the forms in which `text` may be left in a file, as bytes.

    These are the unchanged text, the XML-escaped and the JSON-escaped text, and the form of an index: a run of
    stemmed words in lower case.
    """
    plain = text.strip()
    yield from (form.encode("utf-8", "surrogatepass") for form in written_forms(plain))
    words = word_tokens(plain)
    if len(words) >= WORD_RUN:
        yield " ".join(words).encode("utf-8", "surrogatepass")
