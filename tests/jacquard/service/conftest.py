"""A service in a process of its own, for what an application in this process cannot show."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

WORLD = Path(__file__).parents[3] / "examples" / "whispering_forest" / "en"


@pytest.fixture
def service_process(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "jacquard", "serve", "--port", str(port), "--store", str(tmp_path / "store")]
    with (tmp_path / "log.jsonl").open("wb") as log:
        process = subprocess.Popen([*command, "--world", str(WORLD), "--embedder", "none"], stderr=log)
    address = f"http://127.0.0.1:{port}"
    while process.poll() is None:
        try:
            httpx.get(f"{address}/readyz").raise_for_status()
            break
        except httpx.HTTPError:
            time.sleep(0.1)
    assert process.poll() is None
    yield address
    process.terminate()
    assert process.wait() in (0, -15)
