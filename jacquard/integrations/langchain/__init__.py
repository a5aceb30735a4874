"""LangChain and LangGraph: a middleware for `create_agent`, a model for chains without an agent, a retriever over our recall."""

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
