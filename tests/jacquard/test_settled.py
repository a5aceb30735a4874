import ctypes
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from jacquard import open_runtime
from jacquard.wiring.process_tuning import HEAPS_A_CORE, SWITCH_SECONDS, ProcessTuning

DEFAULT_SECONDS = sys.getswitchinterval()
DEFAULT_THRESHOLD = gc.get_threshold()
pytestmark = pytest.mark.anyio

COUNT_HEAPS = """
import ctypes, re, sys, tempfile, threading
from jacquard.wiring.process_tuning import ProcessTuning
if sys.argv[1] == "tuned":
    ProcessTuning().tune()
library, begun = ctypes.CDLL(None), threading.Barrier(64)
def take_memory():
    begun.wait()
    library.malloc(1_000)
threads = [threading.Thread(target=take_memory) for _ in range(64)]
[each.start() for each in threads]
[each.join() for each in threads]
library.fdopen.restype = ctypes.c_void_p
with tempfile.TemporaryFile() as file:
    stream = ctypes.c_void_p(library.fdopen(file.fileno(), b"w"))
    library.malloc_info(0, stream)
    library.fflush(stream)
    file.seek(0)
    print(len(re.findall(rb"<heap nr", file.read())))
"""

FREE_MEMORY = """
import ctypes, os, sys, time
from jacquard.wiring.process_tuning import ProcessTuning
from jacquard.wiring import process_tuning
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
library = ctypes.CDLL(None)
library.malloc.restype = ctypes.c_void_p
process_tuning.TRIM_SECONDS = 0.05
tuning = ProcessTuning()
blocks = [library.malloc(60_000) for _ in range(2_000)]
for block in blocks:
    ctypes.memset(ctypes.c_void_p(block), 1, 60_000)
# The last one stays, so that what is free lies below something in use.
for block in blocks[:-1]:
    library.free(ctypes.c_void_p(block))
full = resident()
if sys.argv[1] == "tuned":
    tuning.tune()
    while resident() > full - 100_000_000:
        time.sleep(0.05)
    tuning.release()
print(full - resident() > 100_000_000)
"""

FREE_ARROW_MEMORY = """
import ctypes, os, threading
import pyarrow
from jacquard.wiring.process_tuning import return_free_memory
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
def make_tables():
    for length in range(2_000, 4_000, 40):
        pyarrow.table({"words": ["lantern" * (each % 20) for each in range(length)]}).combine_chunks()
def returned():
    threads = [threading.Thread(target=make_tables) for _ in range(6)]
    [each.start() for each in threads]
    [each.join() for each in threads]
    ctypes.CDLL(None).malloc_trim(0)
    full = resident()
    return_free_memory()
    return full - resident()
# Arrow returns memory by itself after a while, so that on a busy machine little may be left.
print(any(returned() > 20_000_000 for _ in range(5)))
"""


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


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_info"), reason="the C library has no such setting")
def test_the_c_library_takes_memory_of_few_heaps() -> None:
    def count(how: str, **given: str) -> int:
        environment = {name: value for name, value in os.environ.items() if name != "MALLOC_ARENA_MAX"} | given
        command = [sys.executable, "-c", COUNT_HEAPS, how]
        return int(subprocess.run(command, env=environment, capture_output=True, check=True).stdout)

    most = HEAPS_A_CORE * (os.cpu_count() or 1)
    assert count("tuned") <= most < count("as it is")
    assert count("tuned", MALLOC_ARENA_MAX=str(most + 2)) == most + 2


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="the C library cannot return memory")
def test_free_memory_is_returned_to_the_system() -> None:
    def is_returned(how: str) -> str:
        command = [sys.executable, "-c", FREE_MEMORY, how]
        return subprocess.run(command, capture_output=True, check=True, timeout=60, text=True).stdout.strip()

    assert (is_returned("as it is"), is_returned("tuned")) == ("False", "True")


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="the C library cannot return memory")
def test_free_memory_of_arrow_is_returned_to_the_system() -> None:
    command = [sys.executable, "-c", FREE_ARROW_MEMORY]
    assert subprocess.run(command, capture_output=True, check=True, timeout=60, text=True).stdout.strip() == "True"


def test_nothing_is_trimmed_after_the_release() -> None:
    tuning = ProcessTuning()
    tuning.tune()
    trimming = [each for each in threading.enumerate() if each.name == "jacquard-trim"]
    tuning.release()
    for each in trimming:
        each.join()
