"""The tutorial of the support agent is lived in both languages: what it cites, what it keeps, and what it forgets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest
from lived_pages import Walk
from shop_model import CHINESE, ENGLISH

from jacquard import load_config, open_runtime
from jacquard.testing.server import ScriptedServer
from mnemosyne import Author, AuthorKind, Message, Role, export_session

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, kw_only=True)
class Expected:
    """Words of a page by which the end state is recognised."""

    question: str
    old: str
    new: str
    customer: str
    fact: str
    payment: str
    phone: str


PAGES = {
    "en": Expected(
        question="How long do I have to return a lamp?",
        old="within 30 days",
        new="within 60 days",
        customer="ana",
        fact="Wants short answers.",
        payment="by invoice",
        phone="151 23456789",
    ),
    "zh": Expected(
        question="台灯多久可以退货？",
        old="30 天内可以退货",
        new="60 天内可以退货",
        customer="林晓",
        fact="希望回答简短。",
        payment="货到付款",
        phone="13812345678",
    ),
}


async def check_end_state(folder: Path, expected: Expected) -> None:
    config = load_config(folder / "settings.yaml")
    async with open_runtime(folder / ".jacquard", config=config, embedder="none") as runtime:
        engine, store = runtime.engine, runtime.store

        async def ask(ticket: str, customer: str) -> str:
            author = Author(kind=AuthorKind.USER, id=customer)
            asked = Message(role=Role.USER, content=expected.question, author=author)
            turn = await engine.prepare_turn(ticket, asked, dry_run=True)
            return "\n".join(message.content for message in turn.messages if message.role == "system")

        corrected, other = await ask("ticket-1", expected.customer), await ask("ticket-3", "bo")
        assert expected.new in corrected
        assert expected.old not in corrected  # it is only in what was said
        assert expected.fact in corrected
        assert expected.fact not in other
        facts = await engine.user_facts(expected.customer)
        assert [fact.text for fact in facts] == [expected.fact]
        calls = [call for ticket in ("ticket-1", "ticket-2") for call in await list_calls(store, ticket)]
        assert [(call.tool, call.status.value) for call in calls] == [
            ("find_order", "success"),
            ("remember_customer", "success"),
            ("find_order", "error"),
            *[("find_order", "success")] * 3,
        ]
        results = [each for each in await store.list_evidences("ticket-2") if each.links.tool_call_id]
        kept = [each.content for each in results if each.content]
        assert len(results) - len(kept) == 1  # the expired one is empty
        assert sum(expected.payment in text for text in kept) == 1
    stored = [file.read_bytes() for file in (folder / ".jacquard").rglob("*") if file.is_file()]
    assert stored
    assert not any(expected.phone.encode() in content for content in stored)


async def list_calls(store, ticket):
    document = await export_session(store, ticket)
    return document.session.tool_state.tool_calls


@pytest.mark.parametrize("in_processes", [False, pytest.param(True, marks=pytest.mark.full)])
@pytest.mark.parametrize("language", PAGES)
def test_the_support_agent_cites_keeps_and_forgets(language: str, in_processes: bool, tmp_path: Path) -> None:
    expected = PAGES[language]
    with ScriptedServer(ENGLISH if language == "en" else CHINESE) as server:
        own = {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "none", "MODEL": "scripted"}
        walk = Walk(folder=tmp_path, set_by_walk=own, in_processes=in_processes)
        walk.live(ROOT / "docs" / language / "tutorials" / "support-agent.md")
    assert "is not in the prompt" not in str(walk.outputs)
    assert "没有这个来源" not in str(walk.outputs)
    anyio.run(check_end_state, tmp_path, expected)
