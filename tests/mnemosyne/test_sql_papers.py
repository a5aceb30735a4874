"""Papers of a turn are kept packed, read from older releases as they were, and still searched and erased."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne import Erasure, SqliteStore
from mnemosyne.core.codec import encode
from mnemosyne.stores.sql.blobs import change_blob, pack_blob, unpack_blob
from mnemosyne.testing.stores.samples import AT, SESSION, prepared_turn, start

SECRET = "十七号地窖的暗门"
TREES = st.dictionaries(
    st.text(max_size=5), st.recursive(st.text() | st.integers(-9, 9), st.lists, max_leaves=40), max_size=9
)


@given(TREES)
def test_what_is_packed_comes_out_as_it_was(tree):
    body = encode(tree)
    assert unpack_blob(pack_blob(body)) == body == unpack_blob(body)
    assert len(pack_blob(body)) <= len(body)


def test_an_unchanged_paper_is_the_very_same():
    data = pack_blob(encode({"text": "key " * 500}))
    assert len(data) < 200
    assert change_blob(data, lambda body: body) is data
    assert unpack_blob(change_blob(data, lambda body: body.replace(b"key", b"lid"))) == encode({"text": "lid " * 500})


@pytest.mark.anyio
async def test_packed_papers_are_searched_erased_and_old_ones_read(tmp_path: Path):
    file = tmp_path / "store.db"
    store = SqliteStore(file)
    await store.create_session(start())
    head = await store.head(SESSION)
    prompt = {"text": f"{'a b ' * 300}{SECRET}"}
    await store.save_prepared(
        prepared_turn(head, "t1", prompt=prompt, receipt={"why": "x"}), expected_version=head.version
    )
    assert (await store.turn(SESSION, "t1")).prompt == prompt
    assert await store.find_text([SECRET]) == (f"papers/{SESSION}/t1",)
    await store.close()
    with sqlite3.connect(file) as raw:
        ((kept,),) = raw.execute("SELECT prompt FROM papers").fetchall()
        assert kept[:1] == b"x"
        raw.execute("UPDATE papers SET prompt = ?", (encode(prompt),))
    raw.close()
    store = SqliteStore(file)
    try:
        assert (await store.turn(SESSION, "t1")).prompt == prompt
        assert await store.find_text([SECRET]) == (f"papers/{SESSION}/t1",)
        await store.erase(Erasure(at=AT, session_id=SESSION, reason="asked"))
        assert await store.find_text([SECRET]) == ()
    finally:
        await store.close()
