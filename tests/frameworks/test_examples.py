"""The examples of `examples/agents/` are run as they are, against the scripted server."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from servers.address_watch import watch_addresses

from jacquard.testing.server import ScriptedServer

FOLDER = Path(__file__).parents[2] / "examples" / "agents"
FRAMEWORKS = {
    "langchain_agent": ("langchain_openai", "weather"),
    "llamaindex_agent": ("llama_index.llms", "weather"),
    "haystack_agent": ("haystack", "weather"),
    "autogen_agent": ("autogen_agentchat", "weather"),
    "crewai_crew": ("crewai", "weather"),
    "semantic_kernel_agent": ("semantic_kernel", "TimePlugin-date"),
    "pydantic_ai_agent": ("pydantic_ai", "weather"),
    "openai_agents_agent": ("agents", "weather"),
    "agent_framework_agent": ("agent_framework", "weather"),
}
MOST_LINES = 25


def is_installed(module):
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def test_every_example_is_run():
    assert {path.stem for path in FOLDER.glob("*.py")} == FRAMEWORKS.keys()


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_an_example_is_short(name):
    lines = (FOLDER / f"{name}.py").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= MOST_LINES


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_an_example_runs_and_reaches_no_other_server(name, tmp_path):
    module, tool = FRAMEWORKS[name]
    if not is_installed(module):
        pytest.skip(f"{module} is not installed here: make test-frameworks")
    arguments = '{"city": "Oslo"}' if tool == "weather" else "{}"
    server = ScriptedServer(f"tool:{tool} {arguments}", "text:It rains in Oslo.")
    with server, watch_addresses(tmp_path / "watch") as watch:
        address = {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_BASE": server.base_url, "OPENAI_API_KEY": "none"}
        done = subprocess.run(
            [sys.executable, FOLDER / f"{name}.py"],
            env=watch.environment | address,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        assert "It rains in Oslo." in done.stdout
        assert "governed_calls=2, ungoverned_calls=0, tool_calls=1, usages=2" in done.stdout
        assert "problems=()" in done.stdout
        assert len(server.requests) == 2
        assert watch.outside() == []
