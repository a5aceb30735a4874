"""The contract suite of `AgentFrameworkAdapter`, with a toy framework: it runs where no agent framework is installed."""

from __future__ import annotations

from toy_framework import ToyAgent

from jacquard.testing.framework import FrameworkContract


class TestToyFramework(FrameworkContract):
    def make_agent(self, setup):
        return ToyAgent(setup)

    def resume_without_adapter(self, agent):
        return agent.without_adapter()
