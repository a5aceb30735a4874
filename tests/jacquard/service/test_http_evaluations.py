"""Evaluations over HTTP: runs over the marks of a session, reports in the folder of the store, and who may read them."""

from __future__ import annotations

import json
import os
import sys
from contextlib import asynccontextmanager

import anyio
import httpx
import pytest
from anyio import to_thread
from test_http_marks import FACTS, say, serving, unpack

from evals.compare import compare
from jacquard import RuntimeConfig
from jacquard.config.service import ServiceLimits, ServiceSettings
from jacquard.service.access.records import using_records
from jacquard.service.running.application import build_app
from jacquard.service.values import Scope

pytestmark = pytest.mark.anyio
METRICS = ("recall@5", "recall@10", "recall@25", "recall@50", "all@10", "ndcg@5", "precision@5")


def run_report(values, **config):
    rows = [
        {
            "id": f"q{n}",
            "session": None,
            "category": "c",
            "metrics": dict.fromkeys(METRICS, value),
            "relevant": {"d": 1},
        }
        for n, value in enumerate(values)
    ]
    return {"queries": rows, "metrics": dict.fromkeys(METRICS, 0.5), "config": config}


def put_report(folder, name, value):
    folder.mkdir(parents=True, exist_ok=True)
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    (folder / f"{name}.json").write_bytes(data)


async def mark_turns(client):
    """Play and mark two turns: one with a wanted memory, one with an unwanted one too."""
    names = [(await client.post("/sessions/s/memory", json={"text": each})).json()["edit_id"] for each in FACTS]
    await say(client, "t1", "Where is the boat key?")
    await say(client, "t2", "船夫的女儿叫什么名字?")
    await client.put(f"/sessions/s/turns/t1/marks/{names[0]}", json={"wanted": True})
    await client.put(f"/sessions/s/turns/t2/marks/{names[1]}", json={"wanted": True})
    await client.put(f"/sessions/s/turns/t2/marks/{names[0]}", json={"wanted": False})


async def test_two_selectors_run_over_the_marks_and_are_compared(tmp_path):
    async with serving(tmp_path) as client:
        await mark_turns(client)
        made = await client.post("/sessions/s/evaluations", json={})
        assert made.status_code == 200, made.text
        assert (made.json()["run_id"], made.json()["scored"]) == ("s.hybrid-heuristic", 2)
        other = await client.post("/sessions/s/evaluations", json={"selector": "oracle", "name": "best"})
        assert other.json()["run_id"] == "s.best"
        listed = (await client.get("/evaluations")).json()["items"]
        assert [each["run_id"] for each in listed] == ["s.best", "s.hybrid-heuristic"]
        figures = (await client.get("/evaluations/s.best")).json()
        by_name = {each["metric"]: each for each in figures["metrics"][""]}
        assert by_name["precision@5"]["mean"] == pytest.approx(0.2)
        assert by_name["precision@5"]["low"] <= 0.2 <= by_name["precision@5"]["high"]
        (lost,) = (await client.get("/evaluations/s.hybrid-heuristic/questions", params={"lost": True})).json()["items"]
        assert (lost["session_id"], lost["turn_id"], lost["text"]) == ("s", "t2", "船夫的女儿叫什么名字?")
        assert {each["text"]: each["grade"] for each in lost["expected"]} == {FACTS[1]: 1, FACTS[0]: 0}
        compared = (await client.get("/evaluations/s.hybrid-heuristic/compare/s.best")).json()
        (difference,) = [each for each in compared["differences"][""] if each["metric"] == "precision@5"]
        assert difference["b"] >= difference["a"]
        assert 0 < difference["p"] <= 1


async def test_the_service_and_the_command_give_the_same_comparison(tmp_path):
    folder = tmp_path / "store" / "reports"
    low, high = run_report([0.0, 0.5, 0.25, 0.0]), run_report([1.0, 0.5, 1.0, 1.0])
    async with serving(tmp_path) as client:
        put_report(folder, "a", low)
        put_report(folder, "b", high)
        answer = (await client.get("/evaluations/a/compare/b", params={"metric": "ndcg@5"})).json()
        assert [(each["question_id"], each["a"], each["b"]) for each in answer["items"]] == [
            ("q0", 0.0, 1.0),
            ("q3", 0.0, 1.0),
            ("q2", 0.25, 1.0),
        ]
        for mine, theirs in zip(answer["differences"][""], compare(low, high).differences[""], strict=True):
            assert (mine["low"], mine["high"], mine["p"]) == (theirs.low, theirs.high, theirs.p)
        put_report(folder, "b", run_report([1.0]))
        refused = await client.get("/evaluations/a/compare/b")
        assert (refused.status_code, "not of the same queries" in refused.text) == (422, True)
        assert (await client.get("/evaluations/a/compare/b", params={"metric": "x"})).status_code == 422


async def test_hostile_files_and_names_are_refused(tmp_path):
    folder = tmp_path / "store" / "reports"
    async with serving(tmp_path) as client:
        assert (await client.get("/evaluations")).json() == {"items": [], "next": None}
        put_report(folder, "bad", b"[" * 5_000)
        put_report(folder, "large", b" " * 33_000_000)
        put_report(folder, "plain", b"{}")
        put_report(folder, "<img src=x>", run_report([0.5]))
        (folder / "link.json").symlink_to("/etc/passwd")
        (folder / "folder.json").mkdir()
        listed = {each["run_id"]: each for each in (await client.get("/evaluations")).json()["items"]}
        assert set(listed) == {"bad", "large", "plain", "<img src=x>"}
        assert all(listed[name]["fault"] and not listed[name]["kind"] for name in ("bad", "large", "plain"))
        for name in ("link", "folder", "..%2f..%2fstore", "none", "%2e%2e"):
            assert (await client.get(f"/evaluations/{name}")).status_code == 404
        assert (await client.get("/evaluations/bad")).status_code == 422
        assert (await client.get("/evaluations/%3Cimg%20src%3Dx%3E")).json()["evaluation"]["kind"] == "run"
        for body in ({"retriever": "x"}, {"selector": "--model"}, {"floor": 2}, {"name": "../../x"}, {"name": "-x"}):
            assert (await client.post("/sessions/s/evaluations", json=body)).status_code == 422


async def test_pages_of_reports_and_questions(tmp_path):
    folder = tmp_path / "store" / "reports"
    async with serving(tmp_path) as client:
        for number in range(5):
            put_report(folder, f"r{number}", run_report([0.5] * 25))
            os.utime(folder / f"r{number}.json", (number, number))
        first = (await client.get("/evaluations", params={"limit": 3})).json()
        assert ([each["run_id"] for each in first["items"]], first["next"]) == (["r4", "r3", "r2"], 3)
        assert (await client.get("/evaluations", params={"limit": 3, "offset": 3})).json()["next"] is None
        page = (await client.get("/evaluations/r0/questions", params={"offset": 20})).json()
        assert (len(page["items"]), page["total"], page["next"]) == (5, 25, None)
        assert page["items"][0]["session_id"] == ""


async def test_the_export_is_a_gate_that_fails_when_the_score_falls(tmp_path):
    async with serving(tmp_path) as client:
        await mark_turns(client)
        await to_thread.run_sync(unpack, (await client.get("/sessions/s/marks/export")).content, tmp_path / "set")

    file = tmp_path / "set" / "gate.json"

    async def run_gate(*options):
        command = (sys.executable, "-m", "evals", "gate", "--gate", str(file), "--embedder", "none", *options)
        done = await anyio.run_process(command, check=False)
        return done.returncode, done.stderr.decode()

    assert (await run_gate())[0] == 1  # no baseline yet
    assert (await run_gate("--update"))[0] == 0
    assert (await run_gate())[0] == 0
    gate = json.loads(await anyio.Path(file).read_text(encoding="utf-8"))
    for row in gate["baseline"]["marks"]["queries"]:
        row["metrics"]["precision@5"] = 1.0
    await anyio.Path(file).write_text(json.dumps(gate), encoding="utf-8")
    code, told = await run_gate()
    assert (code, "precision@5 fell" in told) == (1, True)


async def test_a_run_that_takes_too_long_ends(tmp_path):
    async with serving(tmp_path) as client:
        await mark_turns(client)
    async with serving(tmp_path, limits=ServiceLimits(request_seconds=0.8)) as client:
        # The process has the half of the time, in which it does not even start.
        late = await client.post("/sessions/s/evaluations", json={})
        assert (late.status_code, "took longer than 0 seconds" in late.text) == (422, True)


async def test_one_run_at_a_time(tmp_path):
    async with serving(tmp_path) as client:
        await mark_turns(client)
        answers = []

        async def start(name):
            answers.append(await client.post("/sessions/s/evaluations", json={"name": name, "retriever": "bm25"}))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(start, "a")
            tasks.start_soon(start, "b")
        assert sorted(each.status_code for each in answers) == [200, 422]
        assert any("under way" in each.text for each in answers)


@asynccontextmanager
async def serving_tenants(folder):
    store = str(folder / "store")
    async with using_records(store) as records:
        tokens = {
            name: (await records.tokens.create(tenant, scope, viewer=viewer))[0]
            for name, tenant, scope, viewer in (
                ("author", "north", Scope.AUTHOR, None),
                ("play", "north", Scope.PLAY, None),
                ("viewer", "north", Scope.PLAY, "mira"),
                ("other", "south", Scope.ADMIN, None),
            )
        }
    settings = ServiceSettings(store=store, embedder="none", tenants=True)
    app = build_app(settings, RuntimeConfig(profile="assistant"))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1/api/v1") as client,
    ):
        yield client, {name: {"Authorization": f"Bearer {token}"} for name, token in tokens.items()}


async def test_reports_are_of_one_tenant_and_not_for_players(tmp_path):
    async with serving_tenants(tmp_path) as (client, headers):
        client.headers = headers["author"]
        await client.post("/sessions", json={"session_id": "s"})
        await mark_turns(client)
        made = await client.post("/sessions/s/evaluations", json={"retriever": "bm25"})
        assert made.status_code == 200, made.text
        name = made.json()["run_id"]
        paths = ("", f"/{name}", f"/{name}/questions", f"/{name}/compare/{name}")
        assert [(await client.get(f"/evaluations{path}")).status_code for path in paths] == [200] * 4
        for who in ("play", "viewer"):
            client.headers = headers[who]
            assert [(await client.get(f"/evaluations{path}")).status_code for path in paths] == [403] * 4
            assert (await client.post("/sessions/s/evaluations", json={})).status_code == 403
        client.headers = headers["other"]
        assert (await client.get("/evaluations")).json()["items"] == []
        assert [(await client.get(f"/evaluations{path}")).status_code for path in paths[1:]] == [404] * 3
        assert (await client.post("/sessions/s/evaluations", json={})).status_code == 404
