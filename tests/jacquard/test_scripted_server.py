"""The scripted server that is shipped (`python -m jacquard.testing.server`)."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from jacquard.testing.server import ScriptedServer, Step


def post(server, path, **body):
    request = urllib.request.Request(f"{server.base_url}/{path}", json.dumps(body).encode(), method="POST")
    with urllib.request.urlopen(request) as response:
        text = response.read().decode()
    return json.loads(text) if not body.get("stream") else text


def ask(server, text="Hello.", **body):
    return post(server, "chat/completions", messages=[{"role": "user", "content": text}], **body)


def test_steps_are_taken_in_turn_and_the_last_one_stays():
    with ScriptedServer("text:One.", "echo") as server:
        answers = [ask(server)["choices"][0]["message"]["content"] for _ in range(3)]
    assert answers == ["One.", "Hello.", "Hello."]


def test_a_script_begins_again_where_it_is_to():
    with ScriptedServer("text:One.", "text:Two.", loop=True) as server:
        answers = [ask(server)["choices"][0]["message"]["content"] for _ in range(4)]
    assert answers == ["One.", "Two.", "One.", "Two."]


def test_tools_are_called_one_or_several_at_once():
    with ScriptedServer('tool:weather {"city": "Oslo"} && clock') as server:
        choice = ask(server, tools=[{"type": "function", "function": {"name": "weather"}}])["choices"][0]
        assert server.requests[0].tools == ("weather",)
    calls = [(call["function"]["name"], call["function"]["arguments"]) for call in choice["message"]["tool_calls"]]
    assert calls == [("weather", '{"city": "Oslo"}'), ("clock", "{}")]
    assert choice["finish_reason"] == "tool_calls"


def test_a_function_may_answer_each_request():
    with ScriptedServer(lambda request: Step(text=request.text.upper())) as server:
        assert ask(server)["choices"][0]["message"]["content"] == "HELLO."


@pytest.mark.parametrize("with_usage", [True, False])
def test_a_stream_has_usage_where_it_is_asked_for(with_usage):
    options = {"stream_options": {"include_usage": True}} if with_usage else {}
    with ScriptedServer("text:One and two.") as server:
        lines = ask(server, stream=True, **options).splitlines()
    events = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]
    text = "".join(choice["delta"].get("content") or "" for event in events for choice in event["choices"])
    assert text == "One and two."
    assert any("usage" in event for event in events) is with_usage
    assert lines[-2] == "data: [DONE]"


def test_the_other_api_has_the_same_script():
    with ScriptedServer("text:One.", "tool:clock") as server:
        first = post(server, "responses", input="Hello.", instructions="Be brief.")
        second = post(server, "responses", input=[{"role": "user", "content": [{"type": "input_text", "text": "Hi."}]}])
        seen = [[(message.role, message.text) for message in request.messages] for request in server.requests]
    assert first["output"][0]["content"][0]["text"] == "One."
    assert second["output"][0]["name"] == "clock"
    assert first["usage"]["input_tokens"] == len("Be brief.\nHello.") // 4
    assert seen == [[("system", "Be brief."), ("user", "Hello.")], [("user", "Hi.")]]


def test_usage_and_failures_follow_the_script():
    with ScriptedServer("unmetered:One.", "status:503") as server:
        assert "usage" not in ask(server)
        with pytest.raises(urllib.error.HTTPError, match="503"):
            ask(server)


@pytest.mark.parametrize("step", ["", "words", "tool:", "tool:clock [1]", "slow:0.1 words", "status:many"])
def test_a_step_that_is_none_is_refused(step):
    with pytest.raises(ValueError):
        ScriptedServer(step)


def test_it_runs_as_a_command_and_without_pytest(tmp_path):
    (tmp_path / "pytest.py").write_text("raise ImportError('no pytest here')", encoding="utf-8")
    command = [sys.executable, "-m", "jacquard.testing.server", "--port", "0", "--quiet", "text:Hello there."]
    environment = {"PYTHONPATH": f"{tmp_path}:{':'.join(sys.path)}"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        address = process.stdout.readline().strip()
        body = json.dumps({"messages": []}).encode()
        with urllib.request.urlopen(urllib.request.Request(f"{address}/chat/completions", body)) as response:
            answer = json.load(response)
        process.terminate()
    assert answer["choices"][0]["message"]["content"] == "Hello there."


def test_a_bad_step_of_the_command_is_named():
    command = [sys.executable, "-m", "jacquard.testing.server", "words"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert "'words' is not a step" in done.stderr
