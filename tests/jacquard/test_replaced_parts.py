"""Each part of `HostParts` can be replaced by one of the host, and one that fails never stops a turn."""

import hashlib
from dataclasses import replace

import anyio
import pytest

from jacquard import (
    ConfigError,
    RedactionConfig,
    RuntimeConfig,
    create_context_engine,
    open_runtime,
    read_snapshot,
    replay_prompt,
)
from jacquard.core.errors import AssemblerError
from jacquard.core.receipt import BlockSpan
from jacquard.pipeline.weaving.assemble import AssembledPrompt, PromptMessage
from jacquard.turns.parts import HostParts
from mnemosyne import (
    BlockType,
    CalibratedEstimator,
    ContextBlock,
    DeriveOptions,
    EvidenceSource,
    EvidenceType,
    IngestOptions,
    MemoryStore,
    Message,
    Priority,
    RefSelector,
    RenderedBlock,
    RenderHints,
    Role,
    SourceKind,
    SystemClock,
)
from mnemosyne.core.codec import replace_struct
from mnemosyne.evidence.blocks.derive import EvidenceBlockDeriver
from mnemosyne.evidence.blocks.render import RefRenderer
from mnemosyne.evidence.blocks.resolve import RefResolver

pytestmark = pytest.mark.anyio
WIKI = EvidenceSource(kind=SourceKind.RAG, name="wiki", uri="https://wiki.example/mill")
MILL = "The mill stands by the river. It burnt down in 1802 and was rebuilt."


class Blake:
    """A hasher of the host."""

    def digest(self, content):
        return hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=20).hexdigest()


async def take(engine, text=MILL, source=WIKI, **options):
    await engine.adopt_messages("s1", [Message(role=Role.USER, content="Hello.")])
    done = await engine.ingestor_of("s1").ingest(text, source, EvidenceType.RAG_DOC, options=IngestOptions(**options))
    return done.evidence


async def ask(engine, text="What of the mill by the river?"):
    return await engine.prepare_turn("s1", text)


def codes(turn):
    return [each.code for each in turn.report.degradations]


async def test_one_hasher_names_and_checks_texts():
    async with create_context_engine(MemoryStore(), hasher=Blake()) as engine:
        evidence = await take(engine, selectors=("chars:0-29",))
        assert evidence.content_hash == Blake().digest(MILL)
        assert evidence.metadata["shown_refs"][0]["hash"] == Blake().digest(MILL[:29])
        turn = await ask(engine)
        assert "The mill stands by the river.</result>" in turn.text
        assert "source_changed" not in codes(turn)


async def test_records_of_the_default_hasher_are_known_to_another():
    store = MemoryStore()
    async with create_context_engine(store) as engine:
        first = await take(engine)
        await take(engine, "A pointer.", replace(WIKI, uri="https://wiki.example/else"), selectors=("chars:0-1",))
    async with create_context_engine(store, hasher=Blake()) as engine:
        again = await take(engine)
        assert again == first  # known by its default hash
        turn = await ask(engine)
        assert "source_changed" not in codes(turn)
        changed = replace(first, content=MILL.replace("1802", "1803"))
        await store.put_evidence(
            "s1", replace(changed, metadata={"shown_refs": [{"selector": "chars:0-50", "hash": "00"}]})
        )
        assert "source_changed" in codes(await ask(engine, "And the mill now?"))


async def test_a_text_that_lies_elsewhere_is_fetched_and_checked():
    asked = []

    async def fetch(uri):
        asked.append(uri)
        return MILL

    async with create_context_engine(MemoryStore(), fetchers={"https": fetch}) as engine:
        evidence = await take(engine, store_content=False)
        assert evidence.content == ""
        turn = await ask(engine)
        assert asked == [WIKI.uri]
        assert "rebuilt.</result>" in turn.text
        assert "source_changed" not in codes(turn)


async def test_a_fetched_text_is_redacted_and_a_changed_one_is_told():
    async def fetch(uri):
        return "Write to miller@mill.example about the mill by the river."

    async with create_context_engine(MemoryStore(), fetchers={"https": fetch}) as engine:
        await take(engine, store_content=False)
        turn = await ask(engine)
        assert "miller@mill.example" not in turn.text
        assert "about the mill by the river" in turn.text
        assert "source_changed" in codes(turn)


async def test_a_fetched_text_is_as_it_is_where_redaction_is_off():
    async def fetch(uri):
        return "Write to miller@mill.example about the mill by the river."

    off = RuntimeConfig(redaction=RedactionConfig(enabled=False))
    async with create_context_engine(MemoryStore(), config=off, fetchers={"https": fetch}) as engine:
        await take(engine, await fetch(""), store_content=False, redact=False)
        turn = await ask(engine)
        assert "miller@mill.example" in turn.text
        assert "source_changed" not in codes(turn)


async def slow(uri):
    await anyio.sleep(30)


async def broken(uri):
    raise RuntimeError("no such host")


async def endless(uri):
    return "x" * 3_000_000


async def raw(uri):
    return b"bytes"


@pytest.mark.parametrize(
    ("fetch", "told"),
    [(slow, "no answer within"), (broken, "no such host"), (endless, "3,000,000 characters"), (raw, "bytes, not text")],
)
async def test_a_failing_fetcher_is_a_degradation(fetch, told):
    async with create_context_engine(MemoryStore(), fetchers={"https": fetch}) as engine:
        await take(engine, store_content=False)
        with anyio.fail_after(10):
            turn = await ask(engine)
        (detail,) = [each.detail for each in turn.report.degradations if each.code == "content_not_stored"]
        assert told in detail
        assert "<result" not in turn.text


async def test_several_texts_are_fetched_at_once():
    waiting, all_wait = [], anyio.Event()

    async def fetch(uri):
        waiting.append(uri)
        if len(waiting) == 3:
            all_wait.set()
        await all_wait.wait()
        return f"The mill by the river, page {uri[-1]}."

    async with create_context_engine(MemoryStore(), fetchers={"https": fetch}) as engine:
        for number in range(3):
            page = replace(WIKI, uri=f"https://wiki.example/{number}")
            await take(engine, f"The mill by the river, page {number}.", page, store_content=False)
        turn = await ask(engine)
        assert all(f"page {number}.</result>" in turn.text for number in range(3))


async def test_a_resolver_of_the_host():
    class Upper:
        def __init__(self, store):
            self.inner = RefResolver(store, SystemClock())

        async def resolve(self, session_id, ref, evidence=None):
            found = await self.inner.resolve(session_id, ref, evidence)
            return replace(found, text=found.text.upper())

    class Broken:
        async def resolve(self, session_id, ref, evidence=None):
            raise KeyError("lost")

    store = MemoryStore()
    async with create_context_engine(store, resolver=Upper(store)) as engine:
        await take(engine)
        assert "THE MILL STANDS" in (await ask(engine)).text
    async with create_context_engine(store, resolver=Broken()) as engine:
        turn = await ask(engine, "And what of the mill in winter?")
        assert "content_not_stored" in codes(turn)


async def test_a_selector_of_the_host():
    class Words(RefSelector):
        def extract(self, content, selector):
            name, _, word = selector.partition(":")
            return f"[{word}]" if name == "word" else super().extract(content, selector)

    async with create_context_engine(MemoryStore(), ref_selector=Words()) as engine:
        await take(engine, selectors=("word:river",))
        turn = await ask(engine)
        assert "[river]</result>" in turn.text
        assert codes(turn) == [code for code in codes(turn) if not code.startswith("sel")]


async def test_a_deriver_of_the_host():
    class Plan(EvidenceBlockDeriver):
        async def derive(self, session_doc, evidences, options=None):
            blocks = await super().derive(session_doc, evidences, options)
            said = len(session_doc.session.messages)
            plan = ContextBlock(
                block_id="plan", block_type=BlockType.PLAN, priority=Priority.HIGH, content=f"<b>after {said} messages"
            )
            return (plan, *(replace(block, block_id=f"host:{block.block_id}") for block in blocks))

    class Broken:
        async def derive(self, session_doc, evidences, options=None):
            raise ValueError("no")

    store = MemoryStore()
    async with create_context_engine(store, deriver=Plan(SystemClock(), len)) as engine:
        evidence = await take(engine)
        turn = await ask(engine)
        assert "\n<b>after 1 messages\n</text boundary=" in turn.text
        shown = [each.block_id for each in turn.report.decisions if each.action == "kept"]
        assert f"host:evidence:{evidence.evidence_id}" in shown
        assert "plan" in shown
        await engine.commit_assistant_message("s1", "By the river.")
        turn = await ask(engine, "And now, the mill?")
        assert "after 3 messages" in turn.text
        assert turn.text.count("after ") == 1
    async with create_context_engine(store, deriver=Broken()) as engine:
        turn = await ask(engine, "And the mill once more?")
        assert turn.report.errors == [f"evidence {evidence.evidence_id} was left out: ValueError: no"]


async def test_derive_options_leave_parts_out_and_add_instructions():
    rule = ContextBlock(
        block_id="rule", block_type=BlockType.INSTRUCTION, priority=Priority.MUST, content="Name your source."
    )
    store = MemoryStore()
    async with create_context_engine(store, derive_options=DeriveOptions(custom_instructions=[rule])) as engine:
        await take(engine)
        whole = await ask(engine)
        assert 'type="instruction" trust="authored">\nName your source.' in whole.text
        assert "<result" in whole.text
        await engine.commit_assistant_message("s1", "By the river.")
    bare = DeriveOptions(include_conversation=False, include_state=False, include_evidences=False)
    async with create_context_engine(store, derive_options=bare) as engine:
        turn = await ask(engine, "Is the mill open?")
        assert "<result" not in turn.text
        assert "By the river." not in turn.text
        assert all(
            not block_id.startswith(("status", "guidance")) for block_id in [d.block_id for d in turn.report.decisions]
        )
        assert (await ask(engine, "Is the mill open?")).text == turn.text
        record = await store.turn("s1", turn.turn_id)
        assert replay_prompt(read_snapshot(record), CalibratedEstimator().estimate).assembled.text == turn.text


async def test_a_renderer_of_the_host_and_hints():
    class Quoted(RefRenderer):
        async def render_block(self, block, resolver, hints=None):
            made = await super().render_block(block, resolver, hints)
            return replace(made, rendered_content=f"“{made.rendered_content}” & more")

    class Broken:
        async def render_block(self, block, resolver, hints=None):
            raise ValueError("no ink")

    store = MemoryStore()
    async with create_context_engine(store, renderer=Quoted(), render_hints=RenderHints(max_chars=8)) as engine:
        await take(engine)
        assert "“The mil…” & more\n</text boundary=" in (await ask(engine)).text
    async with create_context_engine(store, renderer=Broken()) as engine:
        turn = await ask(engine, "And the mill in spring?")
        assert "<result" not in turn.text
        assert "ValueError: no ink" in turn.report.errors[0]


@pytest.mark.parametrize(
    ("form", "text", "shown"),
    [
        ("text", "a ``` b", "a ``` b"),
        ("markdown", "a ``` b", "````\na ``` b\n````"),
        ("json", '{"a": 1}', '{"a":1}'),
        ("json", "plain", '"plain"'),
    ],
)
async def test_forms_of_the_built_in_renderer(form, text, shown):
    block = ContextBlock(block_id="b", block_type=BlockType.MEMORY, priority=Priority.LOW, content=text)
    made = await RefRenderer().render_block(block, None, RenderHints(format=form))
    assert made == RenderedBlock(
        block_id="b", block_type=BlockType.MEMORY, priority=Priority.LOW, rendered_content=shown
    )


def test_a_hint_that_is_none():
    with pytest.raises(ValueError, match="write one of text, markdown, json"):
        RenderHints(format="html")
    with pytest.raises(ValueError, match="above 0"):
        RenderHints(max_chars=0)


class OneMessage:
    """Joins everything into one user message."""

    def assemble(self, skein, count):
        spans, text = [], ""
        for block in [placed.block for placed in skein.blocks()]:
            spans.append(self.span(block.block_id, len(text), block.content, count))
            text += block.content
            spans.append(self.span("frame", len(text), "\n", count))
            text += "\n"
        return AssembledPrompt(
            messages=(PromptMessage(role="user", content=text),),
            text=text,
            spans=tuple(spans),
            tokens=sum(span.tokens for span in spans),
        )

    def span(self, name, start, text, count):
        return BlockSpan(block_id=name, message=0, start=start, end=start + len(text), tokens=count(text))


async def test_an_assembler_of_the_host_and_its_receipt():
    store = MemoryStore()
    async with create_context_engine(store, assembler=OneMessage()) as engine:
        turn = await engine.prepare_turn("s1", "Hello.")
        assert [message.role for message in turn.messages] == ["user"]
        assert turn.report.spans[-1].end == len(turn.messages[0].content)
        assert turn.report.budget.used_tokens == sum(span.tokens for span in turn.report.spans)
        record = await store.turn("s1", turn.turn_id)
        with pytest.raises(ConfigError, match="OneMessage"):
            replay_prompt(read_snapshot(record), len)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda made: replace(made, spans=made.spans[:-1]), "OneMessage covers .* characters of message 0"),
        (lambda made: replace(made, spans=made.spans[1:]), "where one from 0 on is due"),
        (lambda made: replace(made, tokens=made.tokens + 1), "add up to"),
        (
            lambda made: replace(made, spans=(replace_struct(made.spans[0], block_id="x"), *made.spans[1:])),
            "'x', which is no block",
        ),
        (
            lambda made: replace(made, spans=(replace_struct(made.spans[0], message=4), *made.spans[1:])),
            "has 1 messages",
        ),
        (lambda made: made.text, "returned str"),
        (lambda made: replace(made, messages=({"role": "user", "content": made.text},)), "no PromptMessage"),
    ],
)
async def test_an_assembler_that_breaks_the_receipt_is_named(change, told):
    class Broken(OneMessage):
        def assemble(self, skein, count):
            return change(super().assemble(skein, count))

    Broken.__name__ = "OneMessage"
    store = MemoryStore()
    async with create_context_engine(store, assembler=Broken()) as engine:
        with pytest.raises(AssemblerError, match=told):
            await engine.prepare_turn("s1", "Hello.")
        assert (await store.window("s1", message_limit=5)).pending is None


async def test_ids_of_the_host():
    class Numbers:
        def __init__(self):
            self.given = 0

        def generate(self):
            self.given += 1
            return f"id-{self.given}"

    async with create_context_engine(MemoryStore(), id_generator=Numbers()) as engine:
        evidence = await take(engine, dedup=False)
        assert evidence.evidence_id == "id-1"


class LoudRenderer:
    """A renderer of the host."""

    name = "loud"

    def __init__(self, version):
        self.version = version
        self._usual = RefRenderer()

    async def render_block(self, block, resolver, hints=None):
        done = await self._usual.render_block(block, resolver, hints)
        return replace(done, rendered_content=done.rendered_content.upper())


async def test_a_runtime_takes_the_parts_of_a_host(tmp_path):
    class Numbers:
        def __init__(self):
            self.last = 0

        def generate(self):
            self.last += 1
            return f"host-{self.last}"

    parts = HostParts(renderer=LoudRenderer("1"), hasher=Blake(), id_generator=Numbers())
    config = RuntimeConfig(profile="assistant")
    async with open_runtime(tmp_path / "s", embedder="none", config=config, parts=parts) as runtime:
        evidence = await take(runtime.engine, dedup=False)
        assert (evidence.evidence_id, evidence.content_hash) == ("host-1", Blake().digest(MILL))
        turn = await ask(runtime.engine)
        assert "THE MILL STANDS BY THE RIVER." in turn.text


async def test_a_prompt_of_other_parts_is_no_answer_to_a_repeated_request():
    store = MemoryStore()
    texts = []
    for version in ("1", "1", "2", None):
        given = {} if version is None else {"renderer": LoudRenderer(version)}
        async with create_context_engine(store, **given) as engine:
            if not texts:
                await take(engine)
            turn = await engine.prepare_turn("s1", "What of the mill by the river?", turn_id="t1")
            texts.append(((await store.turn("s1", "t1")).fingerprint, "THE MILL" in turn.text))
    assert [loud for _, loud in texts] == [True, True, True, False]
    assert [texts[0][0] == each for each, _ in texts] == [True, True, False, False]
