"""Tests a Store that several tasks, processes and tenants use at the same time (rules 7 and 8 of the Store protocol)."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from mnemosyne.core.errors import SessionNotFoundError, VersionConflictError
from mnemosyne.protocols import Store
from mnemosyne.schema.erasure import Erasure
from mnemosyne.schema.memory import Chain
from mnemosyne.testing.stores.process import write
from mnemosyne.testing.stores.samples import (
    AT,
    SCOPE,
    SESSION,
    WORLD_SCOPE,
    StoreTests,
    document_of,
    evidence,
    imported_turn,
    lore,
    play,
    prepared_turn,
    reply_message,
    start,
    user_message,
)

WRITERS = ("here", "there")
APPENDS = 20
_PATIENCE_SECONDS = 120.0


class StoreConcurrency(StoreTests):
    """Tests that nothing is lost, nothing is written twice, and no tenant sees the data of another."""

    async def test_rule_7_tasks_append_one_after_the_other(self, tmp_path: Path) -> None:
        """Every message that a task appends is in the store once, in the order of the returned versions."""
        async with self.open_session(tmp_path) as store:
            first = (await store.head(SESSION)).version
            order: dict[int, str] = {}

            async def append(text: str) -> None:
                done = await store.append_messages(SESSION, (user_message(text), reply_message(f"re {text}")))
                order[done.version] = text

            await _run_together([partial(append, f"text {n}") for n in range(16)])
            assert sorted(order) == list(range(first + 1, first + 17))
            window = await store.window(SESSION, message_limit=99)
            assert [placed.message.content for placed in window.messages][::2] == [order[n] for n in sorted(order)]
            assert [placed.depth for placed in window.messages][::2] == list(range(1, 17))

    async def test_rule_7_of_those_who_saw_one_version_one_writes(self, tmp_path: Path) -> None:
        """If several tasks have read the same version, one writes and the others get an error.

        Each acknowledged turn is stored.
        """
        async with self.open_session(tmp_path) as store:
            head = await store.head(SESSION)
            won: list[str] = []

            async def prepare(turn_id: str) -> None:
                try:
                    await store.save_prepared(prepared_turn(head, turn_id), expected_version=head.version)
                except VersionConflictError:
                    return
                won.append(turn_id)

            await _run_together([partial(prepare, f"t{n}") for n in range(8)])
            window = await store.window(SESSION, message_limit=9)
            assert window.pending is not None
            assert won == [window.pending.turn_id]
            assert window.head.version == head.version + 1

    async def test_rule_7_a_reader_sees_whole_writes(self, tmp_path: Path) -> None:
        """While others write, each window that is read belongs to one version."""
        async with self.open_session(tmp_path) as store:
            first = (await store.head(SESSION)).version

            async def write(number: int) -> None:
                await store.append_messages(SESSION, (user_message(f"a{number}"), reply_message(f"b{number}")))

            async def read() -> None:
                for _ in range(6):
                    window = await store.window(SESSION, message_limit=99)
                    assert len(window.messages) == 2 * window.head.depth == 2 * (window.head.version - first)

            await _run_together([*(partial(write, n) for n in range(8)), read, read])

    async def test_rule_7_processes_append_one_after_the_other(self, tmp_path: Path) -> None:
        """Each process tries again after a conflict. Every message is in the store once, in the order of its writer."""
        if not self.persistent:
            pytest.skip("this store keeps nothing that another process could see")
        async with self.open_session(tmp_path) as store:
            async with anyio.create_task_group() as group:
                group.start_soon(self._run_writer, tmp_path, WRITERS[1])
                with anyio.fail_after(_PATIENCE_SECONDS):
                    while not (await store.head(SESSION)).depth:  # noqa: ASYNC110 (another process gives no event)
                        await anyio.sleep(0.01)
                group.start_soon(write, self, tmp_path, WRITERS[0], APPENDS)
            window = await store.window(SESSION, message_limit=9999)
            assert window.head.depth == len(WRITERS) * APPENDS
            said = [placed.message.content for placed in window.messages]
            assert len(said) == len(set(said)) == len(WRITERS) * APPENDS
            for name in WRITERS:
                own = [text for text in said if text.startswith(f"{name} ")]
                assert own == [f"{name} {step}" for step in range(APPENDS)]
            assert window.head.version == 1 + len(WRITERS) * APPENDS

    async def _run_writer(self, folder: Path, name: str) -> None:
        place = (inspect.getfile(type(self)), type(self).__qualname__, str(folder), name, str(APPENDS))
        search = os.pathsep.join(dict.fromkeys(part for part in sys.path if part))
        with anyio.fail_after(_PATIENCE_SECONDS):
            done = await anyio.run_process(
                [sys.executable, "-m", "mnemosyne.testing.stores.process", *place],
                check=False,
                env={**os.environ, "PYTHONPATH": search},
            )
        assert done.returncode == 0, done.stderr.decode()

    async def test_rule_8_tenants_do_not_see_each_other(self, tmp_path: Path) -> None:
        """Records of every kind with the same ids are independent in two tenants."""
        async with self.open_empty(tmp_path, "ours") as ours, self.open_empty(tmp_path, "theirs") as theirs:
            await ours.create_session(start(imported_turn("p001", "our secret")))
            await ours.replace_world("w1", "d", (lore("a", "our lore"),))
            await ours.put_evidence(SESSION, evidence("e1", "our evidence"))
            await _assert_nothing_visible(theirs)
            await theirs.put_session(SESSION, document_of(user_message("their words")))
            await theirs.replace_world("w1", "d", (lore("a", "their lore"),))
            await theirs.put_evidence(SESSION, evidence("e1", "their evidence"))
            assert await _message(ours) == ["ask our secret", "tell our secret"]
            assert await _message(theirs) == ["their words"]
            for store, whose in ((ours, "our"), (theirs, "their")):
                found = await store.get_evidence(SESSION, "e1")
                assert found is not None
                assert found.content == f"{whose} evidence"
                (entry,) = await store.entries(WORLD_SCOPE, ("a",))
                assert entry.text == f"{whose} lore"
                listed = await store.entries_after(SCOPE, Chain.HISTORY, 0, 9)
                assert all(whose in each.entry.text for each in listed)
            await theirs.erase(Erasure(at=AT, session_id=SESSION))
            await theirs.replace_world("w1", "d2", ())
            assert await _message(ours) == ["ask our secret", "tell our secret"]
            assert len(await ours.entries(WORLD_SCOPE, ("a",))) == 1
            assert (await ours.audits(), len(await theirs.audits())) == ((), 1)
            await play(ours, "t1")


async def _assert_nothing_visible(store: Store) -> None:
    assert await store.sessions() == ()
    assert await store.get_session(SESSION) is None
    assert await store.find_text(("our secret", "our lore", "our evidence")) == ()
    assert await store.entries(WORLD_SCOPE, ("a",)) == ()
    assert await store.entries(SCOPE, ("p001.u",)) == ()
    assert await store.entries_after(SCOPE, Chain.HISTORY, 0, 9) == ()
    with pytest.raises(SessionNotFoundError):
        await store.head(SESSION)


async def _message(store: Store) -> list[str]:
    window = await store.window(SESSION, message_limit=99)
    return [placed.message.content for placed in window.messages]


async def _run_together(works: list[Callable[[], Coroutine[Any, Any, None]]]) -> None:
    with anyio.fail_after(_PATIENCE_SECONDS):
        async with anyio.create_task_group() as group:
            for work in works:
                group.start_soon(work)
