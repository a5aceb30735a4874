"""A chat model of LangChain that answers a fixed text and keeps what it was sent."""

from __future__ import annotations

from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field


class RecordingModel(BaseChatModel):  # type: ignore[misc]
    """`received` are the messages of the newest call, also one of a copy: adapters add callbacks to a copy of the model."""

    received: list[BaseMessage] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "recording"

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        self.received[:] = messages
        return ChatResult(generations=[ChatGeneration(message=AIMessage("Noted."))])
