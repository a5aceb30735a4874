"""Operations on tokens: the cost of messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from jacquard.core.errors import ConfigError, InputTooLargeError
from jacquard.service.http.body_sizes import MOST
from jacquard.service.http.operation import Call, Operation
from jacquard.service.values import MOST_MESSAGES


@dataclass(frozen=True, kw_only=True, slots=True)
class EstimateRequest:
    """Messages to count for a model (null: that of the settings)."""

    messages: tuple[dict[str, Any], ...] = field(metadata={MOST: MOST_MESSAGES})
    model_hint: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class EstimateAnswer:
    """Cost of messages in tokens."""

    tokens: int


async def estimate(call: Call) -> EstimateAnswer:
    """Count tokens; raises ConfigError for a content that cannot be counted."""
    sent = call.read(EstimateRequest)
    if any(not isinstance(each.get("content", ""), str | list) for each in sent.messages):
        raise ConfigError("A message has a content that is neither text nor a list of parts.")
    return EstimateAnswer(tokens=await call.runtime.engine.estimate_messages(sent.messages, sent.model_hint))


OPERATIONS = (
    Operation(
        name="estimate_messages",
        method="POST",
        path="/api/v1/estimate",
        doc="Return what messages cost in tokens.",
        run=estimate,
        body=EstimateRequest,
        answer=EstimateAnswer,
        errors=(ConfigError, InputTooLargeError),
        open_to_viewers=True,
    ),
)
