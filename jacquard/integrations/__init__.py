"""Adapters between this engine and agent frameworks: each framework has a module here and an extra of the same name.

    from jacquard.integrations.langchain import ContextMiddleware

    agent = create_agent(model, tools, middleware=[ContextMiddleware(engine)])

This package imports no framework; a module whose framework is missing names the extra to install. `docs/frameworks.md`
describes each.
"""

from jacquard.integrations.core.adapter import ContextAdapter
from jacquard.integrations.core.protocol import AgentFrameworkAdapter, FrameworkMapper
from jacquard.integrations.core.recall import RecalledText, SessionRecall
from jacquard.integrations.core.values import (
    AdapterOptions,
    AdapterReport,
    FailurePolicy,
    FoundDocument,
    FrameworkError,
    InjectedPrompt,
    ModelAnswer,
    ModelRequest,
    Problem,
    PromptPart,
    SessionOwnerError,
    ToolOutcome,
    ToolResultError,
)

__all__ = [
    "AdapterOptions",
    "AdapterReport",
    "AgentFrameworkAdapter",
    "ContextAdapter",
    "FailurePolicy",
    "FoundDocument",
    "FrameworkError",
    "FrameworkMapper",
    "InjectedPrompt",
    "ModelAnswer",
    "ModelRequest",
    "Problem",
    "PromptPart",
    "RecalledText",
    "SessionOwnerError",
    "SessionRecall",
    "ToolOutcome",
    "ToolResultError",
]
