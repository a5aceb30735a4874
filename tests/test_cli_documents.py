"""`jacquard author schema` and `jacquard operate doc` as a user types them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from jacquard import open_runtime
from jacquard.cli.app import app
from mnemosyne import (
    BlockType,
    ContextBlock,
    Evidence,
    EvidenceLinks,
    EvidenceSource,
    EvidenceType,
    MessageIndexRange,
    ModelUsage,
    ModelUsageStage,
    Priority,
    Ref,
    SourceKind,
    Summary,
    Task,
    TaskStatus,
    ToolCall,
    ToolCallStatus,
    ToolProvider,
    document_from_json,
)
from mnemosyne.schema.memory import Trust
from mnemosyne.schema.record import PathSummary

ROOT = Path(__file__).parents[1]
FOREST = ROOT / "examples" / "whispering_forest"
EXAMPLES = ROOT / "tests" / "mnemosyne" / "session_documents"
AT = datetime(2026, 2, 1, 9, tzinfo=UTC)


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def call(*args, code=0):
        done = CliRunner().invoke(app, [str(arg) for arg in args])
        assert done.exit_code == code, done.output
        return done

    return call


async def _fill(store_path, world):
    """Play a turn and keep with it one of everything that a session can hold."""
    async with open_runtime(store_path, world=world, embedder="none") as runtime:
        await runtime.ensure_session("demo")
        turn = await runtime.engine.prepare_turn("demo", "那把钥匙是不是开启神庙的?")
        store = runtime.store
        for each in turn.evidences:
            await store.put_evidence("demo", each)
        lookup = Evidence(
            evidence_id="lookup",
            type=EvidenceType.TOOL_RESULT,
            source=EvidenceSource(kind=SourceKind.TOOL, name="find_key", uri="mcp://keys/7"),
            content="第一行\n第二行",
            confidence=0.9,
            trust=Trust.TOOL,
            metadata={"tags": {"topic": "key"}},
            links=EvidenceLinks(tool_call_id="c1"),
            created_at=AT,
            extra={"shelf": [1, {"x": None}]},
        )
        await store.put_evidence("demo", lookup)
        ref = Ref(evidence_id="lookup", selector="lines:1-1")
        await runtime.engine.commit_assistant_message("demo", "<content>是的。</content>", refs=[ref])
        block = ContextBlock(
            block_id="b1", block_type=BlockType.EVIDENCE, priority=Priority.HIGH, token_estimate=4, refs=(ref,)
        )
        await store.put_context_blocks("demo", [*turn.context_blocks, block])
        call = ToolCall(
            tool_call_id="c1",
            tool="find_key",
            provider=ToolProvider(name="keys"),
            called_at=AT,
            args_digest={"name": "神庙"},
            status=ToolCallStatus.TIMEOUT,
            duration_ms=12,
            result_evidence_ids=("lookup",),
            task_id="t1",
        )
        await store.append_tool_calls("demo", [call])
        usage = ModelUsage(
            model_usage_id="u1", provider="x", model="m", stage=ModelUsageStage.ANSWER, prompt_tokens=7, total_tokens=7
        )
        await store.append_model_usage("demo", [usage])
        tasks = [Task(task_id="t1", name="find"), Task(task_id="t2", depends_on=("t1",), status=TaskStatus.FAILED)]
        await store.upsert_tasks("demo", tasks)
        head = await store.head("demo")
        summary = Summary(
            content="他们找到了钥匙。",
            updated_at=AT,
            message_index_range=MessageIndexRange(from_index=1, to_index=4),
        )
        assert head.turn_id is not None
        path = PathSummary(turn_id=head.turn_id, branch_id=head.branch_id, depth=head.depth, summary=summary)
        await store.save_summary("demo", path)
        await store.patch_session("demo", {"meta": {"locale": "zh-CN", "colour": "red"}, "x_note": [1]})


def test_a_played_session_goes_out_and_comes_back_without_loss(run, tmp_path):
    anyio.run(_fill, tmp_path / "one", FOREST / "zh")
    run("operate", "doc", "export", "demo", "--store", "one", "--out", "demo.json")
    data = json.loads(Path("demo.json").read_text(encoding="utf-8"))
    assert run("operate", "doc", "validate", "demo.json").exit_code == 0
    session = data["session"]
    assert session["messages"][-1]["refs"] == [{"evidence_id": "lookup", "selector": "lines:1-1"}]
    assert session["summary"]["message_index_range"] == {"from": 1, "to": 4}
    assert [task["task_id"] for task in session["task_state"]["todo_list"]["tasks"]] == ["t1", "t2"]
    assert session["tool_state"]["tool_calls"][0]["status"] == "timeout"
    assert session["model_usage"][0]["stage"] == "answer"
    assert data["evidences"]["lookup"]["shelf"] == [1, {"x": None}]
    assert len(data["evidences"]) > 1
    assert "b1" in {block["block_id"] for block in data["context_blocks"]}
    assert data["x_note"] == [1]
    run("operate", "doc", "import", "demo.json", "--store", "two")
    again = json.loads(run("operate", "doc", "export", "demo", "--store", "two").stdout)
    assert again == data
    told = json.loads(run("operate", "doc", "import", "demo.json", "--store", "one", "--json").stdout)
    assert (told["branch_id"], told["left_out"]) == ("main", [])
    assert json.loads(run("operate", "doc", "export", "demo", "--store", "one").stdout) == data
    run("operate", "doc", "import", "demo.json", "--store", "two", "--session", "other")
    other = json.loads(run("operate", "doc", "export", "other", "--store", "two").stdout)
    assert other["session"]["session_id"] == "other"
    assert other["session"]["messages"] == session["messages"]


def test_a_session_with_branches_goes_out_and_comes_back_as_it_was(run, tmp_path):
    """A played story: a state that was changed, an action, a fork, a reply that is waited for."""

    async def play():
        async with open_runtime(tmp_path / "one", world=FOREST / "zh", embedder="none") as runtime:
            await runtime.ensure_session("demo")
            engine = runtime.engine
            await engine.prepare_turn("demo", "我把两枚金币给铁匠。")
            reply = '<content>他收下了。</content><state_update>[["SUB", "hero.gold", 2]]</state_update>'
            done = await engine.commit_assistant_message("demo", reply)
            assert done.refused is None
            await runtime.store.fork("demo", "p040", "other")
            await engine.prepare_turn("demo", "我一个人走。")
            await engine.commit_assistant_message("demo", "<content>雾合上了。</content>")
            await engine.prepare_turn("demo", "往哪边?")

    anyio.run(play)
    run("operate", "doc", "export", "demo", "--store", "one", "--out", "demo.json")
    run("operate", "doc", "validate", "demo.json")
    run("operate", "doc", "import", "demo.json", "--store", "two")
    again = run("operate", "doc", "export", "demo", "--store", "two").stdout
    assert json.loads(again) == json.loads(Path("demo.json").read_text(encoding="utf-8"))
    for args in (
        ("play", "history", "--limit", 99),
        ("play", "state", "--branch", "main"),
        ("play", "state", "--branch", "other"),
        ("play", "explain"),
    ):
        here, there = (run(*args[:2], "--session", "demo", *args[2:], "--json", "--store", s) for s in ("one", "two"))
        if args[1] == "history":
            mine, theirs = (json.loads(each.stdout) for each in (here, there))
            assert mine["turns"] == theirs["turns"]
            continue
        assert here.stdout == there.stdout
    reply = ("play", "commit", "--session", "demo", "--store", "two", "--text", "<content>往东。</content>")
    assert "pack of world 'whispering_forest'" in run(*reply, code=1).stderr, "a document does not hold the pack"
    commit = run(*reply, "--world", FOREST / "zh")
    assert "committed turn t000042" in commit.stderr
    linear = run("operate", "doc", "export", "demo", "--store", "one", "--linear")
    assert "turn_tree" not in json.loads(linear.stdout)
    assert "left out: the state of the world; 1 other branch; " in linear.stderr
    data = json.loads(again)
    data["turn_tree"]["turns"][3]["parent_id"] = "gone"
    Path("bad.json").write_text(json.dumps(data), encoding="utf-8")
    told = run("operate", "doc", "validate", "bad.json", code=1).stderr
    assert "turn_tree.turns[3].parent_id: turn 'p004' at depth 4 does not follow 'gone'" in told
    assert "turn_tree.turns[3]" in run("operate", "doc", "import", "bad.json", "--store", "three", code=1).stderr


def test_an_address_leads_back_to_what_it_names(run):
    turn = json.loads(
        run(
            *("play", "weave", "--world", FOREST / "en", "--session", "g", "--embedder", "none", "--json"),
            *("--input", "Is that the key that opens the temple?"),
        ).stdout
    )
    for item in turn["package"]["evidence"]:
        named = json.loads(run("memory", "source", item["source_uri"]).stdout)
        assert named["entry_id"] == item["id"]
        assert named["text"].startswith(item["snippet"][:40])
    assert json.loads(run("memory", "source", "mnemosyne://session:g/turn/p001").stdout)["turn_id"] == "p001"
    assert "nothing has this name" in run("memory", "source", "mnemosyne://session:g/event/gone", code=1).stderr


@pytest.mark.parametrize("name", ["full", "smallest"])
def test_the_examples_of_the_specification_go_in_and_out(run, name):
    file = EXAMPLES / f"{name}.json"
    done = run("operate", "doc", "validate", file)
    assert "is a good session document" in done.stdout
    assert "warning: " in done.stderr
    run("operate", "doc", "import", file, "--store", "s")
    again = json.loads(run("operate", "doc", "export", "uuid", "--store", "s").stdout)
    for message in again["session"]["messages"]:
        message.pop("message_id", None)
    assert again == json.loads(file.read_text(encoding="utf-8"))


def test_every_fault_is_told_with_its_path(run, tmp_path):
    data = json.loads((EXAMPLES / "full.json").read_text(encoding="utf-8"))
    data["session"]["messages"][2]["role"] = "usr"
    data["context_blocks"][0]["refs"][0]["evidence_id"] = "gone"
    del data["evidences"]["uuid"]["source"]["kind"]
    Path("bad.json").write_text(json.dumps(data), encoding="utf-8")
    told = run("operate", "doc", "validate", "bad.json", code=1).stderr
    assert "session.messages[2].role: 'usr' is none of system, user, assistant, tool" in told
    assert "context_blocks[0].refs[0].evidence_id: no evidence has the id 'gone'" in told
    assert "evidences.uuid.source.kind: is missing" in told
    assert "3 errors in bad.json." in told
    answer = json.loads(run("operate", "doc", "validate", "bad.json", "--json", code=1).stdout)
    assert (answer["ok"], len(answer["errors"])) == (False, 3)
    assert answer["warnings"]
    assert (
        "bad.json is no session document" in run("operate", "doc", "import", "bad.json", "--store", "s", code=1).stderr
    )
    assert "There is no session" in run("operate", "doc", "export", "uuid", "--store", "s", code=1).stderr


def test_a_fault_of_a_document_names_its_line_and_the_key_that_was_meant(run):
    data = json.loads((EXAMPLES / "full.json").read_text(encoding="utf-8"))
    data["session"]["messages"][2]["role"] = "usr"
    data["sesion"] = data.pop("session") | {"messages": []}
    Path("bad.json").write_text(json.dumps(data, indent=2), encoding="utf-8")
    told = run("operate", "doc", "validate", "bad.json", code=1).stderr
    assert "bad.json:1: session: is missing; add it; is it written as 'sesion'?" in told
    data = json.loads((EXAMPLES / "full.json").read_text(encoding="utf-8"))
    data["session"]["messages"][2]["role"] = "usr"
    text = json.dumps(data, indent=2)
    Path("bad.json").write_text(text, encoding="utf-8")
    line = text[: text.index('"usr"')].count("\n") + 1
    told = json.loads(run("operate", "doc", "validate", "bad.json", "--json", code=1).stdout)["errors"]
    assert f"bad.json:{line}: session.messages[2].role: 'usr' is none of system, user, assistant, tool" in told


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b'{"a" 1}', "x.json:1:6: "),
        (b'{\n  "a": [1\n}', "x.json:3:1: "),
        (b"", "x.json:1:1: "),
        (b'{"a": NaN}', "NaN is not JSON"),
        (b'{"a": 1, "a": 2}', 'the key "a" twice'),
        (b"{\n\xff}", "x.json:2: byte 2 is not UTF-8"),
        (b"[" * 100_000, "nested too deep"),
        (b"1" * 5000, "x.json: "),
        (b"[]", "The document is a list, not an object."),
    ],
)
def test_bad_json_is_told_with_line_and_column(run, data, told):
    Path("x.json").write_bytes(data)
    assert told in run("operate", "doc", "validate", "x.json", code=1).stderr
    if data != b"[]":
        assert told in run("operate", "doc", "import", "x.json", code=1).stderr
        assert told in run("operate", "doc", "migrate", "x.json", code=1).stderr


def test_a_file_that_is_not_there(run):
    assert "gone.json" in run("operate", "doc", "validate", "gone.json", code=1).stderr


@pytest.mark.parametrize(
    "command",
    [
        ("operate", "doc", "migrate"),
        ("operate", "migrate"),
    ],
)
def test_a_document_of_the_present_version_comes_out_as_it_is_and_a_newer_one_is_refused(run, command):
    one = {
        "schema_version": "1.0",
        "session": {
            "session_id": "c1",
            "messages": [{"role": "user", "content": "hi"}],
            "task_state": {"todo_list": {"tasks": []}},
        },
    }
    one |= {"evidences": {}, "context_blocks": []}
    Path("one.json").write_text(json.dumps(one), encoding="utf-8")
    run(*command, "one.json", "--out", "same.json")
    same = json.loads(Path("same.json").read_text(encoding="utf-8"))
    assert document_from_json(same).session.session_id == "c1"
    assert json.loads(run(*command, "one.json").stdout) == same
    for version, told in (("2.0", "a newer release wrote it"), ("0.9", "only documents of '1.0' can be read")):
        Path("other.json").write_text(json.dumps({**one, "schema_version": version}), encoding="utf-8")
        shown = run(*command, "other.json", "--out", "n.json", code=1).stderr
        assert f"version {version} cannot be migrated to version 1.0" in shown
        assert told in " ".join(shown.split())
    assert not Path("n.json").exists()


@pytest.mark.parametrize("name", [[], ["session"], ["package"], ["world"], ["settings"]])
def test_schemas_are_printed(run, name):
    Draft202012Validator.check_schema(json.loads(run("author", "schema", *name).stdout))


@pytest.mark.parametrize("name", [[], ["session"], ["package"], ["world"], ["settings"]])
def test_the_controls_of_a_form_are_printed_from_the_same_tables(run, name):
    text = run("author", "schema", *name, "--form").stdout
    assert '"help"' in text
    if name == ["settings"]:
        groups = {each["key"]: each for each in json.loads(text)["fields"]}
        limit = next(each for each in groups["budget"]["fields"] if each["key"] == "max_input_tokens")
        assert (limit["label"], limit["control"], limit["unit"], limit["minimum"]) == (
            "Max input tokens",
            "number",
            "tokens",
            1,
        )
        assert groups["activation"]["choices"] == ["auto", "recall", "sillytavern"]
        assert groups["service"]["control"] == "group"


def test_an_unknown_schema(run):
    run("author", "schema", "dream", code=2)


def test_the_package_of_a_woven_turn_is_valid(run):
    turn = json.loads(
        run(
            *("play", "weave", "--world", FOREST / "en", "--session", "g", "--embedder", "none", "--json"),
            *("--deadline-ms", "60000"),
            *("--input", "Is that the key that opens the temple?"),
        ).stdout
    )
    schema = json.loads(run("author", "schema", "package").stdout)
    Draft202012Validator(schema).validate(turn["package"])
    assert set(turn["package"]) == set(schema["properties"])
    assert turn["package"]["evidence"]


PACKAGE = {
    "version": "0.1",
    "context_id": "c1",
    "session_id": "s1",
    "created_at": "2026-02-01T09:00:00Z",
    "user_message": {"role": "user", "content": "Where is it?"},
}


def test_a_context_package_is_checked(run, tmp_path):
    file = tmp_path / "package.json"
    file.write_text(json.dumps(PACKAGE), encoding="utf-8")
    assert "package.json is a good context package (0 warnings)." in run("operate", "doc", "validate", file).output
    item = {"id": "e1", "source": "book", "source_uri": "x", "title": "", "snippet": "", "mode": "exact", "score": 1}
    file.write_text(json.dumps(PACKAGE | {"evidence": [item], "mood": "calm"}), encoding="utf-8")
    warned = run("operate", "doc", "validate", file).output
    assert f"warning: {file}:1: evidence[0].source: 'book' is none of memory, resource" in warned
    assert f"warning: {file}:1: mood: is not known, ignored" in warned
    wrong = PACKAGE | {"version": "2.0", "user_message": "Where is it?", "evidence": [{"id": 1}]}
    file.write_text(json.dumps(wrong), encoding="utf-8")
    told = run("operate", "doc", "validate", file, code=1).output
    for line in (
        "version: '2.0' cannot be read here",
        "text, not an object",
        "evidence[0].source_uri",
    ):
        assert line in told
    found = json.loads(run("operate", "doc", "validate", file, "--json", code=1).output)
    assert found["kind"] == "context package"
    assert len(found["errors"]) >= 4
