"""Erases everywhere (store, index, originals, caches) and proves it by a search (seed 002 section 13; spec 3.6).

A store can clean only itself, but an index keeps words of a message in the rows of its neighbours, a vault keeps the
originals of redacted texts, and a retriever caches what it embedded. The module knows all of them by protocol. What can
be rebuilt is dropped first and once more at the end, so that a second call finishes an interrupted erasure.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from anyio import to_thread

from mnemosyne.core.errors import IndexUnavailableError
from mnemosyne.privacy.scrub import is_distinctive, spellings, subject_of
from mnemosyne.protocols import Index, OriginalVault, Store
from mnemosyne.retrieval.text.words import word_tokens
from mnemosyne.schema.document import SessionDocument
from mnemosyne.schema.erasure import ERASED, PACK_PLACE, Erasure, ErasureOutcome
from mnemosyne.schema.evidence import SourceKind
from mnemosyne.schema.memory import Trust, session_scope
from mnemosyne.schema.session import AuthorKind, Message

MOST_TEXTS = 256
"""At most this many texts are searched for; of more, the longest and an even sample of the rest."""

_END_CHARS = 40
_WORD_RUN = 6
_LONGEST = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryLocations:
    """All places that hold a memory. `rebuild` rebuilds a scope of the index from the store (None: it is only dropped).
    Files in `folders` are searched for texts that must be gone; `caches` are called to clear what is held in memory.
    """

    store: Store
    index: Index | None = None
    rebuild: Callable[[str], Awaitable[object]] | None = None
    vault: OriginalVault | None = None
    folders: tuple[Path, ...] = ()
    caches: tuple[Callable[[], None], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ErasurePlan:
    """What an erasure would remove, without doing it.

    `kind`: user, session or evidence. `whole`: sessions to be deleted entirely; `touched`: others in which something is
    erased. `messages` and `evidences` are numbers of erased items, `places` the rows of the store that contain one of
    their texts, `originals` the number of originals in the vault. `texts` are for the caller only and must not be
    stored.
    """

    kind: str
    whole: tuple[str, ...] = ()
    touched: tuple[str, ...] = ()
    messages: int = 0
    evidences: int = 0
    originals: int = 0
    places: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Proof:
    """What a search after the erasure found. `texts`: number of texts searched for; `files`: number of files searched.

    `places` are rows of the store and `found_files` files that still contain something: both empty when all is gone.
    `elsewhere` counts texts that others said too, in sessions that stay; files cannot be searched for those. `mentions`
    are rows that still contain a user's id as a word, because others wrote it; that is reported, but not a fault.
    """

    texts: int = 0
    files: int = 0
    elsewhere: int = 0
    places: tuple[str, ...] = ()
    found_files: tuple[str, ...] = ()
    mentions: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether nothing was found."""
        return not self.places and not self.found_files


@dataclass(frozen=True, kw_only=True, slots=True)
class ErasureReport:
    """What was erased, and the proof. `scopes` were dropped from the index; `faults` name those that could not be, one
    sentence each.
    """

    plan: ErasurePlan
    outcome: ErasureOutcome
    originals: int = 0
    scopes: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    proof: Proof = field(default_factory=Proof)

    @property
    def done(self) -> bool:
        """Whether everything is gone, and proved to be."""
        return self.proof.holds and not self.faults


async def plan_erasure(place: MemoryLocations, erasure: Erasure) -> ErasurePlan:
    """Return what an erasure would remove; nothing is changed. ValueError unless it names exactly one subject."""
    kind, _ = subject_of(erasure)
    store = place.store
    sessions = await store.sessions() if erasure.session_id is None else (str(erasure.session_id),)
    whole, touched, texts = list[str](), list[str](), dict[str, None]()
    messages = evidences = 0
    for session_id in sessions:
        documents = await _load_branches(store, session_id)
        if not documents:
            continue
        mine = kind == "session" or (kind == "user" and _owner_of(documents[0]) == erasure.user_id)
        waiting = await _load_pending(store, session_id)
        said = _messages_to_erase(
            [*waiting, *(m for each in documents for m in each.session.messages)], erasure, whole=mine
        )
        cited = _evidences_to_erase(documents, erasure, whole=mine)
        if not mine and not said and not cited:
            continue
        (whole if mine else touched).append(session_id)
        messages, evidences = messages + len(said), evidences + len(cited)
        texts.update(dict.fromkeys((*said.values(), *cited.values())))
    sought = tuple(text for text in texts if text.strip() and text != ERASED)
    plan = ErasurePlan(
        kind=kind,
        whole=tuple(whole),
        touched=tuple(touched),
        messages=messages,
        evidences=evidences,
        texts=sought,
        places=await _find_places(store, [text for text in _sample_texts(sought) if is_distinctive(text)]),
    )
    if place.vault is None:
        return plan
    return replace(plan, originals=await place.vault.count(**_vault_query(erasure, plan)))


async def forget(place: MemoryLocations, erasure: Erasure) -> ErasureReport:
    """Erase everywhere, leave an audit record in the store, and search for what should be gone.

    A second call finishes an erasure that was interrupted. ValueError unless the erasure names exactly one subject;
    StoreError from the store. An index that cannot be cleaned is named in `faults`, and the proof shows what is left of
    it.
    """
    plan = await plan_erasure(place, erasure)
    named = () if erasure.session_id is None else (erasure.session_id,)
    scopes = tuple(session_scope(name) for name in dict.fromkeys((*plan.whole, *plan.touched, *named)))
    originals = 0 if place.vault is None else await place.vault.drop(**_vault_query(erasure, plan))
    await _drop_scopes(place, scopes)
    outcome = await place.store.erase(erasure)
    for clear in place.caches:
        clear()
    scopes = tuple(dict.fromkeys((*scopes, *outcome.entry_ids, *map(session_scope, outcome.sessions))))
    faults = await _drop_scopes(place, scopes)
    if place.rebuild is not None and not faults:
        for scope in scopes:
            await place.rebuild(scope)
    proof = await prove(place, (*plan.texts, *outcome.texts), outcome.sessions, common=outcome.texts)
    if erasure.user_id is not None:
        proof = replace(proof, mentions=await place.store.find_text([erasure.user_id]))
    return ErasureReport(plan=plan, outcome=outcome, originals=originals, scopes=scopes, faults=faults, proof=proof)


async def prove(
    place: MemoryLocations, texts: Sequence[str], sessions: Sequence[str] = (), *, common: Sequence[str] | None = None
) -> Proof:
    """Search store and files for texts that should be gone, and the store for sessions that should be.

    `common`: texts that must not occur anywhere; any other text that occurs in a session that stays was said there too,
    and is only counted.
    """
    store = place.store
    sought = _sample_texts([text for text in dict.fromkeys(texts) if is_distinctive(text)])
    must = sought if common is None else [text for text in sought if text in set(common)]
    found = list(await _find_places(store, [*must, *sessions]))
    gone = await _find_absent(store, sought)
    if len(gone) < len(sought):
        others = await _find_places(store, [text for text in sought if text not in gone])
        found += [each for each in others if any(f"/{name}/" in f"{each}/" for name in sessions)]
    ends = await _find_absent(store, [end for text in sought if text in gone for end in _ends_of(text)])
    needles = [form for text in sought if text in gone for form in forms_on_disk(text)]
    needles += [form for end in ends for form in forms_on_disk(end)]
    files, hits = await to_thread.run_sync(_search_files, place.folders, tuple(dict.fromkeys(needles)))
    return Proof(
        texts=len(sought) + len(sessions),
        files=files,
        elsewhere=len(sought) - len(gone),
        places=tuple(sorted(set(found))),
        found_files=hits,
    )


async def _find_places(store: Store, texts: Sequence[str]) -> tuple[str, ...]:
    """Return the rows that contain one of the texts, except world packs: what an author wrote stays."""
    return tuple(place for place in await store.find_text(texts) if not place.startswith(PACK_PLACE))


async def _find_absent(store: Store, texts: Sequence[str]) -> frozenset[str]:
    """Return those of the texts that do not occur in the store."""
    if not await store.find_text(texts):
        return frozenset(texts)
    if len(texts) < 2:
        return frozenset()
    middle = len(texts) // 2
    return await _find_absent(store, texts[:middle]) | await _find_absent(store, texts[middle:])


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


def _vault_query(erasure: Erasure, plan: ErasurePlan) -> dict[str, Sequence[str]]:
    """Return which originals to delete: those of deleted sessions, of erased evidence, and any that contain an erased
    text.
    """
    telling = [text for text in plan.texts if is_distinctive(text)]
    if plan.kind == "evidence":
        return {"session_ids": (str(erasure.session_id),), "evidence_ids": erasure.evidence_ids}
    names = plan.whole if erasure.session_id is None else (erasure.session_id,)
    return {"session_ids": names, "texts": telling if plan.kind == "user" else ()}


async def _load_branches(store: Store, session_id: str) -> list[SessionDocument]:
    """Return a session as one document per branch, the active branch first; empty if there is no session."""
    first = await store.get_session(session_id)
    if first is None:
        return []
    others = [head.branch_id for head in await store.branches(session_id)][1:]
    others_told = [await store.get_session(session_id, branch_id=branch_id) for branch_id in others]
    return [first, *(document for document in others_told if document is not None)]


def _owner_of(document: SessionDocument) -> str | None:
    actor = document.meta.actor if document.meta is not None else None
    return actor.user_id if actor is not None else None


async def _load_pending(store: Store, session_id: str) -> list[Message]:
    """Return the messages of turns that wait for their reply, on every branch."""
    found: list[Message] = []
    for head in await store.branches(session_id):
        window = await store.window(session_id, message_limit=1, branch_id=head.branch_id)
        found += window.pending.messages if window.pending is not None else ()
    return found


def _messages_to_erase(messages: Sequence[Message], erasure: Erasure, *, whole: bool) -> dict[str, str]:
    """Return the messages to erase, by id."""
    if erasure.evidence_ids:
        return {}
    return {
        message.message_id or f"{place}": message.content
        for place, message in enumerate(messages)
        if whole or _is_author(message, erasure.user_id)
    }


def _is_author(message: Message, user_id: str | None) -> bool:
    author = message.author
    return author is not None and author.kind is AuthorKind.USER and author.id == user_id


def _evidences_to_erase(documents: Sequence[SessionDocument], erasure: Erasure, *, whole: bool) -> dict[str, str]:
    """Return the evidence items to erase, by id; those that quote memory are not the session's own text."""
    found = documents[0].evidences
    if whole:
        return {
            name: each.content
            for name, each in found.items()
            if each.trust is not Trust.AUTHORED or each.source.kind is not SourceKind.RAG
        }
    return {name: found[name].content for name in erasure.evidence_ids if name in found}


def _sample_texts(texts: Sequence[str]) -> list[str]:
    """Return at most MOST_TEXTS of the texts: the longest, which are the most distinctive, and an even sample of the
    rest.
    """
    if len(texts) <= MOST_TEXTS:
        return list(texts)
    longest = sorted(texts, key=len, reverse=True)[:_LONGEST]
    step = len(texts) / (MOST_TEXTS - _LONGEST)
    spread = [texts[int(place * step)] for place in range(MOST_TEXTS - _LONGEST)]
    return list(dict.fromkeys((*longest, *spread)))


def _search_files(folders: Sequence[Path], needles: Sequence[bytes]) -> tuple[int, tuple[str, ...]]:
    """Return the number of files read, and those that contain one of the needles."""
    read, hits = 0, list[str]()
    for file in _list_files(folders):
        read += 1
        if needles and _file_contains(file, needles):
            hits.append(str(file))
    return read, tuple(hits)


def _list_files(folders: Sequence[Path]) -> Iterator[Path]:
    for folder in folders:
        if folder.is_file():
            yield folder
        elif folder.is_dir():
            yield from sorted(each for each in folder.rglob("*") if each.is_file() and not each.is_symlink())


def _ends_of(text: str) -> tuple[str, ...]:
    """Return the two ends of a long text: a shortened preview contains one of them."""
    plain = text.strip()
    return (plain[:_END_CHARS], plain[-_END_CHARS:]) if len(plain) > 2 * _END_CHARS else ()


def forms_on_disk(text: str) -> Iterator[bytes]:
    """Yield the forms in which a text may be left in a file, as bytes.

    As it is, XML-escaped, JSON-escaped, and as an index stores it: a run of lower-case stemmed words.
    """
    plain = text.strip()
    for form in spellings(plain):
        for written in (form, json.dumps(form, ensure_ascii=False)[1:-1], json.dumps(form)[1:-1]):
            yield written.encode("utf-8", "surrogatepass")
    words = word_tokens(plain)
    if len(words) >= _WORD_RUN:
        yield " ".join(words).encode("utf-8", "surrogatepass")


def _file_contains(file: Path, needles: Sequence[bytes]) -> bool:
    try:
        if file.stat().st_size == 0:
            return False
        with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return any(data.find(needle) >= 0 for needle in needles)
    except FileNotFoundError:
        # An index deletes its old files by itself; a file that is gone contains nothing.
        return False
