"""Entry points of files and addresses: templates, packs, documents, imports, what a command prints, normal forms."""

from __future__ import annotations

import json
import unicodedata
from functools import cache
from io import StringIO
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from entry_points import LIMITS, MEASURED_CHARS, entry
from rich.console import Console
from rich.text import Text as Line

from jacquard import JacquardError
from jacquard.adapters.prompts.templates import parse_template
from jacquard.authoring.linting.lint import lint_templates
from jacquard.authoring.replay.line_diff import diff_lines
from jacquard.authoring.reports import read_evaluation
from jacquard.authoring.target import find_target
from jacquard.cli.command_parts import clean
from jacquard.core.names import normalise
from jacquard.templating import find_shipped_templates, open_templates
from jacquard.templating.limits import FILE_LIMIT_BYTES
from jacquard.templating.sandbox import render_reply
from mnemosyne import MnemosyneError, document_to_json, load_world
from mnemosyne.chains.uris import parse_uri
from mnemosyne.core.masking.addresses import mask_address
from mnemosyne.core.masking.credentials import mask_credentials
from mnemosyne.core.normal_forms import normal_form
from mnemosyne.documents.session_json import read_document
from mnemosyne.formats.corpora.corpus import MAX_LINE_BYTES, read_corpus, to_session

# --- addresses, command line ------------------------------------------------------------------------------------------


@entry("address", LIMITS.user_message_chars)
def read_address(text: str) -> None:
    mask_address(text)
    mask_address(f"https://{text}@host/?k={text}")


@entry("error of a client", LIMITS.reply_chars)
def hide(text: str) -> None:
    said = mask_credentials(f"{text} https://u:geheim@host/ ", "sk-secret")
    assert "geheim" not in said or "geheim" in text


@entry("report of an evaluation", LIMITS.user_message_chars, JacquardError)
def read_report(text: str) -> None:
    row = {"id": text, "session": text, "category": text, "relevant": {text: 1}, "retrieved": [text], "error": text}
    data = json.dumps({"queries": [row], "config": {"retriever": text}}).encode()
    report = read_evaluation(data)
    assert report.queries[0].relevant == {report.queries[0].id: 1}
    read_evaluation(text.encode("utf-8", "replace"))


@entry("URI", LIMITS.user_message_chars, MnemosyneError)
def read_uri(text: str) -> None:
    parse_uri(text if text.startswith("mnemo") else f"mnemosyne://session:s/turn/{text}")


@entry("command line", LIMITS.reply_chars)
def print_text(text: str) -> None:
    said = clean(text)
    assert len(text) <= len(said) <= 6 * len(text)
    assert not any(unicodedata.category(sign) == "Cc" and sign not in "\n\t" for sign in said)
    console = Console(file=StringIO(), width=100, soft_wrap=True)
    console.print(Line(said))


@entry("differences", 200_000)
def compare_texts(text: str) -> None:
    diff_lines(text.split("\n"), text[::-1].split("\n"))


# --- templates, packs, files ------------------------------------------------------------------------------------------


@cache
def _folder() -> Path:
    return Path(mkdtemp(prefix="text-entries-"))


_PRINTED = (
    '<a b="{{ x | attr }}">{{ x | text }}</a>{{ x }} {{ x | upper }} {{ x | lower | title }} {{ x | trim }} '
    "{{ x | replace('a', 'b') }} {{ x | truncate(40) }} {{ {'k': x} | yaml }} {{ x | length }} "
    "{{ [x, x] | join(', ') }} {{ x.split() | count }} {{ x ~ x }}"
)


@cache
def _printing() -> Any:
    folder = _folder() / "templates" / "chat"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "x.j2").write_text(_PRINTED)
    return open_templates([folder.parent, find_shipped_templates()])


@entry("value of a template", 40_000, JacquardError)
def print_value(text: str) -> None:
    shown = _printing().render("chat/x.j2", {"x": text})
    assert shown.count("<") == 2


@entry("value of a reply's template", 40_000, JacquardError)
def print_reply(text: str) -> None:
    said = render_reply("{{ x }}{{ x | upper | trim }}", {"x": text}, name="r")
    assert said.startswith(text)


@entry("template of a reply", FILE_LIMIT_BYTES, JacquardError)
def read_reply_template(text: str) -> None:
    render_reply(text, {"x": "y", "y": [1, 2]}, name="r")


@entry("template", FILE_LIMIT_BYTES, JacquardError, costs=True)
def lint(text: str) -> None:
    folder = _folder() / "linted" / "templates" / "combat"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "status.j2").write_bytes(text.encode("utf-8", "surrogatepass"))
    lint_templates(find_target(str(folder / "status.j2"), pack=None, shipped=find_shipped_templates()))


@entry("prompt of a small model", LIMITS.reply_chars, JacquardError)
def read_prompt_template(text: str) -> None:
    try:
        parse_template(text, "a.txt")
    finally:
        parse_template(f"[system]\n{text}\n[user]\nx", "a.txt")


@entry("session document", LIMITS.tool_result_chars)
def read_session(text: str) -> None:
    message = {
        "message_id": "m1",
        "role": "user",
        "content": text,
        "refs": [{"evidence_id": "e1", "selector": text[:80]}],
    }
    data = {
        "schema_version": "1.0",
        "meta": {"session_id": text[:20] or "s", "created_at": text[:30]},
        "session": {"messages": [message], "summary": {"content": text}, text[:30]: text},
        "evidences": [
            {"evidence_id": "e1", "type": text[:10], "source": {"kind": "tool", "name": text}, "content": text}
        ],
        "context_blocks": [],
    }
    document, faults = read_document(data)
    assert (document is None) == any(fault.severity.value == "error" for fault in faults)
    if document is not None:
        document_to_json(document)


@entry("corpus", MAX_LINE_BYTES // 2, MnemosyneError, costs=True)
def import_corpus(text: str) -> None:
    file = _folder() / "corpus.jsonl"
    said = text.encode("utf-8", "replace").decode()
    lines = [
        {"id": "a", "chain": "history", "session": "s", "speaker": said[:30], "text": said},
        {"id": "b", "chain": "lore", "text": said[:9]},
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    corpus = read_corpus(file)
    assert to_session(corpus, "s").turns[0].messages[0].content == said


@entry("file of a corpus", MAX_LINE_BYTES // 4, MnemosyneError, costs=True)
def import_file(text: str) -> None:
    file = _folder() / "raw.jsonl"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    read_corpus(file)


_PACK = {
    "lore.md": "---\nid: lore_x\nname: X\ncategory: encyclopedia\n---\n%s\n",
    "lore.yaml": "%s",
    "world.yaml": "id: w\ntitle: W\nlocale: en\n%s\n",
    "actions.yaml": "- id: a\n  patterns: [%s]\n  reply: x\n",
}

for _file, _form in _PACK.items():

    def _load(text: str, name: str = _file, form: str = _form) -> None:
        folder = _folder() / f"pack-{name}"
        place = folder / ("lore" if name.startswith("lore") else ".") / name
        place.parent.mkdir(parents=True, exist_ok=True)
        (folder / "world.yaml").write_text("id: w\ntitle: W\nlocale: en\n")
        said = json.dumps(text) if name == "actions.yaml" else text
        place.write_bytes((form % said).encode("utf-8", "surrogatepass"))
        load_world(folder)

    entry(f"pack: {_file}", MEASURED_CHARS // 4, MnemosyneError, costs=True)(_load)


# --- normal forms -----------------------------------------------------------------------------------------------------


@entry("normal forms", LIMITS.user_message_chars)
def normalise_text(text: str) -> None:
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        done = normal_form(form, text)
        assert unicodedata.is_normalized(form, done) or len(text) > 4_000
    normalise(text)
