"""An application under uvicorn in a thread of this process, with the protocol of the service: real HTTP without a new process."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager

import uvicorn

from jacquard.service.running.protocol import LimitedProtocol

PATIENCE_SECONDS = 3_600
"""How long a client waits in tests: so long that only a service that hangs is not waited for, however busy the machine is."""


@contextmanager
def serve_app(app, protocol=LimitedProtocol):
    """Serve on a free port; give the port."""
    config = uvicorn.Config(app, host="127.0.0.1", port=0, http=protocol, ws="none", log_config=None, access_log=False)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.01)
    assert thread.is_alive(), "the application does not start"
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()
