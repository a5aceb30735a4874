"""Lives a tutorial: writes the files that its page shows, runs its commands in order, and compares what they print.

A page is read as its reader reads it, from an empty folder:

- A block with a title (```` ```yaml title="settings.yaml" ````) is a file. A later block with the same title replaces it.
- In a block of the language `console`, a line that begins with `$ ` is a command; the lines below it are its output. The printed
  lines must contain them in their order; `…` stands for any text. Lines of the output that the page does not show are allowed.
- A line below a command that begins with `> ` is typed into the program, which prints exactly the words that the page shows.
- A line that ends with `\\` goes on in the next one.
- `export NAME=VALUE` holds for all later commands, except for names that the walk sets itself (the address of the model).
- Commands that install something are not run.
- A service (`jacquard studio`, `jacquard operate serve`) runs until the walk is stopped, on a free port instead of 8321.

`jacquard …` and `python …` run in this process, because an import of the packages takes longer than most commands; with
`in_processes` they run as a reader runs them. All other commands are given to bash.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import shlex
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from glob import has_magic
from pathlib import Path
from typing import Self

import httpx
from typer.testing import CliRunner

from jacquard.cli.app import app

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.DOTALL | re.MULTILINE)
_ASSIGNMENT = re.compile(r"([A-Z_][A-Z0-9_]*)=(.*)", re.DOTALL)
_INSTALLING = ("pip install", "python -m venv", "git clone")
_SERVING = ("jacquard studio", "jacquard operate serve")


@dataclass(frozen=True, kw_only=True)
class WrittenFile:
    """A file that the page shows."""

    path: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command of the page, with the lines that the page shows of its output."""

    words: str
    shown: tuple[str, ...]

    @property
    def typed(self) -> tuple[str, ...]:
        """Return the lines that are typed into the program while it runs."""
        return tuple(line.removeprefix(">").strip() for line in self.shown if line == ">" or line.startswith("> "))


def read_page(page: Path) -> tuple[WrittenFile | Command, ...]:
    """Return the files and commands of a page, in its order."""
    found: list[WrittenFile | Command] = []
    for language, title, text in _FENCE.findall(page.read_text(encoding="utf-8")):
        if title:
            found.append(WrittenFile(path=title, text=text))
        elif language == "console":
            found += _read_console(text.replace("\\\n", " "))
    return tuple(found)


def _read_console(text: str) -> Iterator[Command]:
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        words, *shown = part.rstrip("\n").split("\n")
        yield Command(words=words.strip(), shown=tuple(line.strip() for line in shown if line.strip(" …")))


@dataclass(kw_only=True)
class Walk:
    """One walk through a page, in a folder of its own."""

    folder: Path
    set_by_walk: Mapping[str, str] = field(default_factory=dict)
    """Variables that the walk sets in place of the page."""
    in_processes: bool = False
    environment: dict[str, str] = field(default_factory=dict)
    outputs: list[tuple[str, str]] = field(default_factory=list)
    """Each command with all that it printed, in order."""
    address: str = ""
    """Address of the service that was started last."""
    _services: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the services, as Ctrl+C does."""
        while self._services:
            service = self._services.pop()
            service.send_signal(signal.SIGINT)
            service.wait(timeout=60)

    def live(self, page: Path) -> None:
        """Do what the page shows. AssertionError if a command prints other lines than the page shows."""
        self.environment |= self.set_by_walk
        steps = read_page(page)
        assert steps, f"{page.name} has no step"
        with _working_in(self.folder):
            for step in steps:
                if isinstance(step, WrittenFile):
                    file = self.folder / step.path
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_text(step.text, encoding="utf-8")
                elif not step.words.startswith(_INSTALLING):
                    self._do(step, page)

    def find_output(self, words: str) -> str:
        """Return the output of the only command that contains `words`."""
        (found,) = [printed for command, printed in self.outputs if words in command]
        return found

    def _do(self, command: Command, page: Path) -> None:
        if command.words.startswith("export "):
            for word in shlex.split(command.words)[1:]:
                name, value = word.split("=", 1)
                self.environment[name] = self.set_by_walk.get(name, value)
            return
        if command.words.startswith(_SERVING):
            code, printed = self._serve(command.words)
        else:
            code, printed = self._run(command)
        self.outputs.append((command.words, printed))
        place = f"{page.parent.parent.name}/{page.name}: $ {command.words}\n"
        may_fail = any(line.startswith(("error:", "错误：")) for line in command.shown)
        assert (code == 0) is not may_fail, f"{place}ended with {code}:\n{printed}"
        if command.typed:
            assert printed.split() == " ".join(command.shown).split(), f"{place}printed other lines:\n{printed}"
            return
        missing = find_missing_line(command.shown, printed)
        assert missing is None, f"{place}did not print, after the lines before it:\n{missing}\nbut:\n{printed}"

    def _run(self, command: Command) -> tuple[int, str]:
        words = command.words
        given = shlex.split(words)
        variables = dict(self.environment)
        while given and (set_here := _ASSIGNMENT.fullmatch(given[0])):
            variables[set_here[1]] = set_here[2]
            given.pop(0)
        if self.in_processes or given[0] not in ("jacquard", "python"):
            return self._run_process(words)
        arguments = [name for word in given[1:] for name in self._expand(word)]
        with _variables(variables):
            if given[0] == "jacquard":
                done = CliRunner().invoke(app, arguments)
                told = "".join(traceback.format_exception(*done.exc_info)) if done.exit_code and done.exc_info else ""
                return done.exit_code, done.output + ("" if "SystemExit" in told else told)
            return _run_python(arguments, self.folder, command.typed)

    def _expand(self, word: str) -> list[str]:
        """Return the files that a pattern names, as a shell does: the pattern itself if there are none."""
        files = sorted(self.folder.glob(word)) if has_magic(word) and not Path(word).is_absolute() else []
        return [str(file.relative_to(self.folder)) for file in files] or [word]

    def _serve(self, words: str) -> tuple[int | None, str]:
        """Start a service and wait until it answers or ends. Return (exit code, what it has printed); 0 if it runs."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.address = f"http://127.0.0.1:{port}"
        variables = {"PYTHONPATH": str(ROOT), "JACQUARD_SERVICE__PORT": str(port), "BROWSER": "true"}
        log = self.folder / f"service-{port}.log"
        with log.open("wb") as screen:
            service = subprocess.Popen(
                [sys.executable, "-m", "jacquard", *self._name_upstream(shlex.split(words)[1:])],
                cwd=self.folder,
                env={**os.environ, **variables, **self.environment},
                stdout=screen,
                stderr=subprocess.STDOUT,
            )
        self._services.append(service)
        while service.poll() is None:
            with contextlib.suppress(httpx.TransportError):
                httpx.get(f"{self.address}/healthz")
                return 0, log.read_text(encoding="utf-8")
            time.sleep(0.05)
        return service.returncode, log.read_text(encoding="utf-8")

    def _name_upstream(self, arguments: list[str]) -> list[str]:
        """Return the arguments with the address of the walk's model behind `--upstream`, if the walk sets one."""
        place = arguments.index("--upstream") + 1 if "--upstream" in arguments else 0
        upstream = self.set_by_walk.get("upstream")
        return [*arguments[:place], upstream, *arguments[place + 1 :]] if place and upstream else arguments

    def _run_process(self, words: str) -> tuple[int, str]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        variables = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": path, **self.environment}
        done = subprocess.run(
            ["bash", "-c", words],
            cwd=self.folder,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )
        return done.returncode, done.stdout


def find_missing_line(shown: Sequence[str], printed: str) -> str | None:
    """Return the first of the shown lines that the printed text does not have below the ones before it; None if it has all."""
    lines = iter(line.strip() for line in printed.splitlines())
    for line in shown:
        pattern = re.compile(".*".join(map(re.escape, line.split("…"))))
        if not any(pattern.fullmatch(each) for each in lines):
            return line
    return None


class _Keyboard(io.StringIO):
    """Lines that a reader types; each appears on the screen, as on a terminal."""

    def __init__(self, lines: Sequence[str], screen: io.StringIO) -> None:
        super().__init__("".join(f"{line}\n" for line in lines))
        self._screen = screen

    def readline(self, size: int | None = -1, /) -> str:
        """Return the next line, and print it."""
        line = super().readline(-1 if size is None else size)
        self._screen.write(line)
        return line


def _run_python(arguments: Sequence[str], folder: Path, typed: Sequence[str]) -> tuple[int, str]:
    """Run `python FILE …` or `python -m MODULE …` in this process. Return (exit code, all that it printed)."""
    printed, before = io.StringIO(), (sys.argv, sys.path[:], sys.stdin)
    sys.stdin = _Keyboard(typed, printed)
    is_module = arguments[0] == "-m"
    sys.argv = list(arguments[1:] if is_module else arguments)
    sys.path.insert(0, str(folder))
    # A file that the page replaces within a second, by one of the same size, would be taken from the cache.
    written, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    code: int | str | None = 0
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            if is_module:
                # Another test may have imported it, of which runpy warns.
                sys.modules.pop(f"{arguments[1]}.__main__", None)
                runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(arguments[0], run_name="__main__")
    except SystemExit as end:
        code = end.code
    except Exception:
        code = 1
        printed.write(traceback.format_exc())
    finally:
        sys.argv, sys.path[:], sys.stdin = before
        sys.dont_write_bytecode = written
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None) or "").startswith(str(folder)):
                del sys.modules[name]
    return code if isinstance(code, int) else int(code is not None), printed.getvalue()


@contextlib.contextmanager
def _working_in(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@contextlib.contextmanager
def _variables(variables: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
