"""The server that the other tests use: it is one, and it leaves nothing behind."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg

HOLDER = """
import subprocess, sys, time
guardian = subprocess.Popen(
    [sys.executable, sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
)
print(guardian.stdout.readline().strip(), flush=True)
time.sleep(600)
"""


def test_it_is_a_server(postgres_server):
    with psycopg.connect(postgres_server.uri) as connection:
        assert connection.info.server_version >= 160000
        assert connection.execute("SHOW server_encoding").fetchone() == ("UTF8",)


def test_names_make_addresses(postgres_server):
    assert postgres_server.url("a") == postgres_server.url("a") != postgres_server.url("b")


def test_it_ends_with_the_process_that_asked_for_it():
    script = Path(__file__).with_name("postgres_server.py")
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(script)], stdout=subprocess.PIPE, text=True)
    with holder:
        assert holder.stdout is not None
        uri = holder.stdout.readline().strip()
        with psycopg.connect(uri) as connection:
            (folder,) = connection.execute("SHOW data_directory").fetchone()
        holder.send_signal(signal.SIGKILL)
    until = time.monotonic() + 60
    while Path(folder).parent.exists():
        assert time.monotonic() < until, f"{folder} is still there"
        time.sleep(0.05)
