"""Every command of the guide runs as its page shows it, from what a reader has there; what cannot run is listed with a reason."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from cli_calls import call, find_command
from guide_blocks import PAGES, ROOT, Block, Command, is_console, read_blocks, read_commands
from guide_stages import STAGES, language_of, nothing, write_given_files
from packaging.requirements import Requirement
from served import serve_app
from servers.openai_server import OpenAiServer
from typer.core import TyperGroup
from typer.main import get_command
from typer.testing import CliRunner

from benchmarks.__main__ import app as benchmarks_app
from evals.app import app as evals_app
from jacquard.config.service import ServiceSettings
from jacquard.service.running.application import build_app

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
SERVING = ("jacquard operate serve", "jacquard operate mcp", "jacquard studio")
INSTALLERS = ("pip", "uvx", "pipx", "/opt/jacquard/bin/pip")
SHELL = ("mkdir", "printf", "chmod", "sh", "git", "systemctl", "systemd-run", "chown")
NOT_RUN = {
    r"jacquard .*postgresql://": "needs the reader's database server",
    r"jacquard .*s3://": "needs the reader's object storage",
    r"jacquard memory import corpus.jsonl .*--engine ray": "needs Ray, which tests/installation/test_bulk_import.py starts",
    r"jacquard operate embedder export": "needs PyTorch and a model",
    r"jacquard .*onnx:": "needs the model that the command before exports",
    r"jacquard .*(--store|--format) sample": "needs the plugin of the reader, which tests/installation builds",
    r"jacquard .*--config (settings|other)\.yaml": "needs the settings of the reader",
    r"python -m benchmarks [a-z]": "measures for minutes",
    r"python -m evals (convert|evidence)": "needs data of others; tests/evals runs it with its own",
    r"python -m evals (gate|overviews|planner|redaction|world|play|ab|units)": "takes long; tests/evals runs it",
    r"python -m evals .*sets/(locomo|kdconv)": "needs data of others",
    r"curl .*\$TOKEN": "needs the token of the command before",
    r"python -m evals .*(own:|--selector flash|out/newest|--data marks)": "needs parts of the reader; tests/evals runs each",
    r"python -m (tests|jacquard|mnemosyne)\.": "other tests run each",
    r"python (my_program|examples/)": "a program of the reader, or an example that tests/frameworks runs",
    r"pytest ": "runs tests",
    r"docker ": "there is no engine of containers in the tests",
    r"(mkdir|printf|chmod|sh|git) ": "prepares a server",
    r"(cp|systemctl|systemd-run|chown|/opt/jacquard/bin/pip) ": "needs the rights of an administrator",
    r"(uvx|pipx) ": "makes an environment; tests/installation does",
    r"make ": "sets up an environment, or runs all tests",
    r"(python3? -m venv|py -m venv|source|&|pip) ": "makes an environment; tests/installation does",
}
"""Commands that are not run, by a pattern, with the reason. Their names, options and files are checked."""


def find_reason(command: Command) -> str | None:
    """Return why a command is not run, or None if it is."""
    text = " ".join(command.words).replace(".venv/bin/", "")
    return next((reason for pattern, reason in NOT_RUN.items() if re.match(pattern, text)), None)


def parse(program: Any, words: Sequence[str]) -> None:
    """Check the name and the options of a command. Raises AssertionError, or a UsageError of the command line."""
    command, rest = program, list(words)
    context = command.context_class(command)
    while isinstance(command, TyperGroup):
        if rest and rest[0].startswith("--"):
            break
        name = rest.pop(0) if rest else ""
        command = command.get_command(context, name)
        assert command is not None, f"there is no command {name!r}"
        context = command.context_class(command, parent=context)
    _, unused, _ = command.make_parser(context).parse_args(rest)
    assert not unused, f"too many words: {unused}"


def check(command: Command) -> None:
    """Check the names, options and files of a command that is not run."""
    program, *rest = (word.removeprefix(".venv/bin/") for word in command.words)
    if program == "jacquard":
        parse(find_command(), rest)
    elif program == "make":
        assert re.search(rf"^{re.escape(rest[0])}:", MAKEFILE, re.MULTILINE), rest[0]
        assert [each for each in rest[1:] if not re.search(rf"\$\({each.partition('=')[0]}\)", MAKEFILE)] == []
    elif program in INSTALLERS:
        for word in rest:
            if not word.startswith("-") and word not in ("install", "run", "jacquard", "studio"):
                check_requirement(word)
    elif program == "docker":
        check_containers(rest)
    elif program in SHELL:
        subprocess.run(["bash", "-n", "-c", rest[0] if program == "sh" else command.text], check=True, timeout=60)
    elif program in ("python", "python3", "py") and rest[0] == "-m":
        check_module(rest[1], [word for word in rest[2:] if word != "…"])
    else:
        files = [word for word in rest if word.startswith(("tests/", "examples/", "deploy/"))]
        assert [file for file in files if not (ROOT / file).exists()] == []


def check_module(module: str, words: Sequence[str]) -> None:
    """Check the name and the options of a module that is run as a program."""
    if module in ("evals", "benchmarks"):
        parse(get_command(evals_app if module == "evals" else benchmarks_app), words)
    else:
        assert find_spec(module) is not None, module


def check_containers(words: Sequence[str]) -> None:
    """Check the files, the service and the command of `docker`."""
    assert [word for word in words if word.startswith("deploy/") and not (ROOT / word).is_file()] == []
    file = words[words.index("-f") + 1] if "-f" in words else ""
    if "exec" in words and file:
        place = list(words).index("exec") + 1
        assert words[place] in yaml.safe_load((ROOT / file).read_text(encoding="utf-8"))["services"]
        parse(find_command(), words[place + 2 :])


def check_requirement(word: str) -> None:
    """Check a requirement of `pip install`: the extras of this project exist, other packages have the version that it pins."""
    extras = PROJECT["optional-dependencies"]
    found = re.fullmatch(r"(?:\.|/path/to/checkout|jacquard_context-.*\.whl)(?:\[([\w,]+)\])?", word)
    if found:
        assert {each for each in (found[1] or "").split(",") if each} <= set(extras), word
        return
    wanted = Requirement(word)
    if wanted.name == PROJECT["name"]:
        assert wanted.extras <= set(extras), word
    elif wanted.specifier:
        text = (ROOT / "constraints.txt").read_text(encoding="utf-8") + "\n".join(itertools.chain(*extras.values()))
        assert f"{wanted.name}{wanted.specifier}" in text.replace("_", "-"), word


def run(command: Command, replacements: dict[str, str], address: str) -> None:
    """Run a command in this folder. AssertionError if it fails or prints other lines than the page shows."""
    words = [replace_names(word, replacements) for word in command.words]
    words = [word.removeprefix(".venv/bin/") for word in itertools.takewhile(lambda word: word != ">", words)]
    printed = ""
    if words[0] == "jacquard":
        path = list(itertools.takewhile(re.compile("[a-z]+$").match, words[1:]))
        command_line = next(found for end in range(len(path), 0, -1) if (found := find_command(*path[:end])))
        if any(each.name == "embedder" for each in command_line.params) and "--embedder" not in words:
            words += ["--embedder", "none"]
        printed = call(*words[1:]).output
        if words[1:3] in (["memory", "remember"], ["memory", "accept"], ["memory", "reject"]):
            replacements["3f0c…"] = re.findall(r"^[0-9a-f]{8}\S*", printed, re.MULTILINE)[0]
    elif words[:3] == ["python", "-m", "evals"]:
        words += ["--embedder", "none"] if words[3] == "run" else []
        done = CliRunner().invoke(evals_app, words[3:])
        assert done.exit_code == 0, done.output
    elif words[:3] == ["python", "-m", "benchmarks"]:
        assert CliRunner().invoke(benchmarks_app, words[3:]).exit_code == 0
    elif words[0] == "curl":
        words = [re.sub(r"http://127\.0\.0\.1:8321", address, word) for word in words]
        given = [words[0], "--fail-with-body", "-sS", *words[1:]]
        done = subprocess.run(given, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
    elif words[:3] == ["python", "-m", "zipfile"]:
        subprocess.run([sys.executable, *words[1:]], check=True, timeout=60)
    else:
        raise AssertionError(f"{words[0]}: say how it is checked")
    for line in command.shown:
        pattern = ".*".join(re.escape(part.strip()) for part in line.split("…"))
        assert not line.strip() or not printed or re.search(pattern, printed) or is_example(line), (
            f"{line}\nin\n{printed}"
        )


def is_example(line: str) -> bool:
    """Return whether a line of output has ids, dates or packages of the page's author."""
    return re.search(r"\d{8}T|sample|postgresql", line) is not None


def replace_names(word: str, replacements: dict[str, str]) -> str:
    """Return a word of a command with the names of this test."""
    for name, value in replacements.items():
        word = value if word == name else word.replace(name, value) if len(name) > 4 or "…" in name else word
    return word


WITH_COMMANDS = [page for page in PAGES if any(is_console(block) for block in read_blocks(page))]
ALTERNATIVES = {"erasure"}
"""Pages whose commands are alternatives: each runs after the preparation."""


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    commands = list(read_commands(page))
    with serve_pages(page, tmp_path) as address, model_server() as model:
        replacements = STAGES.get(page.stem, nothing)(tmp_path, language_of(page), model)
        replacements |= {
            "http://127.0.0.1:8000/v1": model,
            "http://127.0.0.1:8099/v1": model,
        }
        write_given_files(page, tmp_path)
        kept = tmp_path.with_name(f"{tmp_path.name}-kept")
        if page.stem in ALTERNATIVES:
            shutil.copytree(tmp_path, kept, symlinks=True)
        failed = []
        for block in read_blocks(page):
            write_shown_file(block, tmp_path)
            for command in (each for each in commands if each.block == block):
                if command.words[0] == "export" or not command.words:
                    continue
                try:
                    if command.text.startswith(SERVING):
                        parse(find_command(), command.words[1:])
                    elif find_reason(command):
                        check(command)
                    else:
                        run(command, replacements, address)
                except Exception as fault:
                    failed.append(f"{block.place}: $ {command.text}\n{fault}")
                if page.stem in ALTERNATIVES:
                    monkeypatch.chdir(kept)
                    shutil.rmtree(tmp_path)
                    shutil.copytree(kept, tmp_path, symlinks=True)
                    monkeypatch.chdir(tmp_path)
    if failed:
        pytest.fail("\n\n".join(failed), pytrace=False)


def write_shown_file(block: Block, folder: Path) -> None:
    """Write a file that a page shows: a block of YAML or Jinja whose first line is its path."""
    found = re.match(r"\A(?:\{# (\S+/\S+) #\}|# (\S+/\S+\.yaml))\n", block.text)
    if found and block.language in ("yaml", "jinja") and (folder / (found[1] or found[2])).parent.is_dir():
        (folder / (found[1] or found[2])).write_text(block.text, encoding="utf-8")


@contextmanager
def serve_pages(page: Path, folder: Path) -> Iterator[str]:
    """Serve an empty store if the page calls the service; give the address, or an empty text."""
    if not any(command.words[:1] == ("curl",) for command in read_commands(page)):
        yield ""
        return
    with serve_app(build_app(ServiceSettings(store=str(folder / "served"), embedder="none"))) as port:
        yield f"http://127.0.0.1:{port}"


@contextmanager
def model_server() -> Iterator[str]:
    """Give the address of a model server that writes summaries and memories."""
    with OpenAiServer("writer") as server:
        yield server.api_base


STARTS = sorted({command.text for page in PAGES for command in read_commands(page) if command.text.startswith(SERVING)})


@pytest.mark.parametrize("line", STARTS)
def test_every_service_that_is_shown_starts(line: str, tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    variables = {"PYTHONPATH": str(ROOT), "JACQUARD_SERVICE__PORT": str(port), "BROWSER": "true"}
    service = subprocess.Popen(
        [sys.executable, "-m", "jacquard", *shlex.split(line)[1:], "--embedder", "none"],
        cwd=tmp_path,
        env=os.environ | variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        if "mcp" in line:  # it ends with its client
            assert service.wait(timeout=60) == 0
            return
        for _ in range(600):
            assert service.poll() is None, service.communicate()[0]
            try:
                assert httpx.get(f"http://127.0.0.1:{port}/healthz").status_code == 200
                return
            except httpx.TransportError:
                time.sleep(0.1)
        raise AssertionError("it does not answer")
    finally:
        service.kill()
        service.communicate()


def test_no_reason_is_left_without_a_command() -> None:
    texts = [" ".join(command.words).replace(".venv/bin/", "") for page in PAGES for command in read_commands(page)]
    assert [pattern for pattern in NOT_RUN if not any(re.match(pattern, text) for text in texts)] == []
