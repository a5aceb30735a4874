"""What a stranger may try at the service's door: each is refused in the form of all errors, and costs nothing."""

from __future__ import annotations

from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import httpx
import pytest

from jacquard import ConfigError, RuntimeConfig
from jacquard.config.sections import list_credentials
from jacquard.config.service import ServiceLimits, ServiceSettings
from jacquard.remote.operations import OPERATIONS
from jacquard.service.access.admission import Admission
from jacquard.service.access.gate import Gate
from jacquard.service.access.records import using_records
from jacquard.service.access.tokens import TokenRegistry
from jacquard.service.running.application import build_app
from jacquard.service.running.server import serve as run_server
from jacquard.service.values import SERVICE_TENANT, Scope
from mnemosyne import StoreUnavailableError, SystemClock, WorldPackError, open_store
from mnemosyne.core.errors import EmbedderUnavailableError

pytestmark = pytest.mark.anyio
ASSISTANT = RuntimeConfig(profile="assistant")


@asynccontextmanager
async def serve(folder, base="http://127.0.0.1", **settings):
    app = build_app(ServiceSettings(store=str(folder / "store"), embedder="none", **settings), ASSISTANT)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=base) as client,
    ):
        yield client


async def make_token(folder, tenant, scope=Scope.PLAY, **more):
    async with using_records(str(folder / "store")) as records:
        token, record = await records.tokens.create(tenant, scope, **more)
    return {"Authorization": f"Bearer {token}"}, record


async def test_without_a_token_nothing_is_answered_but_the_probes(tmp_path):
    async with serve(tmp_path, tenants=True) as client:
        for operation in OPERATIONS:
            answer = await client.request(operation.method, operation.path.replace("{", "").replace("}", ""))
            assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthorized"), operation.name
            assert answer.headers["www-authenticate"] == "Bearer"
        for path in ("/metrics", "/openapi.json", "/v1/models", "/nothing"):
            assert (await client.get(path)).status_code == 401
        assert (await client.get("/healthz")).status_code == 200
        assert (await client.get("/readyz")).status_code == 200


@pytest.mark.parametrize(
    "token", ["", "jq_000000000000_" + "A" * 43, "x", "jq_' OR 1=1", "\u84dd".encode().decode("latin-1")]
)
async def test_a_wrong_token_is_refused(tmp_path, token):
    async with serve(tmp_path, tenants=True) as client:
        answer = await client.get("/api/v1/sessions", headers={"Authorization": f"Bearer {token}".encode("latin-1")})
        assert answer.status_code == 401


async def test_a_tenant_sees_its_own_sessions_alone(tmp_path):
    own, _ = await make_token(tmp_path, "north", Scope.ADMIN)
    other, _ = await make_token(tmp_path, "south", Scope.ADMIN)
    async with serve(tmp_path, tenants=True) as client:
        await client.post("/api/v1/sessions", json={"session_id": "s"}, headers=own)
        assert (await client.get("/api/v1/sessions/s", headers=own)).status_code == 200
        assert (await client.get("/api/v1/sessions/s", headers=other)).status_code == 404
        assert (await client.get("/api/v1/sessions", headers=other)).json()["items"] == []
        made = await client.post("/api/v1/sessions/s/turns", json={"message": "My word is Rosebud."}, headers=own)
        assert made.status_code == 200
        for operation in OPERATIONS:
            if operation.method == "GET" and "{session_id}" in operation.path:
                path = operation.path.replace("{session_id}", "s")
                for name in ("turn_id", "evidence_id"):
                    path = path.replace(f"{{{name}}}", made.json()["turn_id"])
                answer = await client.get(path, headers=other)
                assert answer.status_code in (404, 422), operation.name
                assert "Rosebud" not in answer.text


@pytest.mark.parametrize("scope", [Scope.PLAY, Scope.AUTHOR])
async def test_a_token_opens_what_its_scope_allows(tmp_path, scope):
    token, _ = await make_token(tmp_path, "north", scope)
    async with serve(tmp_path, tenants=True) as client:
        assert (await client.get("/api/v1/sessions", headers=token)).status_code == 200
        for operation in OPERATIONS:
            if operation.scope is Scope.ADMIN or (operation.scope is Scope.AUTHOR and scope is Scope.PLAY):
                answer = await client.request(operation.method, operation.path, headers=token, json={})
                assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden"), operation.name
        assert (await client.get("/metrics", headers=token)).status_code == 403


async def test_a_viewer_calls_what_is_filtered_for_it_alone(tmp_path):
    token, _ = await make_token(tmp_path, "north", viewer="elara")
    async with serve(tmp_path, tenants=True) as client:
        for operation in OPERATIONS:
            answer = await client.request(operation.method, operation.path, headers=token, json={})
            if not operation.open_to_viewers:
                assert answer.status_code == 403, operation.name
            else:
                assert answer.status_code != 403, operation.name


async def test_a_revoked_and_an_expired_token_are_refused(tmp_path):
    class LaterClock:
        def now(self):
            return datetime.now(UTC) + timedelta(days=2)

    store = open_store(str(tmp_path / "store"), tenant=SERVICE_TENANT)
    registry = TokenRegistry(store, SystemClock())
    token, record = await registry.create("north", Scope.PLAY, expires_at=datetime.now(UTC) + timedelta(days=1))
    assert (await registry.find(token)).tenant == "north"
    assert await TokenRegistry(store, LaterClock()).find(token) is None
    await registry.revoke(record.token_id)
    assert await registry.find(token) is None
    assert [each.revoked for each in await registry.records()] == [True]
    await store.close()


async def test_a_token_is_nowhere_in_the_store(tmp_path):
    token, _ = await make_token(tmp_path, "north")
    secret = token["Authorization"].split("_", 2)[2].encode()
    files = [each for each in (tmp_path / "store").rglob("*") if each.is_file()]
    assert files
    assert not [each for each in files if secret in each.read_bytes()]


@pytest.mark.parametrize("path", list_credentials(), ids=".".join)
async def test_a_call_cannot_set_an_address_or_a_key(tmp_path, path):
    token, _ = await make_token(tmp_path, "north", Scope.AUTHOR)
    config = "http://evil.example"
    for name in reversed(path):
        config = {name: config}
    async with serve(tmp_path, tenants=True) as client:
        sent = {"message": "Hello.", "config": config}
        answer = await client.post("/api/v1/sessions/s/turns", json=sent, headers=token)
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "config")
        assert ".".join(path) in answer.json()["error"]["message"]


async def test_tokens_over_http_are_those_of_the_own_tenant(tmp_path):
    admin, _ = await make_token(tmp_path, "north", Scope.ADMIN)
    _, foreign = await make_token(tmp_path, "south")
    async with serve(tmp_path, tenants=True) as client:
        made = await client.post("/api/v1/tokens", json={"scope": "play", "note": "table 4"}, headers=admin)
        assert made.status_code == 201
        own = {"Authorization": f"Bearer {made.json()['token']}"}
        assert (await client.get("/api/v1/sessions", headers=own)).status_code == 200
        assert len((await client.get("/api/v1/tokens", headers=admin)).json()) == 2
        refused = await client.delete(f"/api/v1/tokens/{foreign.token_id}", headers=admin)
        assert (refused.status_code, refused.json()["error"]["code"]) == (404, "token_not_found")
        token_id = made.json()["record"]["token_id"]
        assert (await client.delete(f"/api/v1/tokens/{token_id}", headers=admin)).json()["revoked"] is True
        assert (await client.get("/api/v1/sessions", headers=own)).status_code == 401


async def test_reads_of_originals_and_erasures_are_audited(tmp_path):
    admin, record = await make_token(tmp_path, "north", Scope.ADMIN)
    async with serve(tmp_path, tenants=True) as client:
        await client.post("/api/v1/sessions", json={"session_id": "s"}, headers=admin)
        await client.get("/api/v1/sessions/s/document", headers={**admin, "X-Request-ID": "r-1"})
        erased = await client.post("/api/v1/erasures", json={"session_id": "s", "reason": "asked"}, headers=admin)
        assert erased.json()["done"] is True
        found = (await client.get("/api/v1/audits/calls", headers=admin)).json()
        assert [(each["operation"], each["token_id"]) for each in found] == [
            ("get_document", record.token_id),
            ("erase", record.token_id),
        ]
        assert found[0]["request_id"] == "r-1"
        assert [each["reason"] for each in (await client.get("/api/v1/audits", headers=admin)).json()] == ["asked"]


async def test_an_erasure_names_what_it_found_and_what_is_left(tmp_path):
    said = "The heir hides the amber bell under the third step of the chapel."
    async with serve(tmp_path) as client:
        await client.post("/api/v1/sessions", json={"session_id": "s"})
        await client.post("/api/v1/sessions/s/turns", json={"message": said})
        left = tmp_path / "store" / "originals" / "left.txt"
        left.parent.mkdir()
        left.write_text(said, encoding="utf-8")
        answer = (await client.post("/api/v1/erasures", json={"session_id": "s"})).json()
        assert answer["done"] is False
        assert answer["counts"]["sessions"] == 1
        assert [each.rpartition("/")[2] for each in answer["remains"]] == ["left.txt"]
        left.unlink()
        again = (await client.post("/api/v1/erasures", json={"session_id": "s"})).json()
        assert (again["done"], again["counts"], again["remains"]) == (True, {}, [])


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "evil.example:80", "[::2]", ""])
async def test_another_name_of_the_loopback_service_is_refused(tmp_path, host):
    async with serve(tmp_path) as client:
        answer = await client.get("/api/v1/sessions", headers={"Host": host})
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "unknown_host")


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1", "http://localhost"])
async def test_a_page_of_another_site_cannot_send_what_needs_no_permission(tmp_path, origin):
    async with serve(tmp_path) as client:
        await client.post("/api/v1/sessions", json={"session_id": "s"})
        erase = {"content": b'{"session_id": "s"}', "headers": {"Origin": origin}}
        answer = await client.post("/api/v1/erasures", **erase)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "foreign_origin")
        assert (await client.get("/api/v1/sessions/s")).status_code == 200
        for kind in ("text/plain", "application/x-www-form-urlencoded"):
            told = {"Origin": origin, "Content-Type": kind}
            assert (await client.post("/api/v1/erasures", content=erase["content"], headers=told)).status_code == 403
        own = await client.get("/api/v1/sessions", headers={"Origin": "http://127.0.0.1"})
        assert own.status_code == 200
        # A browser asks before it sends JSON, and gets no permission; other programs may send an origin.
        program = await client.post("/api/v1/sessions", json={"session_id": "t"}, headers={"Origin": origin})
        assert program.status_code == 201


@pytest.mark.parametrize("named", [[], ["tower.lan", "::2"]])
async def test_names_of_this_machine_are_a_setting(tmp_path, named):
    async with serve(tmp_path, **({"hosts": tuple(named)} if named else {})) as client:
        for host in ("host.docker.internal:8321", "Tower.LAN", "[::2]:8321", "other.lan"):
            is_named = host.startswith("host.docker") if not named else host in ("Tower.LAN", "[::2]:8321")
            answer = await client.get("/api/v1/sessions", headers={"Host": host})
            assert answer.status_code == (200 if is_named else 403), host
            assert is_named or "service.hosts" in answer.json()["error"]["message"]


@pytest.mark.parametrize("tenants", [False, True])
async def test_a_page_whose_origin_is_named_may_call_from_a_browser(tmp_path, tenants):
    page, other = "http://localhost:8000", "http://localhost:8001"
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}
    async with serve(tmp_path, origins=(page,), tenants=tenants) as client:
        for path in ("/v1/chat/completions", "/api/v1/sessions"):
            asks = {
                "Origin": page,
                **asked,
                "Access-Control-Request-Private-Network": "true",
                "Content-Type": "application/json",
            }
            answer = await client.options(path, headers=asks)
            assert answer.status_code == 204
            assert answer.headers["access-control-allow-origin"] == page
            assert "POST" in answer.headers["access-control-allow-methods"]
            assert answer.headers["access-control-allow-headers"] == "authorization,content-type"
            assert answer.headers["access-control-allow-private-network"] == "true"
            assert (await client.options(path, headers={**asks, "Origin": other})).status_code == 403
            for origin, may_read in ((page, True), (other, False)):
                answer = await client.post(path, json={"session_id": "s"}, headers={"Origin": origin})
                assert (answer.headers.get_list("access-control-allow-origin") == [page]) is may_read


@pytest.mark.parametrize(
    "wrong", [{"origins": ("http://localhost:8000/",)}, {"origins": ("*",)}, {"hosts": ("http://tower.lan",)}]
)
def test_what_no_browser_sends_is_no_origin_and_no_host(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        ServiceSettings(**wrong)


async def test_browsers_of_other_sites_get_no_permission(tmp_path):
    async with serve(tmp_path) as client:
        headers = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
        for method in ("OPTIONS", "GET"):
            answer = await client.request(method, "/api/v1/sessions", headers=headers)
            assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize(
    "way", ["../../etc/passwd", "..%2F..%2Fetc%2Fpasswd", "%2Fetc%2Fpasswd", "%00", "..%5C..%5Cx", "%252E"]
)
async def test_a_path_in_an_id_is_an_id(tmp_path, way):
    (tmp_path / "outside.txt").write_text("secret")
    async with serve(tmp_path) as client:
        for path in (f"/api/v1/sessions/{way}", f"/api/v1/worlds/{way}", f"/api/v1/sessions/{way}/document"):
            answer = await client.get(path)
            assert answer.status_code in (400, 403, 404, 422), path
            assert "root:" not in answer.text
        await client.post("/api/v1/sessions", json={"session_id": "../outside"})
    assert (tmp_path / "outside.txt").read_text() == "secret"
    assert {each.name for each in tmp_path.iterdir()} == {"outside.txt", "store"}


async def test_a_body_above_the_limit_is_refused_before_it_is_read(tmp_path):
    sent = 0

    async def endless():
        nonlocal sent
        while sent < 1_000_000_000:
            sent += 65_536
            yield b" " * 65_536

    async with serve(tmp_path, limits=ServiceLimits(body_bytes=1_000_000)) as client:
        answer = await client.post("/api/v1/sessions", content=endless(), headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "body_too_large")
        assert sent < 2_000_000
        told = {"Content-Type": "application/json", "Content-Length": "1000000000"}
        answer = await client.post("/api/v1/sessions", content=b"{}", headers=told)
        assert answer.status_code == 413


async def test_a_body_that_does_not_end_is_refused(tmp_path):
    async def slow():
        yield b"{"
        await anyio.sleep(30)

    async with serve(tmp_path, limits=ServiceLimits(body_seconds=0.2)) as client:
        answer = await client.post("/api/v1/sessions", content=slow(), headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (408, "body_too_slow")


async def test_a_request_id_of_a_caller_cannot_add_headers_or_lines(tmp_path):
    async with serve(tmp_path) as client:
        answer = await client.get("/api/v1/sessions", headers={"X-Request-ID": "a b\tc{}"})
        assert answer.headers["x-request-id"].isalnum()
        answer = await client.get("/api/v1/sessions", headers={"X-Request-ID": "good-1"})
        assert answer.headers["x-request-id"] == "good-1"


async def test_above_the_limits_requests_are_refused_with_a_time(tmp_path):
    limits = ServiceLimits(at_once=1, waiting=1, waiting_seconds=5.0)
    async with serve(tmp_path, limits=limits) as client:
        await client.post("/api/v1/sessions", json={"session_id": "s"})
        statuses, answers = [], []

        async def ask(number):
            answer = await client.post("/api/v1/sessions/s/turns", json={"message": "Hello.", "turn_id": f"t{number}"})
            statuses.append(answer.status_code)
            answers.append(answer)

        async with anyio.create_task_group() as tasks:
            for number in range(8):
                tasks.start_soon(ask, number)
        assert 200 in statuses
        assert statuses.count(429) >= 5
        refused = next(each for each in answers if each.status_code == 429)
        assert int(refused.headers["retry-after"]) >= 1


async def test_a_tenant_has_its_share_of_a_minute(tmp_path):
    own, _ = await make_token(tmp_path, "north")
    other, _ = await make_token(tmp_path, "south")
    async with serve(tmp_path, tenants=True, limits=ServiceLimits(tenant_a_minute=3)) as client:
        statuses = [(await client.get("/api/v1/sessions", headers=own)).status_code for _ in range(4)]
        assert statuses == [200, 200, 200, 429]
        assert (await client.get("/api/v1/sessions", headers=other)).status_code == 200


def test_another_address_needs_tenants():
    with pytest.raises(ConfigError, match="only listen on the loopback address"):
        run_server(options={"host": "0.0.0.0"})


@pytest.mark.parametrize(
    ("option", "error"),
    [
        ({"store": "bogus://x"}, StoreUnavailableError),
        ({"world": "nowhere"}, WorldPackError),
        ({"embedder": "nosuch"}, EmbedderUnavailableError),
        ({"limits.body_bytes": 1}, ConfigError),
    ],
)
def test_what_every_request_would_meet_is_said_at_the_start(tmp_path, option, error):
    with pytest.raises(error):
        run_server(options={"store": str(tmp_path / "store"), "embedder": "none", **option})


async def test_an_unexpected_fault_says_nothing_of_what_was_sent():
    async def fail(scope, receive, send):
        raise RuntimeError("Rosebud is the word")

    settings, notes = ServiceSettings(), []
    gate = Gate(fail, settings=settings, admission=Admission(settings.limits), find=None, observe=notes.append)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(gate), base_url="http://127.0.0.1") as client:
        answer = await client.get("/api/v1/sessions")
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal")
    assert "Rosebud" not in answer.text
    assert isinstance(notes[0].error, RuntimeError)


def test_no_file_of_the_service_opens_the_door_by_default():
    assert ServiceSettings().host == "127.0.0.1"
    assert not ServiceSettings().tenants
    assert Path(ServiceSettings().store) == Path(".jacquard")
