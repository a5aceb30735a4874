"""A tenant is told nothing of the host: neither where its files lie nor where its database is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from doors import CALLERS, WORLD, open_doors, tool_arguments
from test_doors import CALLS

from jacquard import RuntimeConfig, open_runtime
from jacquard.core.degradations import Degradation
from jacquard.core.errors import TemplateError
from jacquard.service.answers import describe
from jacquard.service.host_paths import error_for, event_for, hide_places, turn_for
from jacquard.service.mcp.tools import TOOLS
from jacquard.service.values import LOCAL, Principal
from jacquard.testing.server import ScriptedServer
from mnemosyne import Event, StoreUnavailableError, SystemClock
from mnemosyne.core.errors import IndexUnavailableError
from mnemosyne.schema.event import EventType

pytestmark = pytest.mark.anyio
TENANT = Principal(tenant="north", token_id="t")


@pytest.fixture
def upstream():
    with ScriptedServer("text:Noted.") as server:
        yield server


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "/srv/north/my.db cannot be used: [Errno 13] '/tmp/a b/c.db'.",
            "…/my.db cannot be used: [Errno 13] '…/c.db'.",
        ),
        ('The folder "C:\\Users\\me\\store" is gone, and C:/x/y too', 'The folder "…/store" is gone, and …/y too'),
        ("file:///srv/a/world.yaml:3: key", "…/world.yaml:3: key"),
        ("见 /home/me/文件/库.db,不可用", "见 …/库.db,不可用"),
        ("postgresql://u:***@db.internal:5432/j cannot be reached", "postgresql://… cannot be reached"),
        ("/quests/q_1/objectives/0 is no number; /api/v1/worlds lists all", None),
        ("https://example.org/data/x says a/tmp/b", None),
    ],
)
def test_a_text_names_only_the_last_part_of_a_path(text, shown):
    assert hide_places(text) == (shown or text)


@pytest.mark.parametrize(
    "error",
    [
        StoreUnavailableError(
            "/srv/north/jacquard.db", "[Errno 28] No space left on device: '/srv/north/jacquard.db-wal'"
        ),
        IndexUnavailableError("/srv/north/index", "session:s", "disk"),
        TemplateError("/srv/worlds/isle/chat/status.j2", 3, "there is no value 'x'"),
    ],
)
def test_an_error_tells_a_tenant_what_and_not_where(error):
    told = error_for(TENANT, describe(error))
    assert "/srv" not in str(told)
    assert "…/" in told.message
    assert "/srv" in error_for(LOCAL, describe(error)).message


async def test_the_receipt_and_the_events_of_a_tenant_name_no_place_of_the_host(tmp_path):
    async with open_runtime(str(tmp_path / "s"), embedder="none", config=RuntimeConfig(profile="assistant")) as runtime:
        await runtime.ensure_session("s")
        turn = await runtime.engine.prepare_turn("s", "My file is /home/me/notes.txt.")
    where = "broke off (OSError: /srv/north/index)"
    report = replace(
        turn.report,
        degradations=(Degradation(code="internal", detail=where),),
        errors=[where],
        stream_b=replace(turn.report.stream_b, reason=where),
        plan={**turn.report.plan, "tier1": where},
    )
    turn = replace(turn, report=report, plan=replace(turn.plan, tier1=where))
    told = turn_for(TENANT, turn)
    assert "/srv" not in str(told.report) + str(told.plan)
    # What the user has said stays as it was said.
    assert told.messages == turn.messages
    assert turn_for(LOCAL, turn) is turn
    event = Event(event_type=EventType.ERROR, session_id="s", at=SystemClock().now(), payload={"detail": where})
    assert "/srv" not in str(event_for(TENANT, event))


@pytest.mark.parametrize("caller", [each for each in CALLERS if each.scope], ids=lambda each: each.name)
async def test_no_operation_or_tool_tells_a_tenant_where_the_files_of_a_broken_world_lie(tmp_path, upstream, caller):
    faults = []
    async with open_doors(tmp_path, upstream) as doors:
        ids = await doors.prepare_session("s", waits=True)
    async with open_doors(tmp_path, upstream, world=str(tmp_path / "no world"), is_prepared=False) as doors:
        for each in CALLS:
            answer = await doors.call(caller.name, each, ids)
            faults += [(each.name, answer.text[:300])] * names_the_host(answer.text, tmp_path)
            assert answer.status_code < 500, answer.text
        for name in TOOLS:
            arguments = tool_arguments(name, ids)
            answer = await doors.ask(caller.name, "tools/call", {"name": name, "arguments": arguments})
            faults += [(name, answer.text[:300])] * names_the_host(answer.text, tmp_path)
    assert not faults


def names_the_host(text, folder):
    return str(folder) in text or str(WORLD) in text
