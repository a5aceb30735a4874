"""Prepares for each page of the guide what its reader has already: sessions, files, labelled sets, a model server."""

from __future__ import annotations

import json
import re
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cli_calls import call
from guide_blocks import Command, read_commands
from typer.testing import CliRunner

from evals.app import app as evals_app

Stage = Callable[[Path, str, str], dict[str, str]]
"""Prepares a folder for the pages of a language, with the address of a model; returns names of a page with those of the test."""

INPUTS = {
    "en": ("Is that the key to the temple?", "I walk to the clearing."),
    "zh": ("那把钥匙是不是开启神庙的?", "我走到林中空地。"),
}


def language_of(page: Path) -> str:
    """Return the language that a page is written in."""
    return "zh" if "zh" in page.parts or "zh-CN" in page.name else "en"


def play(session: str, language: str, *options: str, turns: int = 2) -> list[str]:
    """Play turns of the example world; return their ids."""
    ids = []
    for said in (INPUTS[language] * turns)[:turns]:
        world = ("--world", f"examples/whispering_forest/{language}")
        told = call(
            "play", "weave", *world, "--session", session, "--input", said, "--embedder", "none", "--json", *options
        )
        ids.append(find_turn_id(json.loads(told.stdout)))
        call(
            "play",
            "commit",
            "--session",
            session,
            "--text",
            "<content>…</content>",
            *options[: 2 * ("--store" in options)],
        )
    return ids


def find_turn_id(told: dict[str, Any]) -> str:
    """Return the id of the turn that a command has prepared."""
    return str(told["turn_id"])


def stage_sessions(*sessions: str) -> Stage:
    """Return a stage with sessions of the example world."""

    def stage(_: Path, language: str, __: str) -> dict[str, str]:
        ids = [play(session, language) for session in sessions][-1]
        return {"t000041-24c0879121": ids[-1], "翡翠": INPUTS[language][1], "lore_secret": "lore_temple_key"}

    return stage


def stage_chat(_: Path, language: str, __: str) -> dict[str, str]:
    """Return a stage with the session of a chat client."""
    play("chat", language)
    return {"NAME-OF-THE-LIST": "chat", "列表里的名字": "chat"}


def stage_documents(folder: Path, language: str, _: str) -> dict[str, str]:
    """Return a stage with a session and its document."""
    play("demo", language)
    call("operate", "doc", "export", "demo", "--out", "session.json")
    shutil.copyfile(folder / "session.json", folder / "old.json")
    return {}


def stage_memory(folder: Path, language: str, model: str) -> dict[str, str]:
    """Return a stage with a session, and with proposals that wait for a yes."""
    play("demo", language, turns=4)
    settings = f"memory: {{review: true}}\nconsolidation: {{model: openai/small, api_base: {model}, api_key: none}}\n"
    (folder / "jacquard.yaml").write_text(settings, encoding="utf-8")
    call("memory", "consolidate", "--session", "demo", "--config", "jacquard.yaml")
    waiting = [
        each["edit_id"] for each in json.loads(call("memory", "proposals", "--session", "demo", "--json").stdout)
    ]
    return {f"t00{number}.summary.proposal": name for number, name in enumerate(waiting[:3], 2)}


def stage_erasure(folder: Path, language: str, _: str) -> dict[str, str]:
    """Return a stage with a session that has evidence."""
    play("s1", language)
    (folder / "note.md").write_text("# The mill\n\nIt stands by the river.\n", encoding="utf-8")
    told = call("memory", "evidence", "add", "note.md", "--session", "s1", "--json").stdout
    (note,) = json.loads(told).values()
    return {"0b0e…": note["evidence_id"]}


def stage_store_care(_: Path, language: str, __: str) -> dict[str, str]:
    """Return a stage with sessions, a store of another name and a pack."""
    play("s1", language)
    play("demo", language)
    play("s1", language, "--store", "saves")
    call("author", "init", "my_world")
    return {}


def stage_stores(folder: Path, language: str, _: str) -> dict[str, str]:
    """Return a stage with a session in a database file, and one in the usual place."""
    (folder / "saves").mkdir()
    play("demo", language)
    play("demo", language, "--store", "sqlite:///saves/game.db")
    return {}


def stage_sets(folder: Path, _: str, __: str) -> dict[str, str]:
    """Return a stage with two labelled sets, a ranking of another system, and reports."""
    for name in ("tales", "songs"):
        (folder / "sets" / name).mkdir(parents=True)
        lines = [
            {"id": f"t1:{turn}", "chain": "history", "session": "t1", "turn": turn, "speaker": who, "text": text}
            for turn, who, text in (
                (1, "Bob", "I am at the gate."),
                (2, "Ann", "The lamp is out of oil."),
                (3, "Ann", "The key is under the third stone."),
            )
        ]
        query = {"id": "t1:q1", "session": "t1", "query": "Where did she say the key was?", "relevant": {"t1:3": 2}}
        (folder / "sets" / name / "corpus.jsonl").write_text(
            "".join(json.dumps(each) + "\n" for each in lines), "utf-8"
        )
        (folder / "sets" / name / "queries.jsonl").write_text(json.dumps(query) + "\n", "utf-8")
    (folder / "out").mkdir()
    shutil.copytree(folder / "sets" / "tales", folder / "marks")
    shutil.make_archive(str(folder / "marks"), "zip", folder / "marks")
    shutil.rmtree(folder / "marks")
    for name in ("a.json", "b.json", "out/hybrid.json"):
        options = ("--retriever", "bm25", "--selector", "oracle", "--embedder", "none", "--json", name)
        assert CliRunner().invoke(evals_app, ["run", "--data", "sets/tales", *options]).exit_code == 0
    (folder / "other.run").write_text("t1:q1 Q0 t1:3 1 0.9 other\n", encoding="utf-8")
    return {"path/to/set": "sets/tales"}


def stage_marks(folder: Path, language: str, model: str) -> dict[str, str]:
    """Return the stage of sets with a session to mark."""
    names = stage_sets(folder, language, model)
    return names | {"t1": play("s1", language)[-1], "9f2c": "lore_temple_key", "41aa": "lore_cellar_key"}


def stage_world_info(folder: Path, language: str, _: str) -> dict[str, str]:
    """Return a stage with a session whose world has a book of world info."""
    (folder / "Harbour.json").write_text(json.dumps(BOOK), encoding="utf-8")
    call("memory", "import", "Harbour.json", "--session", "s1")
    return {}


def nothing(_: Path, __: str, ___: str) -> dict[str, str]:
    """Return a stage of an empty folder."""
    return {}


STAGES: dict[str, Stage] = {
    "coming-from-sillytavern": stage_chat,
    "documents": stage_documents,
    "erasure": stage_erasure,
    "evaluating": stage_marks,
    "evidence": stage_sessions("support-17"),
    "README": stage_sets,
    "README.zh-CN": stage_sets,
    "memory": stage_memory,
    "replay": stage_sessions("s1"),
    "store-care": stage_store_care,
    "stores": stage_stores,
    "world-info": stage_world_info,
}

BOOK = {
    "entries": {
        "0": {
            "uid": 0,
            "key": ["brass key", "铜钥匙"],
            "keysecondary": [],
            "comment": "Key",
            "content": "The brass key opens the boat house.",
            "constant": False,
            "order": 100,
            "position": 0,
        }
    }
}
CHAT = (
    {"user_name": "Ana", "character_name": "Mira", "create_date": "2025-03-01@10h00m00s", "chat_metadata": {}},
    {"name": "Mira", "is_user": False, "send_date": "March 1, 2025 10:00am", "mes": "You are late."},
    {"name": "Ana", "is_user": True, "send_date": "March 1, 2025 10:01am", "mes": "Where is the boat?"},
)


def write_given_files(page: Path, folder: Path) -> None:
    """Write the files that the commands of a page take in: documents, cards, books and chats, by their suffix."""
    for command in read_commands(page):
        if command.words[:3] == ("jacquard", "memory", "import") or command.words[:4] == (
            "jacquard",
            "memory",
            "evidence",
            "add",
        ):
            for name in list_given_names(command):
                file = folder / name
                if not file.exists():
                    file.write_bytes(make_file(file.suffix))


def list_given_names(command: Command) -> list[str]:
    """Return the names of files that a command takes in."""
    found = []
    for before, word in zip(command.words, command.words[1:], strict=False):
        if not before.startswith("--") and re.fullmatch(r"\.(png|json|jsonl|md|pdf|html|txt)", Path(word).suffix):
            found.append(word)
    return found


def make_file(suffix: str) -> bytes:
    """Return the smallest file of a kind that is taken in."""
    if suffix == ".png":
        from formats.card_files import png, text, v2_card

        return png(text("chara", v2_card(name="Mira")))
    if suffix == ".json":
        return json.dumps(BOOK).encode()
    if suffix == ".jsonl":
        return "".join(json.dumps(each) + "\n" for each in CHAT).encode()
    if suffix == ".html":
        return b"<!doctype html><title>Questions</title><h1>Returns</h1><p>Within 30 days.</p>"
    if suffix == ".pdf":
        return make_pdf("Lamps are returned within 30 days.")
    return b"# Returns\n\nLamps are returned within 30 days.\n"


def make_pdf(text: str) -> bytes:
    """Return a PDF file of one page with a line of text."""
    stream = zlib.compress(f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET".encode())
    bodies = (
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream" % (len(stream), stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    )
    out, places = b"%PDF-1.4\n", []
    for number, body in enumerate(bodies, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    rows = b"".join(b"%010d 00000 n \n" % place for place in places)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n%s" % (len(bodies) + 1, rows)
    return out + b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(bodies) + 1, start)
