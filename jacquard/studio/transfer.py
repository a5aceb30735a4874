"""Imports dropped files (cards, books, chats, notes, world packs), after a report of what becomes of them, and exports
conversations, characters and lore as files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from anyio import to_thread
from starlette.responses import Response

from jacquard.remote.bodies import ImportFiles
from jacquard.service.answers import answer_file
from jacquard.service.http.endpoints import read_body
from jacquard.studio.visit import Room, Visit, write_json
from mnemosyne.schema.imported_files import Fate, FieldFate

EXPORTS = ("chat", "card", "card-png", "world-info")
"""Formats of files for other programs."""
DOCUMENT = "document"
"""Format of a file that has everything of a session, for another service of this kind."""


async def show_transfer(visit: Visit) -> Response:
    """Return the page with the place to drop files on, and the form for exports, with the conversation of the address."""
    recent = await visit.ask("list_conversations", limit=50)
    return await visit.show(
        "transfer.html",
        sessions=[each.session_id for each in recent.items],
        session=visit.ids.get("session_id", ""),
        formats=(*EXPORTS, DOCUMENT),
    )


async def read_files(visit: Visit) -> Response:
    """Return the report of what an import of the sent files would do, or of what it did."""
    sent: ImportFiles = await read_body(visit.request, ImportFiles)
    session_id = (sent.session_id or "").strip() or None
    answer = await visit.ask("import_files", body=replace(sent, session_id=session_id))
    fates = [_group_fates(each.fields) for each in answer.files]
    return await visit.show("_report.html", answer=answer, fates=fates)


def _group_fates(fields: Iterable[FieldFate]) -> Mapping[tuple[Fate, str], list[FieldFate]]:
    """Return the fields by what becomes of them and by the reason: the kept ones first, then changed, then unsupported ones."""
    order, found = list(Fate), dict[tuple[Fate, str], list[FieldFate]]()
    for each in sorted(fields, key=lambda each: (order.index(each.fate), bool(each.note))):
        found.setdefault((each.fate, each.note), []).append(each)
    return found


async def save_file(visit: Visit) -> Response:
    """Return a file that the browser saves."""
    session_id, wanted = visit.query.get("session", "").strip(), visit.query.get("format", EXPORTS[0])
    if wanted == DOCUMENT:
        document = await visit.ask("get_document", session_id=session_id)
        return answer_file((await to_thread.run_sync(write_json, document, 1)).encode(), f"{session_id}.json")
    name = visit.query.get("name", "").strip() or None
    file: Response = await visit.ask("export_session", session_id=session_id, format=wanted, name=name)
    return file


ROOM = Room(
    name="transfer",
    pages={
        "GET /s/{session_id}/transfer": show_transfer,
        "GET /studio/transfer": show_transfer,
        "POST /studio/transfer/files": read_files,
        "GET /studio/transfer/file": save_file,
    },
)
