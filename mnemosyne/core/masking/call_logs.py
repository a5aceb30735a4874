"""Keeps credentials, and the texts sent to models, out of log lines: our own lines and those of libraries.

Libraries log our requests with headers, addresses and texts. A filter on their loggers masks credentials in every line. The
filter replaces a line that repeats a text of one of our calls. Lines about other calls of the host keep their texts.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from mnemosyne.core.masking.credentials import mask_credentials
from mnemosyne.core.masking.quotes import SentTexts

REPEATED = "(withheld: it repeats what was sent to the model)"
_LOGGERS = (
    "LiteLLM",
    "LiteLLM Proxy",
    "LiteLLM Router",
    "aiohttp.client",
    "httpcore.connection",
    "httpcore.http11",
    "httpcore.http2",
    "httpcore.proxy",
    "httpcore.socks",
    "httpx",
    "openai",
    "openai._base_client",
    "openai._legacy_response",
    "openai._response",
    "anthropic._base_client",
    "urllib3.connectionpool",
    "botocore.auth",
    "botocore.endpoint",
    "botocore.parsers",
    "asyncio",
)
_sent: ContextVar[SentTexts | None] = ContextVar("mnemosyne_sent_texts", default=None)


class _MaskingFilter(logging.Filter):
    """Masks a record before any handler sees it."""

    def filter(self, record: logging.LogRecord) -> bool:
        try:
            said = record.getMessage()
        except Exception:
            return True  # the handler reports a line that cannot be formatted
        sent = _sent.get()
        shown = REPEATED if sent is not None and sent.are_repeated_in(said) else mask_credentials(said)
        if shown != said:
            record.msg, record.args = shown, ()
        if record.exc_info and record.exc_info[1] is not None:
            record.exc_text = _mask_traceback(record.exc_info, sent)
        return True


_filter = _MaskingFilter()
_formatter = logging.Formatter()


def _mask_traceback(
    exc_info: tuple[type[BaseException] | None, BaseException | None, object], sent: SentTexts | None
) -> str:
    """Return the traceback as text, which formatters then use in place of the exception."""
    text = _formatter.formatException(exc_info)  # type: ignore[arg-type]
    if sent is not None and sent.are_repeated_in(text):
        assert exc_info[0] is not None
        return f"{exc_info[0].__name__}: {REPEATED}"
    return mask_credentials(text)


def open_log(name: str) -> logging.Logger:
    """Return the logger `name`, for one of our modules. Credentials are masked in its lines and tracebacks."""
    logger = logging.getLogger(name)
    logger.addFilter(_filter)
    return logger


def watch_call_logs() -> None:
    """Put the filter on the loggers of the libraries that make calls. Further calls change nothing."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_filter)


@contextmanager
def sending(texts: Iterable[str]) -> Iterator[SentTexts]:
    """While the block runs, withhold log lines that repeat one of `texts`. This also holds for tasks that the block starts."""
    sent = SentTexts(texts)
    token = _sent.set(sent)
    try:
        yield sent
    finally:
        _sent.reset(token)
