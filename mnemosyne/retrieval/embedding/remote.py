"""Computes embeddings with a model behind an API, through litellm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import anyio
import numpy as np
from anyio import to_thread

from mnemosyne.core.errors import EmbedderUnavailableError
from mnemosyne.core.masking.addresses import secrets_of, split_credentials
from mnemosyne.core.masking.call_logs import REPEATED, sending, watch_call_logs
from mnemosyne.core.masking.credentials import mask_credentials, remember_address, remember_secrets
from mnemosyne.core.masking.quotes import SentTexts
from mnemosyne.core.optional_packages import import_litellm
from mnemosyne.protocols import Vectors

litellm = import_litellm()
_NO_KEY = "none"
"""Sent to a self-hosted server that needs no key, because litellm's client refuses to send none."""


class RemoteEmbedder:
    """An `Embedder` over `litellm.embedding`.

    `name` is the model as litellm spells it (`openai/text-embedding-3-small`). `timeout_seconds` limits every call;
    nothing is retried. Calls run on worker threads: litellm spends a second on its first call and some milliseconds
    on each later one, which would block the event loop. A call whose caller has stopped waiting ends at its timeout.
    """

    def __init__(
        self,
        name: str,
        *,
        api_base: str | None = None,
        api_key: str | None = None,
        timeout_seconds: float = 10.0,
        batch_size: int = 64,
    ) -> None:
        self.name = name
        self._api_base, self._headers = split_credentials(api_base)
        self._api_key = api_key or (_NO_KEY if api_base else None)
        self._secrets = (api_key, *secrets_of(api_base or ""))
        remember_address(api_base)
        remember_secrets(api_key)
        watch_call_logs()
        self._timeout_seconds, self._batch_size = timeout_seconds, batch_size
        self._workers = anyio.CapacityLimiter(4)

    async def warm(self) -> None:
        """Do nothing, because the model is remote and a call would cost money."""

    async def fitness(self, text: str) -> float:
        """Return 1, because hosted models are assumed to know every language."""
        return 1.0

    async def embed(self, texts: Sequence[str], purpose: Literal["query", "document"]) -> Vectors:
        """Return the unit vectors of `texts`, as float32 of shape (len(texts), dimensions). The shape is (0, 0) if `texts` is
        empty.

        Raises EmbedderUnavailableError for any failure.
        """
        rows: list[list[float]] = []
        for start in range(0, len(texts), self._batch_size):
            part = list(texts[start : start + self._batch_size])
            rows.extend(await to_thread.run_sync(self._call, part, limiter=self._workers, abandon_on_cancel=True))
        if not rows:
            return np.zeros((0, 0), dtype=np.float32)
        vectors = np.asarray(rows, dtype=np.float32)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not np.isfinite(vectors).all() or not lengths.all():
            raise EmbedderUnavailableError(
                f"The embedding model {self.name!r} answered with vectors that have no length."
            )
        return np.asarray(vectors / lengths, dtype=np.float32)

    def _call(self, texts: list[str]) -> list[list[float]]:
        more: dict[str, Any] = {"extra_headers": self._headers} if self._headers else {}
        with sending(texts) as sent:
            return self._read_vectors(texts, more, sent)

    def _read_vectors(self, texts: list[str], more: dict[str, Any], sent: SentTexts) -> list[list[float]]:
        try:
            answer: Any = litellm.embedding(
                model=self.name,
                input=texts,
                api_base=self._api_base,
                api_key=self._api_key,
                timeout=self._timeout_seconds,
                max_retries=0,
                encoding_format="float",
                **more,
            )
            rows = sorted(answer.data, key=lambda row: int(row["index"]))
            found = [[float(part) for part in row["embedding"]] for row in rows]
        except Exception as error:
            text = mask_credentials(" ".join(str(error).split()), *self._secrets)
            text = f"{type(error).__name__} {REPEATED}" if sent.are_repeated_in(text) else text
            refusal = EmbedderUnavailableError(
                f"The embedding model {self.name!r} could not be called: {text[:300] or type(error).__name__}"
            )
            refusal.is_refusal = True
            raise refusal from None
        if len(found) != len(texts) or len({len(row) for row in found}) > 1:
            raise EmbedderUnavailableError(
                f"The embedding model {self.name!r} answered {len(found)} vectors to {len(texts)} texts."
            )
        return found
