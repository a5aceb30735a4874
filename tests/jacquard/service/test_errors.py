"""Every error of the tree has its code, its status and its sentence over HTTP, and is the same error at the client."""

from __future__ import annotations

import json
import re

import httpx
import pytest

import evals.errors  # noqa: F401 (its errors are subclasses that a service never raises)
from filament import FilamentError
from jacquard import ConfigError
from jacquard.client.errors import ServiceError, code_of, error_of
from jacquard.config.service import ServiceSettings
from jacquard.remote.operations import OPERATIONS
from jacquard.service.answers import STATUSES, answer_error, describe, status_of
from jacquard.service.running.application import build_app
from mnemosyne import ContextEngineError, VersionConflictError

OWN = ("filament", "mnemosyne", "jacquard")


def classes_below(*kinds):
    for kind in kinds:
        if kind.__module__.partition(".")[0] in OWN:
            yield kind
        yield from classes_below(*kind.__subclasses__())


ERRORS = sorted(set(classes_below(ContextEngineError, FilamentError)), key=lambda kind: kind.__name__)


def make(kind):
    """An error of a class, without the arguments of which it makes its sentence."""
    error = kind.__new__(kind)
    Exception.__init__(error, f"The sentence of {kind.__name__}.")
    return error


def test_every_error_has_a_code_of_its_own():
    codes = [code_of(kind) for kind in ERRORS]
    assert len(ERRORS) > 40
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"[a-z0-9]+(_[a-z0-9]+)*", code) for code in codes)


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_every_error_is_answered_and_is_itself_again_at_the_client(kind):
    answer = answer_error(make(kind), describe(make(kind)))
    assert 400 <= answer.status_code < 600
    assert answer.status_code == status_of(kind)
    told = json.loads(bytes(answer.body))["error"]
    assert told["code"] == code_of(kind)
    assert told["message"] == f"The sentence of {kind.__name__}."
    assert ("retry-after" in answer.headers) == (answer.status_code in (429, 503))
    again = error_of(answer.status_code, bytes(answer.body))
    if not issubclass(kind, ServiceError):
        assert type(again) is kind
        assert str(again) == told["message"]


def test_an_error_that_an_operation_names_has_a_status_that_says_whose_fault_it_is():
    for operation in OPERATIONS:
        for kind in operation.errors:
            assert status_of(kind) in {*STATUSES.values()}, (operation.name, kind)


@pytest.mark.anyio
async def test_a_version_conflict_says_both_versions(tmp_path):
    app = build_app(ServiceSettings(store=str(tmp_path / "store"), embedder="none"))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1/api/v1") as client,
    ):
        await client.post("/sessions", json={"session_id": "s"})
        await client.post("/sessions/s/turns", json={"message": "Hello.", "turn_id": "t"})
        await client.post("/sessions/s/reply", json={"message": "Good day.", "turn_id": "t"})
        document = (await client.get("/sessions/s/document")).json()
        version = (await client.get("/sessions/s")).json()["version"]
        sent = {"document": document, "expected_version": version + 5}
        answer = await client.put("/sessions/s/document", json=sent)
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "version_conflict")
        facts = answer.json()["error"]["facts"]
        assert (facts["session_id"], facts["expected"], facts["found"]) == ("s", version + 5, version)
        error = error_of(409, answer.content)
        assert isinstance(error, VersionConflictError)
        assert error.found == version
        sent["expected_version"] = version
        assert (await client.put("/sessions/s/document", json=sent)).status_code == 200


def test_a_config_error_is_no_fault_of_the_service():
    assert status_of(ConfigError) == 422
