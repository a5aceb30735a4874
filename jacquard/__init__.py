"""Jacquard prepares, for every turn of an agent, the exact prompt its model will see, with a receipt.

The names below are the front door; each loads its module when it is first used, so that `import jacquard` stays quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jacquard.config.sections import (
        BudgetConfig,
        CurationConfig,
        HistoryConfig,
        LimitsConfig,
        RuntimeConfig,
        SelectorConfig,
    )
    from jacquard.core.errors import BudgetExceededError, InputTooLargeError, JacquardError
    from jacquard.core.plan import PlanContext
    from jacquard.core.receipt import Report
    from jacquard.pipeline.record.commit import CommitResult
    from jacquard.pipeline.record.prepared_turn import PreparedTurn
    from jacquard.turns.compose import EngineParts
    from jacquard.turns.engine import ContextEngine
    from jacquard.wiring.factory import create_context_engine
    from jacquard.wiring.runtime import Workshop, open_workshop

_HOMES = {
    "BudgetConfig": "jacquard.config.sections",
    "BudgetExceededError": "jacquard.core.errors",
    "CommitResult": "jacquard.pipeline.record.commit",
    "ContextEngine": "jacquard.turns.engine",
    "CurationConfig": "jacquard.config.sections",
    "EngineParts": "jacquard.turns.compose",
    "HistoryConfig": "jacquard.config.sections",
    "InputTooLargeError": "jacquard.core.errors",
    "JacquardError": "jacquard.core.errors",
    "LimitsConfig": "jacquard.config.sections",
    "PlanContext": "jacquard.core.plan",
    "PreparedTurn": "jacquard.pipeline.record.prepared_turn",
    "Report": "jacquard.core.receipt",
    "RuntimeConfig": "jacquard.config.sections",
    "SelectorConfig": "jacquard.config.sections",
    "Workshop": "jacquard.wiring.runtime",
    "create_context_engine": "jacquard.wiring.factory",
    "open_workshop": "jacquard.wiring.runtime",
}

__all__ = [
    "BudgetConfig",
    "BudgetExceededError",
    "CommitResult",
    "ContextEngine",
    "CurationConfig",
    "EngineParts",
    "HistoryConfig",
    "InputTooLargeError",
    "JacquardError",
    "LimitsConfig",
    "PlanContext",
    "PreparedTurn",
    "Report",
    "RuntimeConfig",
    "SelectorConfig",
    "Workshop",
    "create_context_engine",
    "open_workshop",
]


def __getattr__(name: str) -> Any:
    """Load a public name from its room."""
    if name not in _HOMES:
        raise AttributeError(f"module 'jacquard' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
