"""Writes the log of the service to standard error: one line for every request, warning and fault. Lines are JSON, except
at a terminal.

A line never contains bodies of requests or answers, keys, tokens, or ids chosen by users. A request is described by its
operation. A fault is described by its class and its places in the code.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from traceback import extract_tb
from types import TracebackType
from typing import Any

import structlog
from structlog.typing import EventDict, WrappedLogger

from jacquard.core.sentences import find_language, translate
from jacquard.service.access.principals import RequestNote
from mnemosyne.core.masking.credentials import mask_credentials

MOST_PLACES = 6


def configure_logs() -> None:
    """Send all logs of this process to standard error. Libraries log only warnings and errors."""
    shared: list[Any] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _describe_fault,
        _mask,
    ]
    render = (
        structlog.dev.ConsoleRenderer()
        if sys.stderr.isatty()
        else structlog.processors.JSONRenderer(ensure_ascii=False)
    )
    spoken = [_speak] if sys.stderr.isatty() else []
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, render],
        )
    )
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    structlog.configure(
        processors=[*shared, *spoken, render],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def log_start(host: str, port: int, workers: int, store: str) -> None:
    """Log the listening address and the store."""
    shown = f"[{host}]" if ":" in host else host
    structlog.get_logger().info("serving", address=f"http://{shown}:{port}", store=store, workers=workers)


def log_upstream(upstream: str, fault: str) -> None:
    """Log whether the model server `upstream` can be reached. `fault` is a sentence about the fault ('': the server can
    be reached).
    """
    log = structlog.get_logger().bind(upstream=upstream)
    if fault:
        log.warning("no answer from the model server", fault=fault)
    else:
        log.info("the model server is there")


def log_request(note: RequestNote) -> None:
    """Log a finished request."""
    facts: dict[str, Any] = {
        "request_id": note.request_id,
        "method": note.method,
        "operation": note.operation,
        "status": note.status,
        "ms": round(note.seconds * 1000, 1),
        "token_id": note.principal.token_id,
        "turn_id": note.turn_id,
        "error_code": note.error_code,
        "audit": note.audit,
    }
    told = {name: value for name, value in facts.items() if value not in ("", None)}
    log = structlog.get_logger()
    if note.error is not None:
        log.error("request failed", exc_info=note.error, **told)
    elif note.status >= 500:
        log.warning("request", **told)
    else:
        log.info("request", **told)


def _speak(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Put the sentences of a line for a person into the language of the environment."""
    language = find_language(os.environ)
    return {key: translate(text, language, "log") if key in ("event", "fault") else text for key, text in event.items()}


def _describe_fault(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Replace an exception by its class and its places, because its message and source lines might contain request data."""
    fault = event.pop("exc_info", None)
    record = event.get("_record")
    if fault is None and record is not None:
        fault, record.exc_info, record.exc_text = record.exc_info, None, None
    error = fault[1] if isinstance(fault, tuple) else fault if isinstance(fault, BaseException) else sys.exc_info()[1]
    if fault and error is not None:
        event["fault"] = " < ".join(_classes(error))
        event["places"] = _places(error.__traceback__)
    return event


def _classes(error: BaseException) -> list[str]:
    found: list[str] = []
    at: BaseException | None = error
    while at is not None and len(found) < MOST_PLACES:
        found.append(type(at).__name__)
        at = at.__cause__ or at.__context__
    return found


def _places(trace: TracebackType | None) -> list[str]:
    frames = extract_tb(trace)[-MOST_PLACES:]
    return [f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(frames)]


def _mask(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    if isinstance(said := event.get("event"), str):
        event["event"] = mask_credentials(said)
    return event
