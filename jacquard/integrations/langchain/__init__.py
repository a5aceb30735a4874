"""Connects LangChain and LangGraph with an engine.

`ContextMiddleware` is for agents (`create_agent`), and `ContextModel` is for chains without an agent.
`ContextRetriever` searches the memory of a session. `DocumentRecorder` stores the documents that other retrievers
found.
"""

from __future__ import annotations

from jacquard.integrations.langchain.agent import (
    REQUIREMENT,
    ContextMiddleware,
    ContextRetriever,
    DocumentRecorder,
    LangChainMapper,
)
from jacquard.integrations.langchain.chain import ContextModel

__all__ = [
    "REQUIREMENT",
    "ContextMiddleware",
    "ContextModel",
    "ContextRetriever",
    "DocumentRecorder",
    "LangChainMapper",
]
