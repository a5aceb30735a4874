import gc
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jacquard import ProcessTuning, open_runtime
from jacquard.wiring.gc_tuning import SWITCH_SECONDS

DEFAULT_SECONDS = sys.getswitchinterval()
DEFAULT_THRESHOLD = gc.get_threshold()
pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _thawed() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.unfreeze()


def test_what_lives_is_left_out_of_later_collections() -> None:
    kept: list[list[int]] = [[] for _ in range(1000)]
    tuning = ProcessTuning()
    tuning.tune()
    assert gc.get_freeze_count() > len(kept)
    assert not any(each is kept for each in gc.get_objects())
    tuning.release()


def test_what_is_frozen_is_still_freed_when_nothing_refers_to_it() -> None:
    class Held:
        freed = False

        def __del__(self) -> None:
            Held.freed = True

    held = Held()
    tuning = ProcessTuning()
    tuning.tune()
    del held
    assert Held.freed
    tuning.release()


@pytest.mark.parametrize("settle", [True, False])
async def test_warming_freezes_the_heap_unless_it_must_not(tmp_path: Path, settle: bool) -> None:
    async with open_runtime(tmp_path / "store", embedder="none") as runtime:
        await runtime.warm(tune_process=settle)
        assert (gc.get_freeze_count() > 0) is settle
        assert (sys.getswitchinterval() == pytest.approx(SWITCH_SECONDS)) is settle
    assert gc.get_freeze_count() == 0
    assert sys.getswitchinterval() == DEFAULT_SECONDS


def test_the_last_release_ends_it() -> None:
    one, other = ProcessTuning(), ProcessTuning()
    for each in (one, one, other):
        each.tune()
    one.release()
    assert sys.getswitchinterval() == pytest.approx(SWITCH_SECONDS)
    other.release()
    other.release()
    assert sys.getswitchinterval() == DEFAULT_SECONDS
    assert gc.get_threshold() == DEFAULT_THRESHOLD


def test_what_a_process_froze_itself_stays_frozen() -> None:
    gc.freeze()
    ProcessTuning().release()
    assert gc.get_freeze_count() > 0
