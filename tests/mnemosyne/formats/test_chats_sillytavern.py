"""Chats of SillyTavern: what each field becomes, ids that stay, lines that are broken, and an export that comes back as it was."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemosyne import (
    CorpusError,
    Role,
)
from mnemosyne.formats.chats.send_dates import read_date
from mnemosyne.formats.chats.sillytavern import is_chat_line, read_chat
from mnemosyne.formats.chats.turns import MOST_REPLIES
from mnemosyne.formats.chats.write import chat_header, chat_jsonl
from mnemosyne.formats.safe_files import MOST_LINE_BYTES
from mnemosyne.schema.imported_files import AuthorsNote, Fate

HEADER: dict[str, Any] = {
    "user_name": "林",
    "character_name": "Mara",
    "create_date": "2024-5-1@12h 3m 4s",
    "chat_metadata": {
        "note_prompt": "It rains.",
        "note_interval": 3,
        "note_role": 1,
        "main_chat": "Mara - 1",
        "tainted": True,
    },
}


def write(path: Path, *lines: Any) -> Path:
    text = "".join((line if isinstance(line, str) else json.dumps(line, ensure_ascii=False)) + "\n" for line in lines)
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    return path


def said(text: str, *, user: bool = False, **fields: Any) -> dict[str, Any]:
    return {"name": "林" if user else "Mara", "is_user": user, "mes": text, **fields}


def turns_of(path: Path) -> list[Any]:
    return list(read_chat(path).chats[0].read_turns())


def test_a_chat_with_everything(tmp_path: Path) -> None:
    greeting = said(
        "Welcome, {{user}}.",
        swipes=["Welcome, {{user}}.", "你好。"],
        swipe_id=0,
        swipe_info=[{"send_date": "June 1, 2024 3:04pm"}, {"send_date": "2024-06-01T15:05:00Z", "extra": {"api": "x"}}],
        send_date="June 1, 2024 3:04pm",
        extra={"memory": "They meet.", "reasoning": "…"},
        mood=[1],
    )
    path = write(tmp_path / "Mara - 2.jsonl", HEADER, greeting, said("你好", user=True), said("Hm."))
    read = read_chat(path)
    chat = read.chats[0]
    assert (chat.name, chat.user_name, chat.character_names, chat.turn_count) == ("Mara - 2", "林", ("Mara",), 2)
    assert chat.authors_note == AuthorsNote(text="It rains.", interval=3, depth=4, role="user")
    assert chat.branch_of == "Mara - 1"
    assert chat.started_at == datetime(2024, 6, 1, 15, 4, tzinfo=UTC)
    opening, second = chat.read_turns()
    assert [(m.role, m.content) for m in opening.messages] == [(Role.ASSISTANT, "Welcome, {{user}}.")]
    assert [m.content for other in opening.alternatives for m in other] == ["你好。"]
    assert opening.alternatives[0][0].at == datetime(2024, 6, 1, 15, 5, tzinfo=UTC)
    assert opening.messages[0].extra["sillytavern"]["mood"] == [1]
    assert opening.messages[0].extra["sillytavern_header"] == HEADER
    assert [(m.role, m.content, m.author.id) for m in second.messages] == [
        (Role.USER, "你好", "林"),
        (Role.ASSISTANT, "Hm.", "Mara"),
    ]
    fates = {(each.field, each.fate): each.count for each in read.fates}
    assert fates["mes", Fate.KEPT] == 3
    assert fates["swipes.*", Fate.KEPT] == 2
    assert fates["extra.memory", Fate.KEPT] == fates["extra.reasoning", Fate.KEPT] == fates["mood", Fate.KEPT] == 1
    assert fates["chat_metadata.note_prompt", Fate.KEPT] == 1


def test_mes_counts_where_the_chosen_swipe_differs(tmp_path: Path) -> None:
    path = write(tmp_path / "c.jsonl", said("new", swipes=["old", "other", "", "other"], swipe_id=0))
    read = read_chat(path)
    (turn,) = read.chats[0].read_turns()
    assert turn.messages[0].content == "new"
    assert [each[0].content for each in turn.alternatives] == ["other"]
    notes = {each.note for each in read.fates if each.fate is Fate.CHANGED}
    assert notes == {"differs from mes, which was taken", "the same text as another swipe; left out"}


def test_hidden_messages_are_for_no_viewer(tmp_path: Path) -> None:
    lines = (
        said("Hello", user=True, is_system=True),
        said("Note", is_system=True, extra={"type": "comment"}),
        said("A storm.", extra={"type": "narrator"}),
    )
    (turn,) = turns_of(write(tmp_path / "c.jsonl", *lines))
    assert [m.extra.get("viewers") for m in turn.messages] == [["\x00nobody"], ["\x00nobody"], None]
    assert [m.role for m in turn.messages] == [Role.USER, Role.ASSISTANT, Role.ASSISTANT]
    assert turn.messages[2].author.kind == "system"


def test_a_longer_version_has_the_same_ids(tmp_path: Path) -> None:
    lines = [HEADER, said("Hi"), said("one", user=True), said("1"), said("two", user=True), said("2")]
    short = turns_of(write(tmp_path / "a.jsonl", *lines[:4]))
    long = turns_of(write(tmp_path / "renamed.jsonl", *lines))
    assert long[: len(short)] == short
    other = turns_of(write(tmp_path / "b.jsonl", {**HEADER, "create_date": "2024-5-2@12h 3m 4s"}, *lines[1:]))
    assert not {turn.turn_id for turn in long} & {turn.turn_id for turn in other}


def test_an_old_group_chat_has_no_header(tmp_path: Path) -> None:
    lines = [said("Hi"), {"name": "Bo", "is_user": False, "mes": "Ho"}, said("all?", user=True)]
    lines.append(said("A", swipes=["B", "A"], swipe_id=1))
    lines.append({"name": "Bo", "is_user": False, "mes": "C", "swipes": ["C", "D"], "swipe_id": 0})
    read = read_chat(write(tmp_path / "g.jsonl", *lines))
    assert read.chats[0].character_names == ("Mara", "Bo")
    _, turn = read.chats[0].read_turns()
    assert [[m.content for m in other] for other in turn.alternatives] == [["B"], ["A", "D"]]


def test_many_messages_without_an_input_are_several_turns(tmp_path: Path) -> None:
    count = 3 * MOST_REPLIES
    found = turns_of(write(tmp_path / "c.jsonl", *(said(f"{n}") for n in range(count))))
    assert [m.content for turn in found for m in turn.messages] == [f"{n}" for n in range(count)]
    assert max(len(turn.messages) for turn in found) == MOST_REPLIES + 1


def test_broken_lines_are_passed_over_and_named(tmp_path: Path) -> None:
    path = write(
        tmp_path / "c.jsonl",
        HEADER,
        "{broken",
        said("Hi"),
        "[1]",
        "",
        '{"a": 1}',
        '{"mes": "half \\ud83d", "x": 1e999}',
    )
    read = read_chat(path)
    (turn,) = read.chats[0].read_turns()
    assert [m.content for m in turn.messages] == ["Hi", "half \ufffd"]
    assert "passed over: 3. Line 2 is not JSON" in read.notes[0]
    assert "Line 4 is JSON, but no mapping. Line 6 is no message" in read.notes[0]
    assert "replaced; lines with such: 1" in read.notes[1]


@pytest.mark.parametrize(
    "content", ["", "\n\n", "{}", "[1, 2]", "hello", json.dumps(HEADER), '{"mes": null}', "{" * 9000]
)
def test_a_file_without_a_message_is_refused(tmp_path: Path, content: str) -> None:
    path = write(tmp_path / "c.jsonl", content)
    with pytest.raises(CorpusError, match=r"c\.jsonl: no line of it is a message"):
        read_chat(path)


def test_a_file_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="there is no such file"):
        read_chat(tmp_path / "c.jsonl")


def test_text_in_another_encoding_is_named(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    path.write_bytes(json.dumps(said("很久以前有一座山，山上有一座庙。"), ensure_ascii=False).encode("gb18030"))
    with pytest.raises(CorpusError, match=r"Line 1 is not UTF-8 text.*GB18030"):
        read_chat(path)
    path.write_bytes(json.dumps(said("很久以前"), ensure_ascii=False).encode("utf-16"))
    assert turns_of(path)[0].messages[0].content == "很久以前"


def test_a_line_that_is_too_long_is_passed_over(tmp_path: Path) -> None:
    path = write(tmp_path / "c.jsonl", said("a"), said("x" * MOST_LINE_BYTES), said("b"))
    assert [m.content for turn in turns_of(path) for m in turn.messages] == ["a", "b"]
    assert f"Line 2 is longer than {MOST_LINE_BYTES:,} bytes" in read_chat(path).notes[0]


def test_texts_of_chub_are_mappings(tmp_path: Path) -> None:
    line = said("") | {
        "mes": {"message": "Hi", "id": 3},
        "swipes": [{"message": "Hi"}, {"message": "Ho"}],
        "swipe_id": 0,
    }
    (turn,) = turns_of(write(tmp_path / "c.jsonl", HEADER, line))
    assert (turn.messages[0].content, turn.alternatives[0][0].content) == ("Hi", "Ho")


def test_what_is_the_first_line_of_a_chat() -> None:
    assert is_chat_line(HEADER)
    assert is_chat_line({"chat_metadata": {}})
    assert is_chat_line(said("x"))
    for value in (None, [], {}, {"id": "1", "chain": "history", "text": "x"}, {"name": "x"}, {"mes": "x"}):
        assert not is_chat_line(value)


@pytest.mark.parametrize(
    ("written", "moment"),
    [
        ("2024-06-01T15:04:05.5Z", "2024-06-01T15:04:05.500000+00:00"),
        ("2024-06-01T15:04:05+02:00", "2024-06-01T13:04:05+00:00"),
        (1717254245123, "2024-06-01T15:04:05.123000+00:00"),
        ("1717254245", "2024-06-01T15:04:05+00:00"),
        ("2023-11-5@12h 3m 4s", "2023-11-05T12:03:04+00:00"),
        ("2023-11-5 @12h 03m 04s 567ms", "2023-11-05T12:03:04.567000+00:00"),
        ("June 1, 2024 3:04pm", "2024-06-01T15:04:00+00:00"),
        ("Jun 1, 2024 12:04 AM", "2024-06-01T00:04:00+00:00"),
        ("Sat Jun 01 2024 15:04:05 GMT+0200 (Central European Summer Time)", "2024-06-01T13:04:05+00:00"),
        ("Sat, 01 Jun 2024 15:04:05 GMT", "2024-06-01T15:04:05+00:00"),
        ("2024/6/1 15:04", "2024-06-01T15:04:00+00:00"),
        ("2024年6月1日 下午3:04", "2024-06-01T15:04:00+00:00"),
        ("2024年6月1日星期六 15时4分", "2024-06-01T15:04:00+00:00"),
    ],
)
def test_times_as_they_are_written(written: Any, moment: str) -> None:
    found = read_date(written)
    assert found is not None
    assert found.isoformat() == moment


@pytest.mark.parametrize(
    "written", [None, True, "", "soon", "2024-13-45", "June 41, 2024", 10**400, float("nan"), -1, [], "9" * 70]
)
def test_what_is_no_time(written: Any) -> None:
    assert read_date(written) is None


TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | TEXTS
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | TEXTS,
    lambda inner: st.lists(inner, max_size=2),
    max_leaves=3,
)
LINES = st.fixed_dictionaries(
    {"mes": TEXTS},
    optional={
        "name": TEXTS,
        "is_user": st.booleans(),
        "is_system": st.booleans(),
        "send_date": st.sampled_from(["June 1, 2024 3:04pm", 1717254245123, "soon", None]),
        "swipes": st.lists(TEXTS, max_size=4),
        "swipe_id": st.integers(-1, 5) | st.none(),
        "swipe_info": st.lists(
            st.fixed_dictionaries({}, optional={"send_date": st.just("2024-06-01"), "extra": JSON}), max_size=4
        ),
        "extra": st.dictionaries(TEXTS, JSON, max_size=2),
        "mood": JSON,
    },
)


@settings(max_examples=60, deadline=None)
@given(lines=st.lists(LINES, min_size=1, max_size=8), has_header=st.booleans())
def test_an_export_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, lines: list[Any], has_header: bool
) -> None:
    folder = tmp_path_factory.mktemp("chat")
    path = write(folder / "c.jsonl", *([HEADER] if has_header else []), *lines)
    chat = read_chat(path).chats[0]
    turns = list(chat.read_turns())
    (folder / "out").mkdir()
    out = folder / "out" / "c.jsonl"
    out.write_text("".join(chat_jsonl(chat.header, chat.read_turns())), encoding="utf-8")
    assert turns_of(out) == turns
    for before, after in zip(lines, out.read_text(encoding="utf-8").split("\n")[has_header:], strict=False):
        written = json.loads(after)
        assert written["mes"] == before["mes"]
        for name in ("extra", "mood", "is_system", "send_date"):
            assert written.get(name) == before.get(name) or name not in before


def test_other_replies_from_elsewhere_become_swipes(tmp_path: Path) -> None:
    path = write(
        tmp_path / "c.jsonl", HEADER, said("Hi"), said("go", user=True), said("A", swipes=["A", "B"], swipe_id=0)
    )
    turns = turns_of(path)
    more = {turns[1].turn_id: [(turns[1].messages[1].__class__(role=Role.ASSISTANT, content="C"),)]}
    lines = [json.loads(line) for line in chat_jsonl(HEADER, turns, more)]
    assert lines[3]["swipes"] == ["A", "B", "C"]
    assert lines[3]["swipe_id"] == 0


def test_a_header_for_a_chat_without_one() -> None:
    header = chat_header("林", "Mara", datetime(2024, 6, 1, tzinfo=UTC))
    assert is_chat_line(header)
    assert header["create_date"] == "2024-06-01T00:00:00.000Z"
