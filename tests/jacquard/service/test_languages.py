"""Sentences of answers are in the language that a request asks for."""

from __future__ import annotations

from pathlib import Path

import anyio
import httpx
import pytest
from served import serve_app

from jacquard import open_runtime
from jacquard.config.service import ServiceSettings
from jacquard.service.running.application import build_app

WORLD = Path(__file__).parents[3] / "examples" / "whispering_forest" / "zh"
ZH = {"accept-language": "zh-CN,zh;q=0.9,en;q=0.5"}


@pytest.fixture
def store(tmp_path) -> str:
    """A store with a turn, one op of which was refused."""
    place = str(tmp_path / "store")
    anyio.run(_play, place)
    return place


async def _play(place: str) -> None:
    reply = '<content>好。</content><state_update>[["SET","nowhere.at.all",1]]</state_update>'
    async with open_runtime(place, world=WORLD, embedder="none") as runtime:
        await runtime.ensure_session("s")
        turn = await runtime.engine.prepare_turn("s", "那把钥匙是不是开启神庙的？", turn_id="t1")
        await runtime.engine.commit_assistant_message("s", reply, turn_id=turn.turn_id)


def test_reasons_and_errors_follow_the_header(store):
    app = build_app(ServiceSettings(store=store, embedder="none"))
    with serve_app(app) as port, httpx.Client(base_url=f"http://127.0.0.1:{port}/api/v1", timeout=60) as client:
        turn = "/sessions/s/turns/t1"
        english, chinese = (client.get(f"{turn}/receipt", headers=headers).json()["report"] for headers in ({}, ZH))
        assert english["degradations"][0]["detail"].startswith("No embedding model is configured")
        assert chinese["degradations"][0]["detail"].startswith("没有配置嵌入模型")
        assert "启发式规则从" in chinese["stream_b"]["reason"]
        assert [each["code"] for each in chinese["decisions"]] == [each["code"] for each in english["decisions"]]
        verdict = client.get(f"{turn}/changes", headers=ZH).json()["verdicts"][0]
        assert "也不是状态的顶层字段" in verdict["reason"]
        absences = client.get(f"{turn}/why-not", params={"text": "阿苇"}, headers=ZH).json()
        assert any("召回第" in each["reason"] for each in absences)
        document = client.get("/sessions/s/document", headers=ZH).text
        assert document == client.get("/sessions/s/document").text
        error = client.get("/sessions/nobody", headers=ZH).json()["error"]
        assert (error["code"], error["facts"]["session_id"]) == ("session_not_found", "nobody")
        assert error["message"].startswith("没有会话 'nobody'")
        assert client.get("/nowhere", headers=ZH).json()["error"]["message"].startswith("这个地址没有内容")


def test_findings_and_errors_of_the_proxy_follow_the_header(store, monkeypatch):
    app = build_app(ServiceSettings(store=store, embedder="none", world=str(WORLD)))
    with serve_app(app) as port, httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        files = {"templates/chat/status.j2": "{{ nothing }}"}
        world = "/api/v1/worlds/whispering_forest/lint"
        english, chinese = (client.post(world, json={"files": files}, headers=headers).json() for headers in ({}, ZH))
        assert [each["line"] for each in chinese["findings"]] == [each["line"] for each in english["findings"]]
        told = " ".join(f"{each['message']} {each['advice']}" for each in chinese["findings"])
        assert told != " ".join(f"{each['message']} {each['advice']}" for each in english["findings"])
        assert "没有变量“nothing”" in told
        call = {"model": "m", "messages": [{"role": "user", "content": "你好"}]}
        fault = client.post("/v1/chat/completions", json=call, headers=ZH)
        assert fault.json()["error"]["message"].startswith("没有设置模型服务器")
        assert all(value.isascii() for value in fault.headers.values())
        assert client.post("/v1/chat/completions", json=call).json()["error"]["message"].startswith("No model server")
        monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
        assert (
            client.post("/v1/chat/completions", json=call).json()["error"]["message"].startswith("没有设置模型服务器")
        )
