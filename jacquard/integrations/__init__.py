"""Connects agent frameworks with an engine, by one adapter for each framework: the engine's prompt ("our prompt") goes
into each model call, and the agent's actions are recorded.

    from jacquard.integrations.langchain import ContextMiddleware

    agent = create_agent(model, tools, middleware=[ContextMiddleware(engine)])

Each framework has a module here and an extra of the same name. This package itself imports no framework. If a framework
is missing, its module names the extra to install. `docs/en/frameworks.md` describes each adapter.
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
