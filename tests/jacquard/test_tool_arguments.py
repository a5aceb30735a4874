"""A tool call is checked before anything of it is written."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from jacquard import ConfigError, open_runtime
from mnemosyne import EvidenceNotFoundError, SessionStart, ToolCall

pytestmark = pytest.mark.anyio


@pytest.fixture
async def runtime(tmp_path):
    async with open_runtime(tmp_path / "store", embedder="none") as opened:
        await opened.store.create_session(SessionStart(session_id="s", world_id="", locale="en", state={}))
        yield opened


def call(**arguments):
    return ToolCall(tool_call_id="c1", tool="order", args_digest=arguments)


async def test_times_and_decimals_are_written_as_text(runtime):
    at = datetime(2026, 1, 31, 12, tzinfo=UTC)
    made = call(at=at, day=date(2026, 2, 1), price=Decimal("9.90"), deep={"list": [Decimal("1.5")]})
    await runtime.engine.record_tool_call("s", made, result="Ordered.")
    document = await runtime.store.get_session("s")
    (stored,) = document.session.tool_state.tool_calls
    assert stored.args_digest["day"] == "2026-02-01"
    assert datetime.fromisoformat(stored.args_digest["at"]) == at
    assert (stored.args_digest["price"], stored.args_digest["deep"]) == ("9.90", {"list": ["1.5"]})
    (evidence,) = document.evidences.values()
    assert evidence.links.tool_call_id == "c1"


@pytest.mark.parametrize(
    ("made", "how", "error"),
    [
        (call(it=object()), {"result": "Ordered."}, ConfigError),
        (ToolCall(tool_call_id="c1", tool="order", called_at=datetime(2026, 1, 1)), {"result": "x"}, ConfigError),
        (call(), {"result": {"a": 1}}, ConfigError),
        (ToolCall(tool_call_id=" ", tool="order"), {"result": "Ordered."}, ConfigError),
        (call(), {"result": "Ordered.", "result_evidence_ids": ["nowhere"]}, EvidenceNotFoundError),
    ],
)
async def test_what_cannot_be_stored_leaves_nothing(runtime, made, how, error):
    before = await runtime.store.head("s")
    with pytest.raises(error):
        await runtime.engine.record_tool_call("s", made, **how)
    assert await runtime.store.list_evidences("s") == ()
    assert await runtime.store.head("s") == before
