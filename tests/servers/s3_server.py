"""An S3-compatible server for tests: moto's, in a process of its own, on a free port of this machine."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import boto3

_TRIES_SECONDS = 60


@dataclass(kw_only=True)
class S3Server:
    """A running server with one bucket. `stop` ends it, as a storage that is away; `address` is for `open_storage`."""

    port: int
    process: subprocess.Popen[bytes]
    bucket: str = "snapshots"

    def address(self, prefix: str) -> str:
        return f"s3://AKTEST:hunter2pass@{self.bucket}/{prefix}?endpoint_override=127.0.0.1:{self.port}&scheme=http&region=us-east-1"

    def client(self):
        where = f"http://127.0.0.1:{self.port}"
        return boto3.client(
            "s3",
            endpoint_url=where,
            aws_access_key_id="AKTEST",
            aws_secret_access_key="hunter2pass",
            region_name="us-east-1",
        )

    def keys(self, prefix: str) -> list[str]:
        pages = self.client().get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix)
        return [each["Key"] for page in pages for each in page.get("Contents", ())]

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def running_s3() -> Iterator[S3Server]:
    """Give a server of its own; it is gone afterwards."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    server = S3Server(port=port, process=process)
    try:
        until = time.monotonic() + _TRIES_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > until:
                    raise
                time.sleep(0.1)
        server.client().create_bucket(Bucket=server.bucket)
        yield server
    finally:
        server.stop()
