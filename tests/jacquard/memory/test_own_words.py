"""What users say and ask to remember is kept as they write it, except for secrets; the answer says so."""

from __future__ import annotations

import httpx
import pytest
from verb_faces import FACES, assistant

from jacquard import MemoryVerbs, RuntimeConfig, create_context_engine, open_runtime
from jacquard.config.service import ServiceSettings
from jacquard.core.block_kinds import INPUT_ID
from jacquard.service.running.application import build_app
from mnemosyne import MemoryStore, RedactionError, ToolCall, UserFact
from mnemosyne.privacy.redact import RegexRedactor

pytestmark = pytest.mark.anyio
WORDS = (
    "我叫林舟，我妹妹叫林小满，住在北岸街十二号。电话13800138000。 My name is Ana Silva, born on 1990-03-07; write to "
    "ana@example.com or to 12 Oak Road, Leeds LS17 8RB."
)
SECRETS = "The card is 4945 8073 0215 7365, the password is “hunter2!x”, the key sk-proj-AbCdEf1234567890ghIJkl."
MASKED = "The card is [redacted:bank_card], the password is “[redacted:secret]”, the key [redacted:api_key]."
SISTER = "My sister's name is Elske van Dijk; she lives at 3 Mill Lane, Harrow HA1 2AB, and her phone is 020 7946 0958."
RULES = {"bank_card", "secret", "api_key"}
TOLD = f"{WORDS} {SECRETS}"
KEPT = f"{WORDS} {MASKED}"


@pytest.mark.parametrize("face", FACES)
async def test_each_face_shows_before_and_tells_after_what_it_masks(face, tmp_path):
    async with FACES[face](tmp_path) as verbs:
        shown = await verbs.call("remember", "s", TOLD, title="Ana Silva", dry_run=True)
        assert (shown["after"], set(shown["redacted"])) == (KEPT, RULES)
        assert not shown.get("edit_id")
        assert await verbs.call("log", "s") == []
        made = await verbs.call("remember", "s", TOLD, title="Ana Silva")
        assert (made["after"], made["title"], set(made["redacted"])) == (KEPT, "Ana Silva", RULES)
        plain = await verbs.call("remember", "s", SISTER)
        assert (plain["after"], plain.get("redacted") or []) == (SISTER, [])
        for verb in ("edit", "supersede"):
            shown = await verbs.call(verb, "s", plain["edit_id"], f"Now: {SECRETS}", dry_run=True)
            assert (shown["after"], set(shown["redacted"])) == (f"Now: {MASKED}", RULES)
            assert (await verbs.call("memory", "s", plain["edit_id"]))["text"] == SISTER
        gone = await verbs.call("supersede", "s", plain["edit_id"], dry_run=True)
        assert (gone["before"], gone.get("after") or "") == (SISTER, "")
        edited = await verbs.call("edit", "s", plain["edit_id"], f"Now: {SECRETS}")
        assert (edited["after"], set(edited["redacted"])) == (f"Now: {MASKED}", RULES)
        assert [set(each.get("redacted") or ()) for each in await verbs.call("log", "s")] == [RULES, set(), RULES]
        assert "Ana Silva" in await verbs.prompt(f"My name is Ana Silva. {SECRETS}")


@pytest.mark.parametrize("face", FACES)
async def test_each_face_keeps_everything_where_redaction_is_off(face, tmp_path):
    async with FACES[face](tmp_path, redacts=False) as verbs:
        made = await verbs.call("remember", "s", TOLD)
        assert (made["after"], made.get("redacted") or []) == (TOLD, [])
        edited = await verbs.call("edit", "s", made["edit_id"], f"{TOLD} More.")
        assert edited["after"] == f"{TOLD} More."
        assert SECRETS in await verbs.prompt(SECRETS)


@pytest.mark.parametrize("redacts", [True, False])
async def test_messages_memories_and_facts_have_one_rule(tmp_path, redacts):
    async with open_runtime(tmp_path / "place", embedder="none", config=assistant(redacts=redacts)) as runtime:
        engine = runtime.engine
        await runtime.ensure_session("s")
        made = await MemoryVerbs(runtime).remember("s", TOLD)
        (shown,) = await engine.remember("ana", [UserFact(text=TOLD)], dry_run=True)
        assert await engine.user_facts("ana") == ()
        (fact,) = await engine.remember("ana", [UserFact(text=TOLD)])
        assert await engine.user_facts("ana") == (fact,)
        turn = await engine.prepare_turn("s", TOLD)
        await engine.commit_assistant_message("s", "I see.")
        said, _ = [each.message for each in (await runtime.store.window("s", message_limit=5)).messages]
        await engine.adopt_messages(
            "other", [{"role": "user", "content": TOLD}, {"role": "assistant", "content": TOLD}]
        )
        adopted = [each.message for each in (await runtime.store.window("other", message_limit=5)).messages]
        await engine.edit_message("s", said.message_id, f"{TOLD} Edited.")
        edited = [each.message for each in (await runtime.store.window("s", message_limit=5)).messages]
        parts = [{"type": "text", "text": TOLD}, {"type": "image_url", "image_url": {"url": "https://x.org/a.png"}}]
        await engine.prepare_turn("s", {"role": "user", "content": parts})
        seen = (await runtime.store.window("s", message_limit=5)).pending.messages[0]
        kept = KEPT if redacts else TOLD
        assert [made.after, shown.text, fact.text, said.content, adopted[0].content] == [kept] * 5
        assert edited[0].content == f"{kept} Edited."
        assert (seen.content, seen.extra["parts"][0]["text"]) == (kept, kept)
        assert adopted[1].content == TOLD
        rules = RULES if redacts else set()
        assert set(made.redacted) == set(fact.redacted) == rules
        assert {rule for each in turn.report.redactions for rule in each.rules_applied} == rules
        assert [each.block_id for each in turn.report.redactions if each.block_id == INPUT_ID] == [INPUT_ID] * redacts


async def test_results_of_tools_keep_the_stricter_rule_and_the_setting_rules_them_too(tmp_path):
    for redacts in (True, False):
        config = assistant(redacts=redacts)
        app = build_app(ServiceSettings(store=str(tmp_path / f"store{redacts}"), embedder="none"), config)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1/api/v1") as client,
        ):
            await client.post("/sessions", json={"session_id": "s"})
            body = {"content": WORDS, "source": {"kind": "rag", "name": "wiki"}, "evidence_type": "rag_doc"}
            done = (await client.post("/sessions/s/evidence", json=body)).json()
            call = {"tool_call_id": "c", "tool": "find", "args_digest": {"mail": "ana@example.com"}}
            await client.post("/sessions/s/tool-calls", json={"tool_call": call, "result": WORDS})
            document = (await client.get("/sessions/s/document")).text
            assert ("Ana Silva" in done["evidence"]["content"]) is not redacts
            assert ("ana@example.com" in document) is not redacts


class BrokenRedactor:
    async def redact(self, text, rules=None):
        raise OSError("the detector is down")


async def test_what_cannot_be_searched_is_refused_and_not_half_stored():
    store = MemoryStore()
    async with create_context_engine(
        store, redactor=BrokenRedactor(), config=RuntimeConfig(profile="assistant")
    ) as engine:
        await engine.adopt_messages("s", [{"role": "assistant", "content": "Good day."}])
        for call in (
            engine.prepare_turn("s", "My name is Ana."),
            engine.adopt_messages("s", [{"role": "user", "content": "My name is Ana."}]),
            engine.remember("ana", [UserFact(text="Her name is Ana.")]),
        ):
            with pytest.raises(RedactionError, match="not stored"):
                await call
        window = await store.window("s", message_limit=5)
        assert [each.message.content for each in window.messages] == ["Good day."]
        assert window.pending is None
        assert await engine.user_facts("ana") == ()


class Named:
    """A redactor of a host, which has rules of its own."""

    def __init__(self):
        self.inner = RegexRedactor()

    async def redact(self, text, rules=None):
        return await self.inner.redact(text, rules)


async def test_a_redactor_of_a_host_has_the_same_rule():
    async with create_context_engine(
        MemoryStore(), redactor=Named(), config=RuntimeConfig(profile="assistant")
    ) as engine:
        (fact,) = await engine.remember("ana", [UserFact(text=TOLD)])
        assert fact.text == KEPT
        await engine.prepare_turn("s", "Hello.")
        await engine.record_tool_call("s", ToolCall(tool_call_id="c", tool="find"), result=WORDS)
        assert "Ana Silva" not in str(await engine.parts.store.list_evidences("s"))
