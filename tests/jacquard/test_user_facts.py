"""What is remembered about a user: in all of their sessions, with its time, and gone when the user is erased."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from jacquard import BudgetConfig, ConfigError, RuntimeConfig, create_context_engine
from jacquard.templating.profiles import session_boundary
from mnemosyne import (
    Actor,
    Author,
    AuthorKind,
    Erasure,
    FactKind,
    FileStore,
    MemoryStore,
    Message,
    Meta,
    PostgresStore,
    Role,
    Session,
    SessionDocument,
    SqliteStore,
    UserFact,
)
from mnemosyne.privacy.forget import MemoryLocations, forget
from mnemosyne.schema.memory import Trust, is_profile_session

pytestmark = pytest.mark.anyio
AT = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
MOVED = datetime(2024, 5, 1, tzinfo=UTC)
OSLO = UserFact(text="Lives in Oslo.", topic="home", valid_from=datetime(2019, 1, 1, tzinfo=UTC))
ROME = UserFact(text="Lives in Rome.", topic="Home", valid_from=MOVED)


@dataclass
class Clock:
    at: datetime = AT

    def now(self):
        return self.at


@pytest.fixture(params=["memory", "file", "sqlite", "postgres"])
async def store(request, tmp_path: Path):
    made = None
    if request.param == "memory":
        made = MemoryStore()
    elif request.param == "file":
        made = FileStore(tmp_path / "file")
    elif request.param == "sqlite":
        made = SqliteStore(tmp_path / "base.sqlite3")
    else:
        made = PostgresStore(request.getfixturevalue("postgres_url"))
    yield made
    await made.close()


def said(text, user="ana"):
    return Message(role=Role.USER, content=text, author=Author(kind=AuthorKind.USER, id=user))


def engine_on(store, clock=None, **config):
    return create_context_engine(store, clock=clock or Clock(), config=RuntimeConfig(**config))


async def test_rome_now_and_oslo_when_the_past_is_asked(store):
    async with engine_on(store) as engine:
        await engine.remember("ana", [OSLO])
        (rome,) = await engine.remember("ana", [ROME])
        now = await engine.prepare_turn("s1", said("Which shops are near my home?"))
        assert "Lives in Rome." in now.text
        assert "Oslo" not in now.text
        past = await engine.prepare_turn("s2", said("Where did I live in the past, do you remember that time?"))
        assert past.plan.search_intent.temporal_context.value == "past"
        assert '<fact kind="core_profile" topic="home" from="2019-01-01" until="2024-05-01" trust="user">' in past.text
        assert "Lives in Rome." in past.text
        oslo, home = await engine.user_facts("ana")
        assert (oslo.text, oslo.valid_to, oslo.superseded_by) == ("Lives in Oslo.", MOVED, rome.fact_id)
        assert home == rome
        assert [each.text for each in await engine.user_facts("ana", at=datetime(2020, 1, 1, tzinfo=UTC))] == [
            OSLO.text
        ]
        assert await engine.user_facts("ana", at=datetime(2010, 1, 1, tzinfo=UTC)) == ()


async def test_the_facts_of_a_user_are_the_users_alone(store):
    async with engine_on(store) as engine:
        await engine.remember("ana", [ROME])
        assert "Rome" not in (await engine.prepare_turn("s1", said("Hello.", "ben"))).text
        assert "Rome" not in (await engine.prepare_turn("s2", "Hello.")).text
        document = SessionDocument(
            session=Session(session_id="s3", messages=(said("Hi."),)), meta=Meta(actor=Actor(user_id="ana"))
        )
        await store.put_session("s3", document)
        assert "Rome" in (await engine.prepare_turn("s3", "Hello.")).text
        assert await engine.user_facts("ben") == ()


async def test_an_erasure_of_the_user_erases_the_facts_everywhere(store):
    secret = "Keeps the spare key under the third flower pot by the cellar stairs."
    async with engine_on(store) as engine:
        await engine.remember("ana", [replace(ROME, text=secret)])
        await engine.adopt_messages("s1", [said("Hello to all.", "ben")])
        await engine.prepare_turn("s1", said("And good evening from me to all of you."))
        await engine.commit_assistant_message("s1", "Welcome, both of you.")
        assert await store.find_text([secret]) != ()
        assert any(map(is_profile_session, await store.sessions()))
        report = await forget(MemoryLocations(store=store), Erasure(user_id="ana", at=AT))
        assert report.done, report
        assert await store.find_text([secret]) == ()
        assert not any(map(is_profile_session, await store.sessions()))
        assert "s1" in await store.sessions()
        assert await engine.user_facts("ana") == ()


@pytest.fixture
async def engine():
    async with engine_on(MemoryStore()) as made:
        yield made


async def test_blocks_by_kind_with_their_receipt_and_in_the_package(engine):
    facts = [
        UserFact(text="Is a nurse on </fact> night shifts.", kind=FactKind.CORE_PROFILE),
        UserFact(text="Wants short answers.", kind=FactKind.PREFERENCES, topic="length"),
        UserFact(text="Learns Italian.", kind=FactKind.GOALS),
        UserFact(text="Quote the source.", kind=FactKind.POLICIES, trust=Trust.AUTHORED),
        UserFact(text="Call the map tool at most once.", kind=FactKind.TOOLING_RULES, trust=Trust.AUTHORED),
    ]
    stored = await engine.remember("ana", facts)
    turn = await engine.prepare_turn("s1", said("Hello."))
    assert '<context_layer type="user">' in turn.text
    assert '<preferences>\n<fact topic="length" trust="user">Wants short answers.</fact>\n</preferences>' in turn.text
    assert "night shifts" in turn.text
    mark = session_boundary("s1")
    assert (
        f'<text boundary="{mark}">\nIs a nurse on </fact> night shifts.\n</text boundary="{mark}"></fact>' in turn.text
    )
    kept = {each.block_id: each for each in turn.report.decisions if each.block_id.startswith("user-fact:")}
    assert {each.action.value for each in kept.values()} == {"kept"}
    assert {*kept} == {f"user-fact:{fact.fact_id}" for fact in stored}
    types = {block.type for block in turn.package.system_blocks if "<fact" in block.text}
    assert types == {"core_profile", "preferences", "goals", "policies"}
    (rule,) = [block for block in turn.package.developer_blocks if "<fact" in block.text]
    assert (rule.type, rule.source["memory_item_id"]) == ("tooling_rules", stored[-1].fact_id)
    assert rule.updated_at == stored[-1].recorded_at
    total = sum(span.tokens for span in turn.report.spans)
    assert total == turn.report.budget.used_tokens


@pytest.mark.parametrize("layout", ["classic", "cache_first", "layers"])
async def test_every_layout_shows_them(layout):
    async with engine_on(MemoryStore(), layout=layout) as engine:
        await engine.remember("ana", [OSLO, ROME])
        turn = await engine.prepare_turn("s1", said("Where did I live in the past, do you remember that time?"))
        assert "Lives in Rome." in turn.text
        assert "Lives in Oslo." in turn.text


async def test_a_small_budget_drops_the_oldest_and_keeps_rules():
    clock = Clock()
    budget = BudgetConfig(max_input_tokens=900, reserved_reply_tokens=100)
    async with engine_on(MemoryStore(), clock, budget=budget) as engine:
        await engine.remember("ana", [UserFact(text="Always answer politely.", kind=FactKind.POLICIES)])
        for number in range(60):
            clock.at += timedelta(minutes=1)
            await engine.remember("ana", [UserFact(text=f"Has read the book with number {number} of the series.")])
        turn = await engine.prepare_turn("s1", said("Hello."))
        assert "Always answer politely." in turn.text
        assert "number 59 of" in turn.text
        assert "number 0 of" not in turn.text
        dropped = [each for each in turn.report.decisions if each.action == "dropped"]
        assert dropped
        assert all(each.block_id.startswith("user-fact:") for each in dropped)


@pytest.mark.parametrize(
    ("text", "is_shown"),
    [
        ("Where did I live before?", True),
        ("Where did I live before Rome?", True),
        ("我以前住在哪里？", True),
        ("2021年我住在哪里？", True),
        ("Where do I live now?", False),
        ("Book me a table for tomorrow, for 2025 people.", False),
        ("Which film of 1985 is good?", False),
    ],
)
async def test_when_the_past_is_asked(engine, text, is_shown):
    await engine.remember("ana", [OSLO, ROME])
    turn = await engine.prepare_turn("s1", said(text))
    assert "Lives in Rome." in turn.text
    assert ("Lives in Oslo." in turn.text) is is_shown


async def test_the_same_fact_is_one_and_can_be_ended(engine):
    (first,) = await engine.remember("ana", [UserFact(text="Works at the mill.", topic="work")])
    assert await engine.remember("ana", [UserFact(text="Works at the mill.", topic="work")]) == (first,)
    assert len(await engine.user_facts("ana")) == 1
    (ended,) = await engine.remember("ana", [replace(UserFact(text="Works at the mill.", topic="work"), valid_to=AT)])
    assert (ended.fact_id, ended.valid_to) == (first.fact_id, AT)
    assert "mill" not in (await engine.prepare_turn("s1", said("Hello."))).text


async def test_what_is_said_later_counts_and_an_earlier_time_may_come_late(engine):
    await engine.remember(
        "ana", [ROME, UserFact(text="Drinks tea.", topic="drink"), UserFact(text="Drinks coffee.", topic="drink")]
    )
    await engine.remember("ana", [OSLO])
    turn = await engine.prepare_turn("s1", said("Hello."))
    assert "coffee" in turn.text
    assert "tea" not in turn.text
    assert "Rome" in turn.text
    assert "Oslo" not in turn.text


async def test_a_turn_that_waits_is_prepared_again_when_something_is_remembered(engine):
    before = await engine.prepare_turn("s1", said("Hello."))
    await engine.remember("ana", [ROME])
    after = await engine.prepare_turn("s1", said("Hello."))
    assert "Rome" not in before.text
    assert "Rome" in after.text
    assert (await engine.prepare_turn("s1", said("Hello."))).text == after.text


async def test_bad_input_is_named(engine):
    for bad, told in (
        ([UserFact(text=" ")], "has no text"),
        ([replace(ROME, valid_to=MOVED - timedelta(days=1))], "ends before it begins"),
        ([replace(ROME, valid_from=datetime(2020, 1, 1))], "no time zone"),
    ):
        with pytest.raises(ConfigError, match=told):
            await engine.remember("ana", bad)
    with pytest.raises(ConfigError, match="user id is empty"):
        await engine.remember(" ", [ROME])
    with pytest.raises(ConfigError, match="no time zone"):
        await engine.user_facts("ana", at=datetime(2020, 1, 1))


async def test_more_facts_than_are_read_at_once_come_back():
    engine = create_context_engine(MemoryStore(), clock=Clock())
    (first,) = await engine.remember("ana", [OSLO])
    many = [UserFact(text=f"Has read book {number}.", topic=f"book {number}") for number in range(1_000)]
    told = await engine.remember("ana", [OSLO, *many])
    assert told[0] == first
    assert [each.text for each in told] == [OSLO.text, *(each.text for each in many)]
