"""A service in a process of its own, for what an application in this process cannot show."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from served import PATIENCE_SECONDS

PATIENT_LIMITS = {f"JACQUARD_SERVICE__LIMITS__{name}_SECONDS": "600" for name in ("BODY", "WAITING", "SHUTDOWN")} | {
    "JACQUARD_SERVICE__LIMITS__REQUEST_SECONDS": str(PATIENCE_SECONDS)
}
"""On a busy machine the service's own limits of time would end what a test waits for."""
WORLD = Path(__file__).parents[3] / "examples" / "whispering_forest" / "en"


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceProcess:
    """A running service: its address, its process, and the file of its log."""

    address: str
    process: subprocess.Popen[bytes]
    log: Path

    def end(self, asked: int = signal.SIGTERM) -> int:
        """Ask it to end; return its exit code."""
        self.process.send_signal(asked)
        return self.process.wait(PATIENCE_SECONDS)

    def log_lines(self) -> list[dict[str, object]]:
        """Return the lines of its log so far."""
        return [json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines()]


@contextmanager
def starting_services(folder: Path):
    """Give a function that starts services on the store in a folder, or on another, and end them."""
    started: list[ServiceProcess] = []

    def start(*options: str, store: str | None = None) -> ServiceProcess:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        log = folder / f"log-{len(started)}.jsonl"
        command = [sys.executable, "-m", "jacquard", "operate", "serve", "--port", str(port)]
        command += ["--store", store or str(folder / "store"), "--embedder", "none", *options]
        with log.open("wb") as file:
            process = subprocess.Popen(command, stderr=file, env=os.environ | PATIENT_LIMITS)
        service = ServiceProcess(address=f"http://127.0.0.1:{port}", process=process, log=log)
        started.append(service)
        with httpx.Client(timeout=PATIENCE_SECONDS) as client:
            while process.poll() is None:
                try:
                    client.get(f"{service.address}/readyz").raise_for_status()
                    break
                except httpx.HTTPError:
                    time.sleep(0.05)
        assert process.poll() is None, log.read_text(encoding="utf-8")
        return service

    try:
        yield start
    finally:
        for service in started:
            if service.process.poll() is None:
                service.process.kill()
                service.process.wait()


@pytest.fixture
def start_service(tmp_path):
    """Start services on `tmp_path / "store"`, or on another, and end them with the test."""
    with starting_services(tmp_path) as start:
        yield start


@pytest.fixture(scope="module")
def service_process(tmp_path_factory):
    """A service on the example world, for all tests of a module that do not end it."""
    with starting_services(tmp_path_factory.mktemp("service")) as start:
        service = start("--world", str(WORLD))
        yield service
        assert service.end() in (0, -15)


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory):
    """A service of two processes, for all tests of a module that do not end it."""
    with starting_services(tmp_path_factory.mktemp("workers")) as start:
        service = start("--workers", "2")
        yield service
        assert service.end() in (0, -15)
