"""The normalised corpus: lines in, documents out, and the session that they make."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne import (
    AuthorKind,
    Chain,
    CorpusError,
    Role,
)
from mnemosyne.formats.corpora.corpus import iter_corpus, read_corpus, to_session
from mnemosyne.schema.memory import Trust


def line(name: str, chain: str, session: str | None, text: str, **more: Any) -> dict[str, Any]:
    row = {
        "id": name,
        "chain": chain,
        "session": session,
        "turn": None,
        "at": None,
        "speaker": None,
        "text": text,
        "meta": {},
    }
    return {**row, **more}


TALK = [
    line("c1:1", "history", "c1", "Hi!", turn=0, at="2024-05-01T10:00:00", speaker="Ann"),
    line("lore/全局 #1", "lore", None, "灯塔在岛上。", meta={"title": "灯塔", "n": 1}),
    line("c1:2", "history", "c1", "Hello.", turn=1, at="2024-05-01T12:00:00+02:00", speaker="Bea", meta={"x": 1}),
    line("c2:1", "history", "c2", "Alone.", turn=0),
    line("c1:e", "event", "c1", "They met.", turn=7, at="2024-05-02", speaker="Ann", meta={"k": [1]}),
    line("c1:3", "history", "c1", "<b>Me too</b>", turn=2, speaker="Cyd"),
    line("c1:n", "narrative", "c1", "A meeting.", turn=3),
]


def write(folder: Path, rows: list[dict[str, Any]] | bytes) -> Path:
    path = folder / "corpus.jsonl"
    data = (
        rows
        if isinstance(rows, bytes)
        else "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
    )
    path.write_bytes(data)
    return path


def test_a_corpus_is_read_in_order(tmp_path: Path) -> None:
    corpus = read_corpus(write(tmp_path, TALK))
    assert [each.document_id for each in corpus.documents] == [row["id"] for row in TALK]
    assert [each.line for each in corpus.documents] == list(range(1, 8))
    assert corpus.sessions == ("c1", "c2")
    assert read_corpus(tmp_path) == corpus
    assert tuple(iter_corpus(tmp_path)) == corpus.documents


def test_entries_of_a_session_come_with_those_of_all(tmp_path: Path) -> None:
    corpus = read_corpus(write(tmp_path, TALK))
    assert [each.document_id for each in corpus.entries_for("c2")] == ["lore/全局 #1", "c2:1"]
    assert [each.document_id for each in corpus.entries_for(None)] == ["lore/全局 #1"]
    with pytest.raises(CorpusError, match=r"there is no session 'c3'\. It holds 2: 'c1', 'c2'"):
        corpus.entries_for("c3")


def test_history_becomes_turns(tmp_path: Path) -> None:
    start = to_session(read_corpus(write(tmp_path, TALK)), "c1")
    assert start.session_id == "c1"
    assert [turn.turn_id for turn in start.turns] == ["c1:1", "c1:2", "c1:3"]
    messages = [message for turn in start.turns for message in turn.messages]
    assert [message.message_id for message in messages] == ["c1:1", "c1:2", "c1:3"]
    assert [message.role for message in messages] == [Role.USER, Role.ASSISTANT, Role.ASSISTANT]
    assert [message.author.id for message in messages if message.author] == ["Ann", "Bea", "Cyd"]
    assert messages[0].author is not None
    assert messages[0].author.kind is AuthorKind.USER
    assert messages[0].at == messages[1].at == datetime(2024, 5, 1, 10, tzinfo=UTC)
    assert messages[2].content == "<b>Me too</b>"
    assert start.at == datetime(2024, 5, 1, 10, tzinfo=UTC)


def test_the_rest_becomes_entries_of_the_session(tmp_path: Path) -> None:
    start = to_session(read_corpus(write(tmp_path, TALK)), "c1", session_id="mine")
    lore, event, narrative = start.entries
    assert {entry.scope for entry in start.entries} == {"session:mine"}
    assert {entry.branch_id for entry in start.entries} == {"main"}
    assert {entry.trust for entry in start.entries} == {Trust.AUTHORED}
    assert (lore.entry_id, lore.chain, lore.title, lore.depth) == ("lore/全局 #1", Chain.LORE, "灯塔", 0)
    assert lore.metadata == {"title": "灯塔", "n": 1}
    assert (event.chain, event.speaker, event.depth) == (Chain.EVENT, "Ann", 2)
    assert event.at == datetime(2024, 5, 2, tzinfo=UTC)
    assert event.metadata == {"k": [1], "turn": 7}
    assert (narrative.chain, narrative.depth, narrative.kind) == (Chain.NARRATIVE, 3, "macro")


def test_every_entry_is_an_ancestor_of_the_head(tmp_path: Path) -> None:
    start = to_session(read_corpus(write(tmp_path, TALK)), "c1")
    assert all(entry.depth is not None and entry.depth <= len(start.turns) for entry in start.entries)


def test_talk_without_speakers_is_the_users(tmp_path: Path) -> None:
    (turn,) = to_session(read_corpus(write(tmp_path, TALK)), "c2").turns
    assert (turn.messages[0].role, turn.messages[0].author) == (Role.USER, None)


def test_missing_optional_fields_and_unknown_ones(tmp_path: Path) -> None:
    rows = [{"id": "a", "chain": "lore", "text": "x", "source": "book"}]
    (document,) = read_corpus(write(tmp_path, rows)).documents
    assert (document.session, document.turn, document.at, document.speaker) == (None, None, None, None)
    assert document.metadata == {"source": "book"}


def test_a_mark_blank_lines_and_windows_line_ends_are_no_fault(tmp_path: Path) -> None:
    row = json.dumps(TALK[0]).encode()
    assert len(read_corpus(write(tmp_path, b"\xef\xbb\xbf" + row + b"\r\n\r\n  \n")).documents) == 1


GOOD = {"id": "a", "chain": "lore", "text": "x"}
FAULTS: list[tuple[Any, str]] = [
    ({**GOOD, "id": None}, "3: id: is null; it must be text"),
    ({"chain": "lore", "text": "x"}, "3: id: is missing"),
    ({**GOOD, "id": " "}, "3: id: is empty"),
    ({**GOOD, "id": "one"}, "3: id: 'one' is used already on line 1"),
    (
        {**GOOD, "chain": "lores"},
        "3: chain: is 'lores'; it must be one of narrative, event, lore, history; did you mean 'lore'?",
    ),
    ({**GOOD, "chain": "state"}, "3: chain: is 'state'"),
    ({**GOOD, "text": 5}, "3: text: is a number; it must be text"),
    ({"id": "a", "chain": "lore"}, "3: text: is missing"),
    ({**GOOD, "session": 5}, "3: session: is a number; it must be text or null"),
    ({**GOOD, "speaker": ["x"]}, "3: speaker: is a list"),
    ({**GOOD, "turn": "7"}, "3: turn: is text; it must be a whole number or null"),
    ({**GOOD, "turn": True}, "3: turn: is true or false"),
    ({**GOOD, "at": "yesterday"}, "3: at: is 'yesterday'; write an ISO date or time"),
    ({**GOOD, "at": 5}, "3: at: is a number"),
    ({**GOOD, "meta": "x"}, "3: meta: is text; it must be a mapping or null"),
    ({**GOOD, "speeker": "Ann"}, "3: speeker: is not a field of a corpus line; did you mean 'speaker'?"),
    ([GOOD], "3: is a list; write one JSON object per line"),
    (b'{"id": "a"', "3: is not JSON at character"),
    (b'{"id": "a", "chain": "lore", "text": "\xff"}', "3: is not UTF-8 at byte 39"),
    (b'{"id": "a", "chain": "lore", "text": "\\ud800"}', "3: text: holds half a surrogate pair"),
    (b'{"id": "a", "chain": "lore", "text": "x", "meta": {"n": NaN}}', "3: meta.n: is not a finite number"),
    (
        b'{"id": "a", "chain": "lore", "text": "x", "meta": {"n": 99999999999999999999}}',
        "3: meta.n: is a whole number of more",
    ),
    (b"[" * 100_000, "3: cannot be read as JSON"),
    (b'{"id": "a", "chain": "lore", "text": "' + b"x" * 4_000_000 + b'"}', "3: is longer than 4,000,000 bytes"),
]


@pytest.mark.parametrize(("row", "says"), FAULTS, ids=[says[:40] for _, says in FAULTS])
def test_a_fault_names_file_line_and_field(row: Any, says: str, tmp_path: Path) -> None:
    first = json.dumps({**GOOD, "id": "one"}).encode() + b"\n\n"
    path = write(tmp_path, first + (row if isinstance(row, bytes) else json.dumps(row).encode()) + b"\n")
    with pytest.raises(CorpusError) as caught:
        read_corpus(path)
    assert str(caught.value).startswith(f"{path}:{says}")


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"corpus\.jsonl: there is no such file"):
        read_corpus(tmp_path)
    with pytest.raises(CorpusError, match=r"nowhere\.jsonl: there is no such file"):
        read_corpus(tmp_path / "nowhere.jsonl")
    with pytest.raises(CorpusError, match="holds no document"):
        read_corpus(write(tmp_path, b"\n"))


def test_reading_is_a_stream(tmp_path: Path) -> None:
    """A fault at the end does not keep the documents before it from coming."""
    rows = b"".join(json.dumps({**GOOD, "id": str(number)}).encode() + b"\n" for number in range(1000))
    stream = iter_corpus(write(tmp_path, rows + b"{\n"))
    assert [next(stream).document_id for _ in range(1000)] == [str(number) for number in range(1000)]
    with pytest.raises(CorpusError, match=":1001:"):
        next(stream)


times = st.datetimes(
    min_value=datetime(1900, 1, 1),
    max_value=datetime(2100, 1, 1),
    timezones=st.none() | st.just(timezone(timedelta(hours=8))),
)
documents = st.fixed_dictionaries(
    {
        "id": st.text(st.characters(codec="utf-8"), min_size=1, max_size=8).filter(str.strip),
        "chain": st.sampled_from(["narrative", "event", "lore", "history"]),
        "session": st.none() | st.sampled_from(["a", "b", "会话"]),
        "turn": st.none() | st.integers(0, 1000),
        "at": st.none() | times.map(datetime.isoformat),
        "speaker": st.none() | st.text(st.characters(codec="utf-8"), max_size=5),
        "text": st.text(st.characters(codec="utf-8"), max_size=30),
        "meta": st.dictionaries(st.text("abc", min_size=1, max_size=3), st.integers(0, 9) | st.none(), max_size=2),
    }
)


@given(st.lists(documents, min_size=1, max_size=8, unique_by=lambda row: str(row["id"])))
def test_nothing_is_lost(tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]]) -> None:
    corpus = read_corpus(write(tmp_path_factory.mktemp("corpus"), rows))
    assert [each.text for each in corpus.documents] == [row["text"] for row in rows]
    assert all(each.at is None or each.at.tzinfo is UTC for each in corpus.documents)
    for session in (*corpus.sessions, None):
        mine = [row for row in rows if row["session"] in (session, None)]
        start = to_session(corpus, session)
        told = [turn.turn_id for turn in start.turns] + [entry.entry_id for entry in start.entries]
        assert sorted(told) == sorted(row["id"] for row in mine)
        assert [turn.messages[0].content for turn in start.turns] == [
            row["text"] for row in mine if row["chain"] == "history"
        ]
