"""Opens the model server that the settings name: interprets the address, and checks once whether the server can be
reached.
"""

from __future__ import annotations

import re

import anyio

from jacquard.config.service import ServiceSettings
from jacquard.core.errors import ConfigError
from jacquard.service.proxy.replies.events import value_of
from jacquard.service.proxy.requests.headers import Headers
from jacquard.service.proxy.upstreams.http import HttpUpstream
from jacquard.service.proxy.upstreams.named_model import NamedModelUpstream
from jacquard.service.proxy.upstreams.protocol import Upstream, UpstreamAnswer, UpstreamCall, UpstreamError
from mnemosyne.core.masking.addresses import mask_address

ASKED_SECONDS = 10.0
_MOST_LISTED_BYTES, _MOST_MODELS, _MODEL_CHARS = 4_000_000, 500, 255

_ENDINGS = re.compile(r"(?:/(?:chat/completions|completions|messages|models|responses))?/*\Z")
"""Addresses of single calls, which people copy instead of the base URL."""

_BARE = re.compile(
    r"(?:[^/@\s]*@)?"
    r"(?:(?P<name>(?:[a-z0-9-]+\.)+[a-z]{2,})|localhost|(?:\d{1,3}\.){3}\d{1,3}|\[[0-9a-f:.]+\]|[\w.-]+(?=:\d{2,5}(?:/|\Z)))"
    r"(?::(?P<port>\d{1,5}))?(?:/.*)?",
    re.IGNORECASE,
)
"""Address without a scheme; `ollama/llama3.1:8b` and `gpt-3.5-turbo` are not addresses."""


def find_address(upstream: str) -> str | None:
    """Return the base URL that the setting `upstream` means, with its scheme and without the path of a single call.

    Return None if the setting is the name of a model. Raises ConfigError if the address has a query or a fragment.
    """
    address = upstream.strip()
    if "://" not in address:
        found = _BARE.fullmatch(address)
        if found is None:
            return None
        is_far = found["name"] is not None and found["port"] in (None, "443")
        address = f"{'https' if is_far else 'http'}://{address}"
    if "?" in address or "#" in address:
        raise ConfigError(
            "service.upstream has a query or a fragment; write the base URL only, as http://127.0.0.1:5001/v1."
        )
    return _ENDINGS.sub("", address)


def open_upstream(settings: ServiceSettings) -> Upstream | None:
    """Return the model server that the settings name. Return None if they name none. Raises ConfigError if the address
    is invalid.
    """
    if settings.upstream is None:
        return None
    address = find_address(settings.upstream)
    if address is None:
        return NamedModelUpstream(settings.upstream.strip())
    return HttpUpstream(address, settings.proxy.silent_seconds)


def show_upstream(settings: ServiceSettings) -> str:
    """Return the model server for the log: its address without credentials, or the name of the model."""
    told = settings.upstream or ""
    return mask_address(find_address(told) or told)


async def ask_upstream(settings: ServiceSettings) -> str:
    """Ask the model server once for its list of models. Return a sentence about the fault. Return '' if the server can
    be reached, or if no server is set.
    """
    return (await find_models(settings))[0]


async def find_models(settings: ServiceSettings) -> tuple[str, tuple[str, ...]]:
    """Ask the model server once for its list of models. Return a sentence about the fault ('': the server can be reached, or no
    server is set) and the names of the models.
    """
    upstream = open_upstream(settings)
    if upstream is None:
        return "", ()
    try:
        if isinstance(upstream, NamedModelUpstream):
            await upstream.check()
        with anyio.fail_after(ASKED_SECONDS):
            async with upstream.call(
                UpstreamCall(method="GET", path="/models", headers=own_key_headers(settings))
            ) as answer:
                is_missing = answer.status == 404
                models = _read_models(await _read_body(answer)) if answer.status == 200 else ()
        missing = "The server has no models at this address; most base URLs end in /v1 (service.upstream)."
        return missing if is_missing else "", models
    except (UpstreamError, TimeoutError) as error:
        no_answer = "The model server does not answer; see service.upstream, and whether the server runs."
        return str(error) or no_answer, ()
    finally:
        with anyio.CancelScope(shield=True):
            await upstream.close()


def own_key_headers(settings: ServiceSettings) -> Headers:
    """Return the headers with the service's own key of the model server; empty if the settings have no key."""
    key = settings.proxy.key
    return [("authorization", f"Bearer {key}"), ("x-api-key", key)] if key else []


async def _read_body(answer: UpstreamAnswer) -> bytes:
    """Return the body of an answer; b'' if it is too large for a list of names."""
    body = bytearray()
    async for part in answer.parts():
        body += part
        if len(body) > _MOST_LISTED_BYTES:
            return b""
    return bytes(body)


def _read_models(body: bytes) -> tuple[str, ...]:
    value = value_of(body.decode("utf-8", "replace"))
    listed = value.get("data") if isinstance(value, dict) else None
    names = [each.get("id") for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    return tuple(each[:_MODEL_CHARS] for each in names if isinstance(each, str) and each)[:_MOST_MODELS]
