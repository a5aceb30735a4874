"""Provides the parts that all commands share: options, output, the running of async work, and sentences for errors."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path
from traceback import extract_tb
from typing import Annotated, Any, TypeVar

import anyio
import typer
from rich.text import Text

from filament import FilamentError
from jacquard.cli.language import speak
from jacquard.cli.terminal import TerminalConsole
from jacquard.config.sections import RuntimeConfig
from jacquard.config.settings import config_from_mapping, load_config
from jacquard.core.errors import ConfigError, JacquardError
from jacquard.wiring.runtime import Runtime, open_runtime
from mnemosyne.core import codec
from mnemosyne.core.errors import MnemosyneError, SessionNotFoundError
from mnemosyne.core.masking.controls import escape_json_controls, show_controls
from mnemosyne.core.masking.credentials import mask_credentials
from mnemosyne.stores.locate import DEFAULT_TENANT, mask_passwords
from mnemosyne.values import dataclass

T = TypeVar("T")

StoreOption = Annotated[
    str,
    typer.Option(
        "--store",
        metavar="URL",
        help="A folder, sqlite:///FILE, file:FOLDER (JSON files), postgresql://USER:PASSWORD@HOST/DATABASE, memory:, or NAME:… of "
        "a plugin (`jacquard operate plugins`). [service.store of the settings, else .jacquard]",
    ),
]
DEFAULT_STORE = ""
"""Default of `--store`. No command receives this value, because `store_options` replaces it by the store of the
settings.
"""
SessionOption = Annotated[str, typer.Option("--session", "-s", metavar="ID", help="The session to work on.")]
WorldOption = Annotated[
    Path | None,
    typer.Option("--world", "-w", metavar="DIR", help="The world pack; needed when the session starts from it."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON alone on standard output.")]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Settings in YAML; JACQUARD_* variables override them, options of the command override both.",
    ),
]
BranchOption = Annotated[
    str | None, typer.Option("--branch", metavar="NAME", help="A branch other than the active one.")
]
EmbedderOption = Annotated[
    str,
    typer.Option(
        "--embedder",
        metavar="NAME",
        help="`auto` (a model that is installed, else words alone), `none`, a Python package that carries a model, a model "
        "folder, or a remote model as litellm names it (`openai/…`), with its address where it needs one: "
        "`openai/NAME@http://127.0.0.1:8080/v1`; or the name of a plugin.",
    ),
]
TokenEstimatorOption = Annotated[
    str | None,
    typer.Option(
        "--token-estimator",
        metavar="NAME",
        help="What counts tokens: `estimate` (by rules), `tiktoken:ENCODING` or `tiktoken:MODEL`, `tokenizer:FILE` (a "
        "tokenizer.json), or the name of a plugin. tiktoken downloads an encoding that neither litellm nor TIKTOKEN_CACHE_DIR "
        "holds, if that variable is set. [estimate]",
    ),
]

_MOST_NOTES = 10

out = TerminalConsole(highlight=False, soft_wrap=True)
err = TerminalConsole(stderr=True, highlight=False, soft_wrap=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class ChosenStore:
    """Store that the running command works on, and the tenant in it."""

    address: str
    place: str
    """Source of the address: the variable or the file that names it, 'default', or '' if `--store` names it."""
    config: Path | None
    tenant: str


CHOSEN: ContextVar[ChosenStore | None] = ContextVar("store", default=None)
"""Store of the running command. `store_options` sets it before a command with the option `--store` runs."""


def chosen_tenant() -> str:
    """Return the tenant that `--tenant` names, else the default tenant."""
    chosen = CHOSEN.get()
    return DEFAULT_TENANT if chosen is None else chosen.tenant


@asynccontextmanager
async def open_store(store: str, *, config: RuntimeConfig | None = None, **options: Any) -> AsyncIterator[Runtime]:
    """Open the runtime of a store like `open_runtime`, with the tenant and the settings of the command line.

    If `config` is given, it replaces the settings of the command line. When the runtime is closed, damaged records that
    were skipped are named on standard error.
    """
    settings = load_configuration() if config is None else config
    async with open_runtime(store, tenant=chosen_tenant(), config=settings, **options) as runtime:
        try:
            yield runtime
        finally:
            notes = runtime.store.damage_log.since()
            for note in notes[:_MOST_NOTES]:
                say(f"damaged: {note.sentence}", "yellow")
            if len(notes) > _MOST_NOTES:
                say(f"damaged: {len(notes) - _MOST_NOTES} more records; `jacquard operate check` names them.", "yellow")


def load_configuration(given: Mapping[str, Any] | None = None, *, file: Path | None = None) -> RuntimeConfig:
    """Return the settings of a turn. They come from a settings file. The environment overrides the file, and `given`
    overrides both.

    The settings file is `file` (None: the file of `--config`). `given` is nested like the sections; a value of None
    counts as not given. Exits with code 2 if a setting is wrong.
    """
    chosen = CHOSEN.get()
    if file is None and chosen is not None:
        file = chosen.config
    try:
        return config_from_mapping(_nest_options(given or {}), load_config(file))
    except ConfigError as error:
        raise fail(str(error), code=2) from error


def _nest_options(given: Mapping[str, Any]) -> dict[str, Any]:
    nested = {key: _nest_options(value) if isinstance(value, Mapping) else value for key, value in given.items()}
    return {key: value for key, value in nested.items() if value is not None and value != {}}


def clean(text: str) -> str:
    """Return `text` with control and direction characters made visible; line breaks and tabs stay."""
    return show_controls(text)


def say(text: str, style: str = "") -> None:
    """Print a line for a person on standard error, in the chosen language if it is one of ours."""
    err.print(Text(clean(speak(text)), style=style))


def show(text: str | Text, style: str = "") -> None:
    """Print `text` for a person on standard output. Square brackets in it are printed, never read as markup."""
    out.print(Text(clean(text), style=style) if isinstance(text, str) else text)


def tell(line: str, style: str = "") -> None:
    """Print a line of ours for a person on standard output, in the chosen language."""
    show(speak(line), style)


def print_json(value: Any) -> None:
    """Print one JSON document on standard output, with control characters escaped."""
    text = escape_json_controls(codec.encode(value).decode("utf-8"))
    sys.stdout.buffer.write(text.encode("utf-8") + b"\n")
    sys.stdout.flush()


def name_store() -> None:
    """Print the address of the command's store on standard error, unless `--store` names the store."""
    if (chosen := CHOSEN.get()) is not None and chosen.place:
        say(f"store: {mask_credentials(mask_passwords(chosen.address))} ({chosen.place})", "dim")


def run(work: Callable[[], Awaitable[T]]) -> T:
    """Print the address of the command's store, run the async function `work`, and return its result.

    An error is printed as one message on standard error, and the command exits with code 1 (130 after Ctrl-C).
    """
    name_store()
    try:
        return anyio.run(work)
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except Exception as error:
        found = leaves(error)
        if (left := next((leaf for leaf in found if isinstance(leaf, typer.Exit)), None)) is not None:
            raise left from error
        raise fail("\n".join(dict.fromkeys(map(sentence, found)))) from error
    except KeyboardInterrupt:
        raise fail("Stopped. What was finished is kept; run the same command to go on.", code=130) from None


def sentence(error: BaseException) -> str:
    """Return the message of `error` for a person.

    If the error is unexpected, the message contains its class and the lines that raised it.
    """
    if isinstance(error, SessionNotFoundError):
        return f"{error} `jacquard play weave` starts it with --world DIR, or with --profile assistant."
    if isinstance(error, JacquardError | MnemosyneError | FilamentError):
        return str(error)
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return mask_credentials(f"{where}{error.strerror or error}")
    places = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in extract_tb(error.__traceback__)]
    said = " ".join(mask_credentials(str(error)).split())
    return (
        f"A fault of jacquard itself, or something damaged that it did not recognise: {type(error).__name__}: {said} "
        f"({' < '.join(places[:-4:-1])}). Please report it with this line."
    )


def read_text(file: Path) -> str:
    """Return the text of `file`. Exits with code 1 and an error if the file cannot be read or is not UTF-8."""
    return _decode_text(read_bytes(file), str(file))


def read_bytes(file: Path) -> bytes:
    """Return the content of `file`. Exits with code 1 and an error if the file cannot be read."""
    try:
        return file.read_bytes()
    except OSError as error:
        raise fail(f"{file}: cannot be read: {error.strerror or error}.") from error


def read_input() -> str:
    """Return the text of standard input. Exits with code 1 and an error if the input is not UTF-8."""
    return _decode_text(sys.stdin.buffer.read(), "standard input")


def _decode_text(data: bytes, name: str) -> str:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise fail(f"{name}:{line}: byte {error.start} is not UTF-8 text; save it as UTF-8.") from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def leaves(error: BaseException) -> list[BaseException]:
    """Return the single errors inside of an exception group. An error that is not a group is returned by itself."""
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for each in error.exceptions for leaf in leaves(each)]


def fail(message: str, code: int = 1) -> typer.Exit:
    """Print `message` as an error on standard error. Return an exit with the exit code `code`; the caller raises it."""
    for place, line in enumerate(mask_credentials(message).splitlines() or [""]):
        told = speak(line)
        say(f"error: {told}" if place == 0 else f"       {told}", style="bold red" if place == 0 else "red")
    return typer.Exit(code)
