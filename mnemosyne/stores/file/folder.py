"""The folder of a file store: its format, its files, and how several files are replaced at once.

Names, formats and the one operation that spans files (an erasure) are defined here. An erasure writes all new files
beside the old ones, then a plan that names them; from then on the next process that opens the folder finishes it. All
functions here block.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mnemosyne.chains.messages.message_ids import session_of
from mnemosyne.core.codec import decode, encode
from mnemosyne.core.errors import CodecError, DamagedRecordError, StoreUnavailableError
from mnemosyne.damage import LEFT_OUT, DamageLog, DamageNote
from mnemosyne.files import NEW, make_private_folder, sync_folder, write_draft, write_file
from mnemosyne.schema.erasure import AuditRecord
from mnemosyne.stores.file.journal import SUFFIX, NewFile, file_name, place_file, write_ledger
from mnemosyne.stores.file.lines import FIRST_FORMAT, FORMAT, read_scope, with_sum, without_sum
from mnemosyne.stores.ledger.ledger import Ledger

PROGRAM = "jacquard file store"
_AUDITS = "audits"


@dataclass(frozen=True, kw_only=True, slots=True)
class _StoreInfo:
    """The content of `store.json`."""

    program: str
    format: int


@dataclass(frozen=True, kw_only=True, slots=True)
class _AuditLine:
    """A line of `audits.jsonl`."""

    audit: AuditRecord
    floor: int


@dataclass(frozen=True, kw_only=True, slots=True)
class _Plan:
    """The plan of an erasure: files to delete, files to replace (both below the tenant), and its record."""

    gone: tuple[str, ...]
    replaced: tuple[str, ...]
    line: _AuditLine


class Folder:
    """The files of one tenant below `root`."""

    def __init__(self, root: Path, tenant: str, *, create: bool, durable: bool) -> None:
        self.root = root
        self.durable = durable
        self.log = DamageLog()
        self._home = root / file_name(tenant)
        self.lock = self._home / "lock"
        self._sign = root / "store.json"
        self._plan = self._home / "erasing.json"
        self._audits = self._home / "audits.jsonl"
        self._create = create
        self._checked = False
        self._scopes: dict[str, str] = {}

    def check(self) -> None:
        """Raise StoreUnavailableError for a folder that is a file, is missing (unless it may be created), or was
        written by a newer release.
        """
        if self._checked:
            return
        if self.root.exists() and not self.root.is_dir():
            raise StoreUnavailableError(str(self.root), "it is a file; name a folder")
        if not self._sign.exists():
            if not self._create and not self._home.is_dir():
                raise StoreUnavailableError(
                    str(self.root), "there is no store in this folder; start a session there first"
                )
            return
        try:
            sign = decode(self._sign.read_bytes(), _StoreInfo)
        except CodecError as error:
            if not self._home.is_dir():
                raise StoreUnavailableError(
                    str(self._sign), f"it is not the description of a file store ({error})"
                ) from None
            reason = f"it is not the description of a file store ({error})"
            self._note(
                self._sign, "The file", reason, "The journals were read without it; remove it and it is made again"
            )
            return
        if sign.program != PROGRAM:
            raise StoreUnavailableError(
                str(self.root), f"it belongs to another program ({sign.program}); name another folder"
            )
        if sign.format > FORMAT:
            raise StoreUnavailableError(
                str(self.root),
                f"it was written by a newer release (format {sign.format}, this one reads up to {FORMAT}); update",
            )
        self._checked = True

    def make(self) -> None:
        """Create the tenant's folder, which contains its lock."""
        make_private_folder(self.root)
        make_private_folder(self._home)

    def sign(self) -> None:
        """Write `store.json`, unless it is there already. Called with the lock held, so that no two processes write the
        draft at once.
        """
        if self._checked:
            return
        if not self._sign.exists():
            body = encode(_StoreInfo(program=PROGRAM, format=FIRST_FORMAT)) + b"\n"
            write_file(self._sign, body, private=True, durable=self.durable)
        self._checked = True

    def path(self, scope: str) -> Path:
        """Return the path of a scope's journal."""
        session_id = session_of(scope)
        if session_id is None:
            return self._home / "worlds" / f"{file_name(scope)}{SUFFIX}"
        return self._home / "sessions" / f"{file_name(session_id)}{SUFFIX}"

    def scopes(self) -> tuple[str, ...]:
        """Return the scopes of all journals."""
        found = []
        for kind in ("sessions", "worlds"):
            for path in sorted((self._home / kind).glob(f"*{SUFFIX}")):
                key = f"{kind}/{path.name}"
                try:
                    if key not in self._scopes:
                        self._scopes[key] = self._read_scope(path)
                    found.append(self._scopes[key])
                except DamagedRecordError as error:
                    effect = "It is not among the sessions; read it by its name"
                    self._note(path, "Line 1 of the file", error.reason, effect)
        return tuple(found)

    def _read_scope(self, path: Path) -> str:
        scope = read_scope(path)
        if self.path(scope).name != path.name:
            raise DamagedRecordError(str(path), "Line 1", f"the file is the journal of {scope}")
        return scope

    def audits(self) -> tuple[tuple[AuditRecord, ...], int]:
        """Return the audit records, oldest first, and the highest sequence number that an erased row may have had. A
        damaged line is passed by.
        """
        if not self._audits.exists():
            return (), 0
        lines = []
        for number, line in enumerate(self._audits.read_bytes().splitlines(keepends=True), start=1):
            try:
                if line.endswith(b"\n"):
                    lines.append(decode(without_sum(line, _AUDITS), _AuditLine))
            except CodecError as error:
                self._note(self._audits, f"Line {number}", str(error), LEFT_OUT)
        return tuple(line.audit for line in lines), max((line.floor for line in lines), default=0)

    def floor(self) -> int:
        """Return the highest sequence number that an erased row may have had."""
        return self.audits()[1]

    def is_unfinished(self) -> bool:
        """Return whether there is a planned erasure that was not finished."""
        return self._plan.exists()

    def replace(self, ledgers: Mapping[str, Ledger | None], audit: AuditRecord, floor: int) -> None:
        """Write new journals for these scopes, or remove them (None), and add the audit record: all of it or nothing."""
        self._sweep()
        new: list[NewFile] = []
        gone: list[str] = []
        for scope, ledger in ledgers.items():
            path = self.path(scope)
            if ledger is None:
                gone.append(self._name(path))
            else:
                new.append(write_ledger(path, scope, ledger, durable=self.durable))
        plan = _Plan(
            gone=tuple(gone),
            replaced=tuple(self._name(file.path) for file in new),
            line=_AuditLine(audit=audit, floor=floor),
        )
        draft = self._plan.with_name(self._plan.name + NEW)
        self._write(draft, encode(plan))
        place_file(draft, durable=self.durable)
        self.finish()

    def finish(self) -> None:
        """Finish a planned erasure, if there is one. Called with the lock held. StoreUnavailableError for a damaged
        plan.
        """
        if not self._plan.exists():
            return
        try:
            plan = decode(self._plan.read_bytes(), _Plan)
        except CodecError as error:
            raise StoreUnavailableError(str(self._plan), f"it is damaged ({error}); restore it from a backup") from None
        for name in plan.replaced:
            new = self._home / name
            if new.exists():
                place_file(new, durable=self.durable)
        for name in plan.gone:
            (self._home / name).unlink(missing_ok=True)
            self._scopes.pop(name, None)
            self._sync((self._home / name).parent)
        records, _ = self.audits()
        if plan.line.audit not in records:
            known = self._audits.read_bytes() if self._audits.exists() else b""
            draft = self._audits.with_name(self._audits.name + NEW)
            self._write(draft, known + with_sum(encode(plan.line), _AUDITS))
            place_file(draft, durable=self.durable)
        self._plan.unlink()
        self._sync(self._home)

    def _sweep(self) -> None:
        """Remove files that were written but never moved into place (their writer was killed)."""
        for path in self._home.rglob(f"*{NEW}"):
            path.unlink(missing_ok=True)

    def _name(self, path: Path) -> str:
        return path.relative_to(self._home).as_posix()

    def _note(self, path: Path, what: str, reason: str, effect: str) -> None:
        self.log.add(DamageNote(scope="", what=f"{what} {path}", reason=reason, effect=effect))

    def _write(self, path: Path, data: bytes) -> None:
        write_draft(path, data, private=True, durable=self.durable, name=path.name)

    def _sync(self, folder: Path) -> None:
        if self.durable:
            sync_folder(folder)
