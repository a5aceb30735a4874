"""Reads RuntimeConfig from a YAML file, from the environment, or from plain values.

Every setting is read in this one module, by the fields of `jacquard.config.sections`, their types and their bounds. An
unknown name is refused with the most similar known one; all faults are reported at once, each with its place.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass, replace
from difflib import get_close_matches
from functools import cache
from math import inf
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from filament import PayloadError, load_yaml_marked
from jacquard.config.fields import find_fault, find_key_fault
from jacquard.config.sections import RuntimeConfig, credential_names, drop_secrets
from jacquard.core.errors import ConfigError
from mnemosyne.core.masking.credentials import mask_beginning, mask_credentials
from mnemosyne.schema.memory import EMPTY

MOST_NAMED = 10
"""An error of a program's values names at most so many faults; one of files and of the environment names all."""

PREFIX = "JACQUARD_"
BETWEEN = "__"
SERVICE = "service"
"""The section of the settings file and of the environment that is for the service alone (`load_section`)."""
OF_NO_ARM = frozenset({"experiments", "tags"})
"""The settings that an arm of an experiment cannot change."""
T = TypeVar("T")
_SHOWN_CHARS = 200
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|(?<=tag )\S+|(?<=alias )\S+|(?<=key )\S+(?= is)")
_KINDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


@dataclass(slots=True)
class _Reading:
    """The faults found so far; `lines` are the lines of a file by path, `names` the names of variables by path. Above `most`
    they are counted as `unnamed`.
    """

    file: str = ""
    most: float = inf
    unnamed: int = 0
    lines: Mapping[tuple[str | int, ...], int] = field(default_factory=dict)
    names: Mapping[tuple[str, ...], str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        return len(self.faults) >= self.most

    def fault(self, path: tuple[str, ...], what: str) -> None:
        if self.is_full:
            self.unnamed += 1
            return
        key = ".".join(step[:_SHOWN_CHARS] for step in path)
        if (name := self.names.get(path)) is not None:
            key = name
        line = next((self.lines[path[:n]] for n in range(len(path), -1, -1) if path[:n] in self.lines), None)
        where = "" if not self.file else self.file if line is None else f"{self.file}:{line}"
        self.faults.append(": ".join(part for part in (where, key, what) if part))

    def close(self) -> None:
        if self.faults:
            more = [f"and {self.unnamed} more faults"] if self.unnamed else []
            raise ConfigError("\n".join((*self.faults, *more)))


def load_config(
    file: str | Path | None = None, environment: Mapping[str, str] | None = None, base: RuntimeConfig | None = None
) -> RuntimeConfig:
    """Return the configuration: `base` (or the defaults), overridden by a YAML file, overridden by JACQUARD_*
    variables.

    `environment` is that of the process unless given. Raises ConfigError that lists every fault as `file:line: key:
    what` or `JACQUARD_X: what`. Reads a file, so call it off the event loop.
    """
    config = base or RuntimeConfig()
    with gather_faults() as faults:
        if file is not None:
            with faults():
                config = config_from_yaml(_read_file(Path(file)), config, file=str(file))
        with faults():
            config = config_from_environment(os.environ if environment is None else environment, config)
    return config


@contextmanager
def gather_faults() -> Iterator[Callable[[], AbstractContextManager[None]]]:
    """Give blocks whose ConfigErrors are raised as one at the end, so that all faults are reported at once."""
    faults: list[str] = []

    @contextmanager
    def block() -> Iterator[None]:
        try:
            yield
        except ConfigError as error:
            faults.append(str(error))

    yield block
    if faults:
        raise ConfigError("\n".join(faults))


def config_from_yaml(text: str, base: RuntimeConfig | None = None, *, file: str = "") -> RuntimeConfig:
    """Return `base` overridden by the settings of a YAML text; an empty text changes nothing.

    Raises ConfigError that lists every fault.
    """
    value, lines = _read_yaml(text, file)
    if isinstance(value, Mapping):
        value = {name: each for name, each in value.items() if name != SERVICE}
    reading = _Reading(file=file, lines=lines)
    config = _read_whole({} if value is None else value, reading, base)
    reading.close()
    return config


def _read_yaml(text: str, file: str) -> tuple[Any, Mapping[tuple[str | int, ...], int]]:
    try:
        return load_yaml_marked(text)
    except PayloadError as error:
        line = "" if error.line is None else f":{error.line}"
        raise ConfigError(f"{file or 'configuration'}{line}: {_explain_yaml_error(error, text)}") from None


def load_section(
    kind: type[T],
    name: str,
    file: str | Path | None = None,
    environment: Mapping[str, str] | None = None,
    options: Mapping[str, Any] = EMPTY,
) -> T:
    """Return the settings of another section of the same file (`service:`) and environment (`JACQUARD_SERVICE__PORT`).

    `options` count over the environment, the environment over the file, the file over the defaults of `kind`, a dataclass of
    fields as `jacquard.config.fields` makes them. Raises ConfigError that lists every fault. Reads a file.
    """
    values: dict[str, Any] = {}
    with gather_faults() as faults:
        if file is not None:
            with faults():
                values = _read_section_of_file(kind, name, file)
        with faults():
            section = _read_section_over(
                kind, name, values, os.environ if environment is None else environment, options
            )
    return section


def _read_section_of_file(kind: type[Any], name: str, file: str | Path) -> dict[str, Any]:
    whole, lines = _read_yaml(_read_file(Path(file)), str(file))
    reading = _Reading(file=str(file), lines=lines)
    given = whole.get(name, {}) if isinstance(whole, Mapping) else {}
    _read_section(kind, given, (name,), reading, None)
    reading.close()
    return dict(given)


def _read_section_over(
    kind: type[T], name: str, values: dict[str, Any], environment: Mapping[str, str], options: Mapping[str, Any]
) -> T:
    """Return a section of `values`, overridden by the variables of an environment, overridden by options."""
    variables = _Reading()
    prefix = f"{PREFIX}{name.upper()}{BETWEEN}"
    for variable, text in sorted(environment.items()):
        if variable.startswith(prefix):
            path = tuple(variable.removeprefix(prefix).lower().split(BETWEEN))
            variables.names = {**variables.names, (name, *path): variable}
            _put(values, path, _read_variable(path, text, variables, kind))
    for option, value in options.items():
        _put(values, tuple(option.split(".")), value)
    section = _read_section(kind, values, (name,), variables, None)
    variables.close()
    return section


def _put(tree: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for step in path[:-1]:
        below = tree.get(step)
        tree[step] = dict(below) if isinstance(below, Mapping) else {}
        tree = tree[step]
    tree[path[-1]] = value


def config_from_mapping(value: Mapping[str, Any], base: RuntimeConfig | None = None) -> RuntimeConfig:
    """Return `base` overridden by plain values, nested as the sections are.

    Raises ConfigError that names the first ten faults.
    """
    reading = _Reading(most=MOST_NAMED)
    config = _read_whole(value, reading, base)
    reading.close()
    return config


def config_from_environment(environment: Mapping[str, str], base: RuntimeConfig | None = None) -> RuntimeConfig:
    """Return `base` overridden by the variables `JACQUARD_<SECTION>__<FIELD>`
    (`JACQUARD_BUDGET__MAX_INPUT_TOKENS=4096`).

    Values are read as YAML (`4096`, `true`, `null`, `[must, high]`), those of text fields as they are. Raises
    ConfigError that lists every fault.
    """
    tree: dict[str, Any] = {}
    names: dict[tuple[str, ...], str] = {}
    reading = _Reading(names=names)
    for name, text in sorted(environment.items()):
        if not name.startswith(PREFIX) or name.startswith(f"{PREFIX}{SERVICE.upper()}{BETWEEN}"):
            continue
        path = tuple(name.removeprefix(PREFIX).lower().split(BETWEEN))
        for length in range(1, len(path) + 1):
            names.setdefault(path[:length], name)
        here = tree
        for step in path[:-1]:
            here = here.setdefault(step, {})
            if not isinstance(here, dict):
                reading.fault(path, "is set beside a variable that holds the whole section; keep one of them")
                here = {}
        here[path[-1]] = _read_variable(path, text, reading)
    config = _read_whole(tree, reading, base)
    reading.close()
    return config


def _read_file(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: is no UTF-8 text; save it as UTF-8") from error
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror or error}") from error


def _read_variable(path: tuple[str, ...], text: str, reading: _Reading, kind: Any = RuntimeConfig) -> Any:
    for step in path:
        kind = (
            section_hints(kind).get(step)
            if isinstance(kind, type) and is_dataclass(kind)
            else (get_args(kind) or (None,))[-1]
        )
    if kind == str | None and text == "null":
        return None
    if kind in (str, str | None):
        return text
    try:
        return load_yaml_marked(text)[0]
    except PayloadError as error:
        reading.fault(path, f"cannot be read: {_explain_yaml_error(error, text)}")
        return None


def _read_whole(value: Any, reading: _Reading, base: RuntimeConfig | None) -> RuntimeConfig:
    """Return the configuration; the settings of every arm are checked too, even of an arm without sessions."""
    config = _read_section(RuntimeConfig, value, (), reading, base)
    bare = replace(config, experiments=EMPTY)
    given = value.get("experiments", {}) if isinstance(value, Mapping) else {}
    for name, arms in config.experiments.items() if given else ():
        for arm, settings in arms.items():
            path = ("experiments", name, arm, "config")
            for key in OF_NO_ARM.intersection(settings.config):
                reading.fault((*path, key), "cannot be set by an arm")
            _read_section(RuntimeConfig, settings.config, path, reading, bare)
    return config


def _read_section(kind: type[T], value: Any, path: tuple[str, ...], reading: _Reading, base: T | None) -> T:
    """Return one section: the given values, and `base` or the defaults for all other fields."""
    if not isinstance(value, Mapping):
        reading.fault(path, "must be a mapping of settings")
        value = {}
    hints, known = section_hints(kind), {each.name: each for each in fields(kind)}  # type: ignore[arg-type]
    for name in value:
        if name not in known:
            hint = "" if reading.is_full else _suggest_name(str(name)[:_SHOWN_CHARS], path, known)
            reading.fault((*path, str(name)), f"is no setting{hint}")
    given = {
        name: _read_value(hints[name], value[name], (*path, name), reading, each, getattr(base, name, None))
        for name, each in known.items()
        if name in value
    }
    kept = {name: getattr(base, name) for name in known if base is not None and name not in given}
    sound = {name: each for name, each in given.items() if each is not MISSING}
    for name, each in known.items():
        if each.default is MISSING and each.default_factory is MISSING and name not in {**kept, **given}:
            reading.fault(path, f"lacks {name}")
            return base if base is not None else kind.__new__(kind)
    try:
        return kind(**{**kept, **sound})
    except ConfigError as error:  # settings that exclude each other
        reading.fault(path, str(error).removeprefix(f"{kind.__name__}: "))
        return base if base is not None else kind()


def _read_value(kind: Any, value: Any, path: tuple[str, ...], reading: _Reading, each: Field[Any], base: Any) -> Any:
    """Return the value of one field, or MISSING after recording what is wrong."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        if value is None:
            return None
        return _read_value(next(one for one in arguments if one is not NoneType), value, path, reading, each, base)
    if is_dataclass(kind):
        return _read_section(kind, value, path, reading, base)  # type: ignore[arg-type]
    if origin is tuple:
        if not isinstance(value, list | tuple):
            return _report_wrong(path, reading, value, "a list")
        return _are_all([_read_value(arguments[0], one, path, reading, each, None) for one in value], tuple)
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            return _report_wrong(path, reading, value, "a mapping")
        for key in value:
            if (fault := find_key_fault(each.metadata, str(key))) is not None:
                reading.fault((*path, str(key)), fault)
        made = {
            str(key): _read_value(arguments[1], one, (*path, str(key)), reading, each, None)
            for key, one in value.items()
        }
        return MISSING if MISSING in made.values() else made
    return _read_scalar(kind, value, path, reading, each)


def _read_scalar(kind: Any, value: Any, path: tuple[str, ...], reading: _Reading, each: Field[Any]) -> Any:
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if kind is Any:
        return value
    if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
        return _report_wrong(path, reading, value, _KINDS.get(kind, str(kind)))
    if (fault := find_fault(each.metadata, value)) is not None:
        reading.fault(path, fault)
        return MISSING
    return value


def _report_wrong(path: tuple[str, ...], reading: _Reading, value: Any, wanted: str) -> Any:
    if path and path[-1] in credential_names():
        reading.fault(path, f"must be {wanted}; put it in quotes")
    else:
        reading.fault(path, f"is {mask_beginning(repr(drop_secrets(value)), _SHOWN_CHARS)}, but must be {wanted}")
    return MISSING


def _explain_yaml_error(error: PayloadError, text: str) -> str:
    """Return why the YAML cannot be read, never with a part of a key or an address."""
    lines, names = text.splitlines(), credential_names()
    at = lines if error.line is None else lines[max(error.line - 2, 0) : error.line]
    if any(name in line for line in at for name in names):
        return "this is not YAML; put the value in quotes, and a space after the colon"
    # A value may stand any number of lines below its name, so nothing of the text is quoted where there is such a name.
    return _QUOTED.sub("…", error.reason) if any(name in text for name in names) else mask_credentials(error.reason)


def _are_all(values: list[Any], kind: type[tuple[Any, ...]]) -> Any:
    return MISSING if MISSING in values else kind(values)


@cache
def section_hints(kind: Any) -> dict[str, Any]:
    """Return the types of the fields of a section."""
    return get_type_hints(kind)


def _suggest_name(name: str, path: tuple[str, ...], known: Mapping[str, Any]) -> str:
    """Return a hint: the nearest name of this section, else the same name in another section, else all names."""
    near = get_close_matches(name.lower(), known, n=1, cutoff=0.6)
    if near:
        return f"; did you mean {near[0]!r}?"
    elsewhere = [".".join(place) for place in _paths(RuntimeConfig) if place[-1] == name and place[:-1] != path]
    if elsewhere:
        return f"; did you mean {elsewhere[0]!r}?"
    return f"; there are {', '.join(known)}"


def _paths(kind: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, hint in section_hints(kind).items():
        yield (*path, name)
        if is_dataclass(hint):
            yield from _paths(hint, (*path, name))
