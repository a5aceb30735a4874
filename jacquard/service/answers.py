"""Turns errors into HTTP answers: a status, and a JSON body with a code, a sentence and facts.

The code is the name of the error's class in snake case, without `Error`: `session_not_found` for `SessionNotFoundError`.
The facts are the attributes of the error that JSON can represent. For an unexpected error the client gets only a general
sentence, because the error's own message might contain text of a session.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from starlette.responses import Response

from filament import FilamentError
from jacquard.client.errors import code_of
from jacquard.core import errors as own
from jacquard.core.sentences import LANGUAGES, find_language, translate
from jacquard.remote.wire import ErrorAnswer, ErrorBody
from mnemosyne.core import codec
from mnemosyne.core import errors as stored
from mnemosyne.core.errors import ContextEngineError

JSON = "application/json"
DOWNLOAD = "application/octet-stream"
RETRY_SECONDS = 1
MOST_CHARS = 10_000
"""Maximum characters of the sentence of an error, and of each fact, in an answer. A document can have any number of faults."""

_SENTENCES = frozenset(
    (
        *("reason", "reasons", "detail", "alignment", "errors", "what", "do", "prefetch_refused", "lease_refused"),
        *("message", "advice", "note", "notes"),
    )
)
"""Fields of answers that contain sentences for people."""

INTERNAL = ErrorBody(code="internal", message="The service failed; its log says more, by the request's id.")

STATUSES: Mapping[type[Exception], int] = {
    stored.SessionNotFoundError: 404,
    stored.BranchNotFoundError: 404,
    stored.TurnNotFoundError: 404,
    stored.EvidenceNotFoundError: 404,
    stored.UriError: 404,
    stored.NoPendingTurnError: 409,
    stored.SessionExistsError: 409,
    stored.BranchExistsError: 409,
    stored.TurnNotPendingError: 409,
    stored.VersionConflictError: 409,
    stored.EntryConflictError: 409,
    stored.WorldNotAdoptedError: 409,
    stored.CommitUnknownError: 503,
    stored.StoreBusyError: 503,
    stored.LeaseLostError: 409,
    stored.StoreUnavailableError: 503,
    stored.IndexUnavailableError: 503,
    stored.EmbedderUnavailableError: 503,
    stored.DamagedRecordError: 500,
    own.MemoryNotFoundError: 404,
    own.InputTooLargeError: 413,
    own.QuotaExceededError: 403,
    own.TurnRateError: 429,
    own.BudgetExceededError: 422,
    own.ConfigError: 422,
    stored.CorpusError: 422,
    own.ChunkConflictError: 409,
    own.MissingChunksError: 409,
    own.WorldUnavailableError: 409,
    own.ModelError: 502,
    own.SelectorError: 502,
    own.SummarizerError: 502,
    ContextEngineError: 422,
    FilamentError: 422,
}
"""HTTP status of each class of errors. A class that is not listed has the status of its nearest listed base class."""


class Refusal(Exception):  # noqa: N818 (an answer, not an error of the engine)
    """Raised to refuse a request. The answer has the status and the headers; its body has the code, the message and the
    facts.
    """

    def __init__(
        self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None, **facts: Any
    ) -> None:
        self.status, self.headers = status, dict(headers or {})
        self.body = ErrorBody(code=code, message=message, facts=facts)
        super().__init__(message)


def status_of(error: type[Exception]) -> int:
    """Return the HTTP status of a class of errors. Return 500 if neither the class nor one of its base classes is
    listed in `STATUSES`.
    """
    return next((STATUSES[base] for base in error.__mro__ if base in STATUSES), 500)


def describe(error: Exception) -> ErrorBody:
    """Return the code, the sentence and the facts of `error`. For an error of another library, return `INTERNAL`, which
    has no details.
    """
    if not isinstance(error, ContextEngineError | FilamentError):
        return INTERNAL
    return ErrorBody(code=code_of(type(error)), message=_shorten(str(error)), facts=_facts_of(error))


def _shorten(text: str) -> str:
    rest = len(text) - MOST_CHARS
    return text if rest <= 0 else f"{text[:MOST_CHARS]}… ({rest:,} more characters)"


def answer_error(error: Exception, body: ErrorBody, language: str = LANGUAGES[0]) -> Response:
    """Return the HTTP answer to `error` in a language; `body` is its description. If the error has `seconds`, a
    Retry-After header states them.
    """
    status = 500 if body is INTERNAL else status_of(type(error))
    seconds = getattr(error, "seconds", None)
    return answer_fault(status, body, {} if seconds is None else {"retry-after": str(seconds)}, language=language)


def answer_fault(
    status: int, body: ErrorBody, headers: Mapping[str, str] | None = None, *, language: str = LANGUAGES[0]
) -> Response:
    """Return an HTTP answer that reports a fault in a language. An answer with status 429 or 503 always has a Retry-After
    header. `headers` are further headers of the answer.
    """
    more, body = dict(headers or {}), replace(body, message=translate(body.message, language))
    if status in (429, 503):
        more.setdefault("retry-after", str(RETRY_SECONDS))
    return Response(codec.encode(ErrorAnswer(error=body)), status, more, JSON)


def accepted_language(headers: Mapping[str, str]) -> str:
    """Return the first language of `LANGUAGES` that the header Accept-Language of a request names, else English."""
    asked = (part.strip()[:2].lower() for part in headers.get("accept-language", "").split(","))
    return next((name for name in asked if name in LANGUAGES), LANGUAGES[0])


def language_of_call(headers: Mapping[str, str]) -> str:
    """Return the language of an error for a person behind a program: Accept-Language names it, else this process's environment.

    Chat clients and agents send no Accept-Language.
    """
    return accepted_language(headers) if "accept-language" in headers else find_language(os.environ)


def translate_answer(value: Any, language: str) -> bytes:
    """Return an answer as JSON with its sentences in a language. `value` is JSON or a value."""
    return codec.encode(
        _translate_within(codec.decode(value, Any) if isinstance(value, bytes) else codec.to_plain(value), language)
    )


def _translate_within(value: Any, language: str, *, is_sentence: bool = False) -> Any:
    if isinstance(value, dict):
        # A remark on an op is a text with a code.
        fields = _SENTENCES | {"text"} if "code" in value else _SENTENCES
        return {key: _translate_within(each, language, is_sentence=key in fields) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_translate_within(each, language, is_sentence=is_sentence) for each in value]
    return translate(value, language) if is_sentence and isinstance(value, str) else value


def _facts_of(error: Exception) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for name, value in vars(error).items():
        if name.startswith("_") or isinstance(value, BaseException):
            continue
        try:
            plain = codec.to_plain(value)
            while isinstance(plain, list | tuple) and len(codec.encode(plain)) > MOST_CHARS:
                plain = plain[: len(plain) // 2]
            facts[name] = _shorten(plain) if isinstance(plain, str) else plain
        except (TypeError, NotImplementedError, ValueError):
            continue
    return {name: value for name, value in facts.items() if len(codec.encode(value)) <= 2 * MOST_CHARS}


def answer_file(data: bytes, name: str) -> Response:
    """Return a file for a browser to save under `name`."""
    headers = {
        "content-disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}",
        "x-content-type-options": "nosniff",
    }
    return Response(data, media_type=DOWNLOAD, headers=headers)
