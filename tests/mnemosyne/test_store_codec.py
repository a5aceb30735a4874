from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne import Author, AuthorKind, Chain, MemoryEntry, Message, MnemosyneError, Ref, Role
from mnemosyne.core.codec import (
    JsonTree,
    decode,
    decode_tree,
    encode,
    encode_tree,
    format_time,
    from_plain,
    parse_time,
    to_plain,
)
from mnemosyne.core.errors import CodecError
from mnemosyne.schema.memory import Comparison, Condition
from mnemosyne.schema.record import TurnRecord
from mnemosyne.schema.session import TurnKind, TurnStatus

texts = st.text(alphabet=st.characters(exclude_categories=()), max_size=12)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
times = st.none() | st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=8))]))
messages = st.builds(
    Message,
    role=st.sampled_from(Role),
    content=texts,
    message_id=texts,
    author=st.none() | st.builds(Author, kind=st.sampled_from(AuthorKind), id=texts),
    at=times,
    refs=st.lists(st.builds(Ref, evidence_id=texts, selector=st.none() | texts), max_size=2).map(tuple),
)
entries = st.builds(
    MemoryEntry,
    entry_id=texts,
    scope=texts,
    chain=st.sampled_from(Chain),
    kind=texts,
    text=texts,
    at=times,
    depth=st.none() | st.integers(0, 9),
    viewers=st.lists(texts, max_size=2).map(tuple),
    when=st.lists(
        st.builds(Condition, path=texts, op=st.sampled_from(Comparison), value=json_values, message=texts), max_size=2
    ).map(tuple),
    metadata=st.dictionaries(texts, json_values, max_size=3).map(MappingProxyType),
)
records = st.builds(
    TurnRecord,
    turn_id=texts,
    session_id=texts,
    branch_id=texts,
    depth=st.integers(0, 9),
    parent_id=st.none() | texts,
    kind=st.sampled_from(TurnKind),
    status=st.sampled_from(TurnStatus),
    messages=st.lists(messages, max_size=2).map(tuple),
    plan=st.none() | st.dictionaries(texts, json_values, max_size=3),
    anchors=st.dictionaries(texts, texts, max_size=2),
    ops=st.lists(st.dictionaries(texts, json_values, max_size=2), max_size=2).map(tuple),
    created_at=times,
)


@given(st.one_of(messages, entries, records))
def test_values_come_back_as_they_were(value):
    assert decode(encode(value), type(value)) == value
    assert from_plain(to_plain(value), type(value)) == value


@given(st.dictionaries(texts, json_values, max_size=4))
def test_trees_come_back_as_they_were_with_their_keys_in_order(tree):
    again = decode_tree(encode_tree(MappingProxyType(tree)))
    assert again == tree
    assert list(again) == list(tree)


def test_numbers_that_json_cannot_hold_are_named():
    with pytest.raises(CodecError, match="/hero/stats/1"):
        encode_tree({"hero": {"stats": [1, float("nan")]}})


def test_faults_are_errors_of_mnemosyne():
    with pytest.raises(CodecError, match="no Message"):
        decode(b'{"role": "king", "content": ""}', Message)
    with pytest.raises(CodecError, match="no Message"):
        decode(b'{"role": "\\ud800", "content": ""}', Message)
    with pytest.raises(CodecError, match="cannot be written"):
        encode({"x": object()})
    with pytest.raises(CodecError, match="content"):
        from_plain({"role": "user"}, Message)
    assert issubclass(CodecError, MnemosyneError)


def test_times_are_iso_text_outside_and_aware_inside():
    at = datetime(2026, 1, 31, 20, 0, tzinfo=timezone(timedelta(hours=8)))
    assert format_time(at) == "2026-01-31T20:00:00+08:00"
    assert parse_time("2026-01-31T12:00:00Z") == at
    assert b"2026-01-31T20:00:00+08:00" in encode(Message(role=Role.USER, content="", at=at))
    for text in ("2026-01-31T12:00:00", "yesterday"):
        with pytest.raises(CodecError):
            parse_time(text)
    with pytest.raises(CodecError):
        format_time(at.replace(tzinfo=None))


@given(st.dictionaries(texts, json_values, max_size=4))
def test_a_tree_that_is_encoded_already_is_the_tree(tree):
    encoded = JsonTree(encode(tree))
    assert encoded == tree
    assert tree == JsonTree(encode(tree))
    assert str(encoded) == str(tree)
    assert encode(encoded) == encode(tree)
    assert decode(encode({"inner": encoded}), dict) == {"inner": tree}
    assert to_plain({"inner": encoded}) == {"inner": tree}


AT_ONCE = """
import sys
import threading
from dataclasses import make_dataclass
from mnemosyne.core.codec import from_plain
sys.setswitchinterval(1e-6)
for number in range(100):
    inner = make_dataclass("Inner", [(f"f{n}", int) for n in range(20)])
    outer = make_dataclass("Outer", [("one", inner), ("other", list[inner])])
    plain = {f"f{n}": n for n in range(20)}
    barrier = threading.Barrier(8)
    def work():
        barrier.wait()
        from_plain({"one": plain, "other": [plain]}, outer)
    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads: t.start()
    for t in threads: t.join()
"""


def test_threads_may_read_a_type_for_the_first_time_at_once():
    # In a process of its own: it crashed.
    assert subprocess.run([sys.executable, "-c", AT_ONCE], check=False).returncode == 0
