"""Commands speak English or Chinese: by `--lang`, else by the environment."""

from __future__ import annotations

import json
import re
from pathlib import Path

import anyio
import pytest
from typer.testing import CliRunner

from jacquard import RuntimeConfig, open_runtime
from jacquard.cli.app import app
from jacquard.core.sentences import find_language
from mnemosyne import IngestOptions, ToolCall

WORLD = Path(__file__).parents[1] / "examples" / "whispering_forest" / "zh"
ENGLISH = re.compile(r"[A-Za-z][A-Za-z'’]*(?: [A-Za-z][A-Za-z'’]*){2,}")
REPLY = '<content>好。</content><state_update>[["SET","nowhere.at.all",1]]</state_update>'


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> str:
    """A store with a turn of the Chinese example world."""
    store = str(tmp_path_factory.mktemp("store"))
    said = ["--input", "那把钥匙是不是开启神庙的？", "--world", str(WORLD), "--embedder", "none"]
    done = CliRunner().invoke(app, ["play", "weave", "--session", "s", "--store", store, *said])
    assert done.exit_code == 0, done.output
    return store


def _run(*words: str, **environment: str) -> str:
    return CliRunner(env={"COLUMNS": "400", **environment}).invoke(app, list(words)).output


def _find_english(text: str) -> list[str]:
    return ENGLISH.findall(re.sub(r"`[^`]*`|--\S+ \S+", "", text))


def test_a_receipt_is_printed_in_chinese(store):
    text = _run("play", "explain", "--session", "s", "--store", store, "--lang", "zh")
    assert "计划：叙事" in text
    assert "启发式规则从" in text
    assert "降级：no_embedder：没有配置嵌入模型" in text
    assert [line for line in text.splitlines() if _find_english(line)] == []


def test_explain_says_what_was_left_out_when_evidence_was_stored_in_both_languages(tmp_path):
    store = str(tmp_path / "store")

    async def play() -> None:
        async with open_runtime(store, embedder="none", config=RuntimeConfig(profile="assistant")) as runtime:
            engine, call = runtime.engine, ToolCall(tool_call_id="c1", tool="map")
            await engine.prepare_turn("s", "How far is the mill?")
            options = IngestOptions(redact=False)
            await engine.record_tool_call("s", call, result="The mill is two hours away.", options=options)
            await engine.prepare_turn("s", "And from here?")

    anyio.run(play)
    place = ("play", "explain", "--session", "s", "--store", store, "--lang")
    said = re.search(r"done without: redaction_off: When evidence \S+ was stored: A text was kept", _run(*place, "en"))
    assert said is not None
    assert re.search(
        r"降级：redaction_off：存储证据 \S+ 时：按调用方要求，一段文字未经脱敏就保存。", _run(*place, "zh")
    )


def test_reasons_why_an_entry_is_not_there_and_origins_are_in_chinese(store):
    place = ("--session", "s", "--store", store, "--lang", "zh")
    assert "召回第" in _run("play", "explain", "--why-not", "阿苇", *place)
    found = _run("play", "explain", "--find", "钥匙", *place)
    assert "预算放得下" in found
    assert _find_english(found) == []


@pytest.mark.parametrize(
    ("words", "environment"),
    [
        (("--lang", "zh"), {}),
        ((), {"LANG": "zh_CN.UTF-8", "LC_ALL": ""}),
        ((), {"LC_ALL": "zh_TW.UTF-8", "LANG": "en_US.UTF-8"}),
    ],
)
def test_an_error_is_in_the_chosen_language(store, words, environment):
    text = _run("play", "explain", "--session", "nobody", "--store", store, *words, **environment)
    assert "错误：没有会话 'nobody'" in text


def test_english_is_spoken_where_nothing_else_is_chosen(store):
    place = ("--session", "nobody", "--store", store)
    for text in (_run("play", "explain", *place), _run("play", "explain", *place, "--lang", "en", LANG="zh_CN.UTF-8")):
        assert "error: There is no session 'nobody'." in text
    assert "choose en or zh" in _run("play", "explain", *place, "--lang", "fr")


def test_the_language_may_stand_before_the_command_and_ends_with_it(store):
    place = ("--session", "nobody", "--store", store)
    assert "错误：" in _run("--lang", "zh", "play", "explain", *place)
    assert "error: " in _run("play", "explain", *place)


def test_json_stays_as_it_is_recorded(store):
    place = ("--session", "s", "--store", store, "--json")
    assert _run("play", "explain", *place, "--lang", "zh") == _run("play", "explain", *place)
    assert json.loads(_run("play", "explain", *place, "--lang", "zh"))["report"]


def test_the_health_check_and_refused_ops_are_in_chinese(store):
    assert "版次" in _run("operate", "doctor", "--store", store, "--lang", "zh")
    text = _run("play", "commit", "--session", "s", "--store", store, "--text", REPLY, "--lang", "zh")
    assert "既不是 id 或 _anchor，也不是状态的顶层字段" in text
    assert "已提交回合" in text


def test_the_environment_names_a_language():
    assert find_language({}) == "en"
    assert find_language({"LANG": "C.UTF-8"}) == "en"
    assert find_language({"LC_MESSAGES": "zh_CN", "LANG": "de_DE"}) == "zh"


def test_the_page_of_a_turn_is_in_the_chosen_language(store, tmp_path):
    file = tmp_path / "turn.html"
    place = ("--session", "s", "--store", store, "--html", str(file))
    assert "已写入" in _run("play", "explain", *place, "--lang", "zh")
    page = file.read_text(encoding="utf-8")
    assert '<html lang="zh">' in page
    assert "理由: " in page
    shown = re.sub(r"<style.*?</style>|<pre.*?</pre>|<[^>]*>", " ", page, flags=re.DOTALL)
    assert [line for line in shown.splitlines() if _find_english(line)] == []
    _run("play", "explain", *place)
    assert '<html lang="en">' in file.read_text(encoding="utf-8")
