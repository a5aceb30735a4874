"""Commands under `--lang zh` print no English prose: what they do, and mistakes that people make."""

from __future__ import annotations

import re
import socket
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from jacquard.cli.app import app

FOREST = Path(__file__).parents[1] / "examples" / "whispering_forest" / "zh"
PROSE = re.compile(r"[A-Za-z][A-Za-z'’]*(?: [A-Za-z][A-Za-z'’]*){2,}")
CODE = re.compile(r"`[^`]*`|(?:jacquard|pip) [\w./: \"\[\]-]+|--\S+ \S+|/[\w./-]+|\$\{?\w+|'[^']*'|\"[^\"]*\"")


def _run(*words: str, given: str | None = None) -> str:
    done = CliRunner(env={"COLUMNS": "300", "LC_ALL": "zh_CN.UTF-8"}).invoke(app, list(words), input=given)
    assert done.exception is None or isinstance(done.exception, SystemExit), repr(done.exception)
    return done.output


def _english(text: str) -> list[str]:
    return [line for line in text.splitlines() if PROSE.search(CODE.sub("", line))]


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder with a store `store` in which two turns of the Chinese example world were played, and a pack `mine`."""
    folder = tmp_path_factory.mktemp("place")
    store = ("--store", str(folder / "store"))
    for said in ("那把钥匙是不是开启神庙的？", "神庙有多远？"):
        _run("play", "weave", "-w", str(FOREST), "-s", "s", "-i", said, "--embedder", "none", *store)
        _run("play", "commit", "-s", "s", "--text", "<content>好。</content>", *store)
    _run("author", "init", str(folder / "mine"), "--locale", "zh-CN")
    return folder


WORKING = [
    "play state -s s",
    "play state -s s --set hero.nowhere=1",
    "play sessions list",
    "play sessions list nobody",
    "play sessions continue s --as s9",
    "play fork -s s --at start --name again",
    "play switch -s s --name main",
    "play explain -s s",
    "author init NEW",
    "author validate MINE",
    "author template lint --world MINE",
    "author template new night --world MINE",
    "author template test MINE",
    "author template diff chat combat -s s",
    "author replay s",
    "memory search 钥匙 -s s",
    "memory proposals -s s",
    "memory remember 钥匙在井里。 -s s",
    "memory log -s s",
    "memory lore compare s -i 钥匙",
    "memory erase -s s --dry-run",
    "memory erase -s nobody",
    "operate doctor",
    "operate check",
    "operate reindex --embedder none",
    "operate plugins",
    "operate tokens list",
    "operate tokens create --tenant t",
    "operate archive",
    "operate sweep",
    "operate migrate STORE",
    "operate housekeeping --once",
    "operate backup BACKUP",
    "operate doc export s -o OUT",
    "operate doc validate OUT",
    "operate doc import OUT -s copy",
    "operate snapshot list w --at PUBLISHED",
]


@pytest.mark.parametrize("line", WORKING)
def test_what_a_command_tells_is_chinese(place: Path, line: str) -> None:
    names = {"MINE": "mine", "NEW": "new", "STORE": "store", "BACKUP": "b", "OUT": "out.json", "PUBLISHED": "p"}
    words = [str(place / names[each]) if each in names else each for each in line.split()]
    with_store = "author" not in words[:1] or {"-s", "replay"} & set(words)
    if (
        with_store
        and words[1] not in ("plugins", "migrate", "snapshot")
        and words[:3] != ["operate", "doc", "validate"]
    ):
        words += ["--store", str(place / "store")]
    assert _english(_run(*words)) == []


FILES = {
    "broken.yaml": "budget: {max_input_tokens: [\n",
    "unknown.yaml": "budgt: {max_input_tokens: 5}\nbudget: {max_input_tokens: many, reply: 1}\n",
    "range.yaml": "budget: {max_input_tokens: -1}\nprune: {policy: 5}\n",
    "latin.yaml": "name: caf\xe9",
    "list.json": "[]",
    "torn.json": '{"session": ',
    "wrong.json": '{"schema_version": "1.0", "session": {"session_id": 5, "messages": []}}',
    "newer.json": '{"schema_version": "9.0", "session": {}}',
    "rules.yaml": "rules: 5\n",
    "empty.json": "",
}
PACK = {
    "world.yaml": "id: 'a b'\ntitel: x\nlocale: zh-CN\nstate: {hero: {gold: 1, $meta: {limits: {gold: [5, 9], silver: 1}}}}\n",
    "quests.yaml": "- id: q\n  status: actve\n  links: {requires: [q, z]}\n",
    "actions.yaml": "- id: a\n  patterns: ['(', '.*']\n  ops: [[ST, hero.gold, 1]]\n",
    "planner.yaml": "templates: [{id: nowhere, when: ['hero.gld > 1', 'hero.gold = 1']}]\n",
    "lore/one.yaml": "- {id: e, name: E, category: axim, content: x, priority: 200}\n",
    "lore/two.md": "no front matter",
}
MISTAKES = [
    "play history -s nobody",
    "play history -s s --branch nowhere",
    "play explain t9 -s s",
    "play explain -s s --at 1 --find x",
    "play commit -s s --text x",
    "play fork -s s --at t9 --name b",
    "play state -s s --set x",
    "play weave -s s -i x --world /nowhere",
    "play weave -s s -i x --embedder no_such_model",
    "play weave -s s -i x --profile nobody",
    "play weave -s s -i x --layout nobody",
    "play weave -s s -i x --template nobody",
    "play weave -s s -i x --token-estimator nobody",
    "play weave -s s -i x --reranker nowhere",
    "play weave -s s -i",
    "play weave -s s -i x --max-input-tokens -5",
    "play weave -s s -i x --config broken.yaml",
    "play weave -s s -i x --config unknown.yaml",
    "play weave -s s -i x --config range.yaml",
    "play weave -s s -i x --config latin.yaml",
    "play weave -s s -i x --config missing.yaml",
    "play weave -s s -i x --config .",
    "play action -s s -i 无此动作",
    "author validate pack",
    "author validate missing",
    "author init .",
    "author init new2 --locale fr",
    "author template lint nobody --world pack",
    "author template preview nobody -s s",
    "author replay nobody",
    "author schema nothing",
    "memory show nobody -s s",
    "memory undo nobody -s s",
    "memory pin nobody -s s",
    "memory source nonsense",
    "memory source mnemosyne://session:s/turn/t99",
    "memory import missing.json",
    "memory import list.json",
    "memory import torn.json",
    "memory import empty.json",
    "memory erase",
    "memory erase --expired --user u",
    "memory lore list nowhere",
    "memory evidence add missing.txt -s s",
    "operate doc validate list.json",
    "operate doc validate torn.json",
    "operate doc validate wrong.json",
    "operate doc validate newer.json",
    "operate doc export nobody",
    "operate restore missing.db",
    "operate restore torn.json",
    "operate archive --open",
    "operate archive -s nobody",
    "operate tokens revoke nobody",
    "operate snapshot list w",
    "operate serve --port 70000",
    "operate serve --host 203.0.113.7",
    "operate serve --rules rules.yaml",
    "operate serve --config unknown.yaml",
    "operate mcp --config broken.yaml",
]
STORES = ["mysql://u:p@h/d", "torn.json", "postgresql://u:p@127.0.0.1:9/d", "file:missing", "sqlite:///pack", "missing"]


@pytest.fixture
def here(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An own folder with broken files."""
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        Path(name).write_bytes(text.encode("latin-1"))
    for name, text in PACK.items():
        (Path("pack") / name).parent.mkdir(exist_ok=True)
        (Path("pack") / name).write_text(text)
    return place


def _refused(text: str) -> None:
    assert "错误：" in text or "用法：" in text
    assert _english(text) == []


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_told_in_chinese(here: Path, line: str) -> None:
    words = line.split()
    if not {"author", "validate", "restore", "-i"} & set(words[:2]) or "-s" in words or words[1] == "replay":
        words += (
            ["--store", str(here / "store")]
            if words[-1] != "-i" and words[:3] != ["operate", "doc", "validate"]
            else []
        )
    if words[:2] == ["operate", "restore"]:
        words += ["--store", "new"]
    _refused(_run(*words))


@pytest.mark.parametrize("store", STORES)
def test_a_store_that_cannot_be_used_is_told_in_chinese(here: Path, store: str) -> None:
    _refused(_run("play", "history", "-s", "s", "--store", store))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("BUDGET__MAX_INPUT_TOKENS", "x"),
        ("BUDGT__X", "1"),
        ("BUDGET", "[1"),
        ("PRUNE__POLICY", "nobody"),
        ("PLANNER", "5"),
    ],
)
def test_a_wrong_variable_of_the_environment_is_told_in_chinese(
    here: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(f"JACQUARD_{name}", value)
    text = _run("play", "weave", "-s", "s", "-i", "x", "--embedder", "none", "--store", str(here / "store"))
    _refused(text)
    assert f"JACQUARD_{name}" in text or value in text


@pytest.mark.skipif(sys.platform == "win32", reason="another process may listen on the same port there")
def test_a_port_in_use_is_told_in_chinese(here: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        text = _run("operate", "serve", "--port", str(taken.getsockname()[1]), "--store", str(here / "store"))
    _refused(text)
    assert "正被另一个进程使用" in text
