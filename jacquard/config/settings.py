"""Reads RuntimeConfig from a YAML file, from the environment, or from plain values.

Every setting is read in this one module, according to the types and bounds of the fields in `jacquard.config.sections`.
If a name is unknown, the error suggests the most similar known one. All faults are reported at once, each with its place.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import field, replace
from functools import cache
from math import inf
from pathlib import Path
from typing import Any, TypeVar

from filament import PayloadError, load_yaml_marked
from jacquard.config.fields import SettingsReading, SettingWording, table_of
from jacquard.config.sections import RuntimeConfig, credential_names, drop_secrets
from jacquard.core.errors import ConfigError
from mnemosyne.core.faults import FaultList, SourceLocation, did_you_mean
from mnemosyne.core.masking.credentials import mask_beginning, mask_credentials
from mnemosyne.schema.memory import EMPTY
from mnemosyne.shapes import BROKEN, Choice, Field, KeyedValues, Record, Shape, Text
from mnemosyne.values import dataclass

MOST_NAMED = 10
"""Maximum number of faults in an error about plain values. An error about a file or the environment names all faults."""

PREFIX = "JACQUARD_"
BETWEEN = "__"
FROM_FILE = "_FILE"
"""End of the name of a variable that names the file in which a credential is (`JACQUARD_SERVICE__STORE_FILE`)."""
MOST_SECRET_BYTES = 65_536
"""Maximum size of a file with a credential."""
SERVICE = "service"
"""Name of the section of the settings file and of the environment that only the service reads (`load_section`)."""
OF_NO_ARM = frozenset({"experiments", "tags"})
"""Settings that an arm of an experiment cannot change."""
T = TypeVar("T")
_SHOWN_CHARS = 200
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|(?<=tag )\S+|(?<=alias )\S+|(?<=key )\S+(?= is)")


class _FileWording(SettingWording):
    """Sentences about values from outside: without credentials, and with the nearest name."""

    def show(self, value: Any) -> str:
        """Return the beginning of a value without credentials."""
        return mask_beginning(repr(drop_secrets(value)), _SHOWN_CHARS)

    def unknown(self, key: str, path: Any, label: str, known: tuple[str, ...], unwritten: tuple[str, ...]) -> str:
        """Return the nearest name of a section, else the same name in another section, else all names."""
        if near := did_you_mean(key[:_SHOWN_CHARS], known):
            return f"is no setting{near}"
        elsewhere = next((place for place in _list_places() if place[-1] == key and place[:-1] != path), None)
        return f"is no setting; did you mean {'.'.join(elsewhere)!r}?" if elsewhere else self.unknown_of(key, known)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Place(SourceLocation):
    """A setting in a file, or in the environment: `variables` are the names of variables by path."""

    variables: Mapping[tuple[str, ...], str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The name of the setting without numbers of list items, or that of its variable."""
        names = tuple(step[:_SHOWN_CHARS] for step in self.path if isinstance(step, str))
        return self.variables.get(names) or ".".join(names)


def _open_reading(base: Any = None, *, most: float = inf, **place: Any) -> SettingsReading:
    return SettingsReading(faults=FaultList(most=most), root=_Place(**place), wording=_WORDING, base=base)


def _close(reading: SettingsReading) -> None:
    if len(reading.faults):
        raise ConfigError("\n".join(reading.faults.sentences()))


def load_config(
    file: str | Path | None = None, environment: Mapping[str, str] | None = None, base: RuntimeConfig | None = None
) -> RuntimeConfig:
    """Return `base` (or the defaults), overridden by the YAML file `file`, and then by JACQUARD_* variables.

    If `environment` is None, the variables of the process are read. Reads a file, so call it off the event loop. Raises
    ConfigError with every fault as `file:line: key: what` or `JACQUARD_X: what`.
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
    """Yield a function. Each of its calls opens a `with` block, and a ConfigError in this block is kept for the end.

    Raises one ConfigError at the end, with the faults of all blocks.
    """
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

    `file` is the name in error messages. Raises ConfigError with every fault.
    """
    value, lines = _read_yaml(text, file)
    if isinstance(value, Mapping):
        value = {name: each for name, each in value.items() if name != SERVICE}
    return _read_whole({} if value is None else value, _open_reading(base, file=file, lines=lines))


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
    """Return the settings of the section `name`, which is not part of RuntimeConfig.

    They are read from the YAML file `file` and from variables of the environment: those of `service` are named like
    `JACQUARD_SERVICE__PORT`. `options` override the environment, which overrides the file, which overrides the defaults
    of `kind`. `kind` is a dataclass with fields of `jacquard.config.fields`. Reads a file, so call it off the event loop.
    Raises ConfigError with every fault.
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
    reading = _open_reading(file=str(file), lines=lines)
    given = whole.get(name, {}) if isinstance(whole, Mapping) else {}
    table_of(kind).read(given, (name,), reading)
    _close(reading)
    return dict(given)


def _read_section_over(
    kind: type[T], name: str, values: dict[str, Any], environment: Mapping[str, str], options: Mapping[str, Any]
) -> T:
    """Return a section of `values`, overridden by the variables of an environment, overridden by options."""
    names: dict[tuple[str, ...], str] = {}
    reading, table = _open_reading(variables=names), table_of(kind)
    prefix = f"{PREFIX}{name.upper()}{BETWEEN}"
    for variable, text in sorted(environment.items()):
        if variable.startswith(prefix):
            path = tuple(variable.removeprefix(prefix).lower().split(BETWEEN))
            secret = _secret_path(path, table)
            names[(name, *(secret or path))] = variable
            if secret is not None:
                read = _read_secret((name, *secret), variable, environment, reading)
            else:
                read = _read_variable((name, *path), text, reading, table, above=1)
            if read is not BROKEN:
                _put(values, secret or path, read)
    for option, value in options.items():
        _put(values, tuple(option.split(".")), value)
    section: T = table.read(values, (name,), reading)
    _close(reading)
    return section


def _put(tree: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for step in path[:-1]:
        below = tree.get(step)
        tree[step] = dict(below) if isinstance(below, Mapping) else {}
        tree = tree[step]
    tree[path[-1]] = value


def config_from_mapping(value: Mapping[str, Any], base: RuntimeConfig | None = None) -> RuntimeConfig:
    """Return `base` overridden by `value`: plain values, nested like the sections.

    Raises ConfigError with the first ten faults.
    """
    return _read_whole(value, _open_reading(base, most=MOST_NAMED))


def config_from_environment(environment: Mapping[str, str], base: RuntimeConfig | None = None) -> RuntimeConfig:
    """Return `base` overridden by the variables `JACQUARD_<SECTION>__<FIELD>` (`JACQUARD_BUDGET__MAX_INPUT_TOKENS=4096`).

    Values are read as YAML (`4096`, `true`, `null`, `[must, high]`), but the values of text fields are taken literally. The
    value of a credential may be in a file instead, which the variable with `_FILE` at its end names
    (`JACQUARD_SELECTOR__API_KEY_FILE`). Raises ConfigError with every fault.
    """
    tree: dict[str, Any] = {}
    names: dict[tuple[str, ...], str] = {}
    reading = _open_reading(base, variables=names)
    for name, text in sorted(environment.items()):
        if not name.startswith(PREFIX) or name.startswith(f"{PREFIX}{SERVICE.upper()}{BETWEEN}"):
            continue
        path = tuple(name.removeprefix(PREFIX).lower().split(BETWEEN))
        secret = _secret_path(path, table_of(RuntimeConfig))
        path = secret or path
        for length in range(1, len(path) + 1):
            names.setdefault(path[:length], name)
        if secret is not None:
            names[path] = name
        here = tree
        for step in path[:-1]:
            here = here.setdefault(step, {})
            if not isinstance(here, dict):
                reading.refuse(path, "is set beside a variable that holds the whole section; keep one of them")
                here = {}
        if secret is not None:
            read = _read_secret(path, name, environment, reading)
        else:
            read = _read_variable(path, text, reading, table_of(RuntimeConfig))
        if read is not BROKEN:
            here[path[-1]] = read
    return _read_whole(tree, reading)


def _read_file(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: is not UTF-8 text; save it as UTF-8") from error
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror or error}") from error


def _read_variable(
    path: tuple[str, ...], text: str, reading: SettingsReading, shape: Shape | None, *, above: int = 0
) -> Any:
    """Return the value of a variable, or BROKEN: a text literally, any other as YAML. `above`: steps above `shape`."""
    found, shape = _find_field(path[above:], shape)
    if isinstance(shape, Text | Choice):
        return None if found is not None and found.takes_null and text == "null" else text
    try:
        return load_yaml_marked(text)[0]
    except PayloadError as error:
        return reading.refuse(path, f"cannot be read: {_explain_yaml_error(error, text)}")


def _find_field(path: tuple[str, ...], shape: Shape | None) -> tuple[Field | None, Shape | None]:
    """Return (field, shape) of the setting at `path` below `shape`; None for what is not known."""
    found: Field | None = None
    for step in path:
        if isinstance(shape, Record):
            found = next((each for each in shape.fields if each.name == step), None)
            shape = None if found is None else found.shape
        else:
            found, shape = None, shape.item if isinstance(shape, KeyedValues) else None
    return found, shape


def _secret_path(path: tuple[str, ...], table: Shape) -> tuple[str, ...] | None:
    """Return the path of the credential if `path` is that of a credential with `_file` at its end, else None."""
    bare = (*path[:-1], path[-1].removesuffix(FROM_FILE.lower()))
    if bare == path or _find_field(path, table)[0] is not None:
        return None
    found = _find_field(bare, table)[0]
    return None if found is None or found.rules.get("credential") is None else bare


def _read_secret(path: tuple[str, ...], variable: str, environment: Mapping[str, str], reading: SettingsReading) -> Any:
    """Return the credential in the file that `variable` names, without the line end; BROKEN if it cannot be had."""
    if (other := variable.removesuffix(FROM_FILE)) in environment:
        return reading.refuse(path, f"is set together with {other}; unset one of them")
    file = environment[variable]
    if not file:
        return reading.refuse(path, "names no file; set it to the path of a file, or unset it")
    try:
        with Path(file).open("rb") as opened:
            content = opened.read(MOST_SECRET_BYTES + 1)
        text = content.decode("utf-8-sig").rstrip("\r\n")
    except FileNotFoundError:
        return reading.refuse(path, f"the file {file} does not exist; write the value into it, or correct the path")
    except UnicodeDecodeError:
        return reading.refuse(path, f"the file {file} is not UTF-8 text; save it as UTF-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        return reading.refuse(path, f"the file {file} cannot be read ({reason}); let the user of this process read it")
    if not text.strip():
        return reading.refuse(path, f"the file {file} is empty; write the value into it")
    if len(content) > MOST_SECRET_BYTES or "\n" in text:
        return reading.refuse(path, f"the file {file} has more than one line; keep only the value in it")
    return text


def find_variable(variable: str, environment: Mapping[str, str], *, has_file: bool) -> str:
    """Return the variable that sets a setting, '' if none does.

    If `has_file`, the setting is a credential, which may be in a file: this is returned as `NAME_FILE (PATH)`.
    """
    for name in sorted(environment):
        if name == variable or name.startswith(f"{variable}{BETWEEN}"):
            return name
    file = environment.get(f"{variable}{FROM_FILE}") if has_file else None
    return "" if file is None else f"{variable}{FROM_FILE} ({file})"


def _read_whole(value: Any, reading: SettingsReading) -> RuntimeConfig:
    """Return the configuration; the settings of every arm are checked too, even of an arm without sessions."""
    table = table_of(RuntimeConfig)
    config: RuntimeConfig = table.read(value, (), reading)
    given = value.get("experiments") if isinstance(value, Mapping) else None
    if given and isinstance(config, RuntimeConfig):
        reading.base = replace(config, experiments=EMPTY)
        for name, arms in config.experiments.items():
            for arm, settings in arms.items():
                reading.base_path = ("experiments", name, arm, "config")
                for key in OF_NO_ARM.intersection(settings.config):
                    reading.refuse((*reading.base_path, key), "cannot be set by an arm")
                table.read(settings.config, reading.base_path, reading)
    _close(reading)
    return config


def _explain_yaml_error(error: PayloadError, text: str) -> str:
    """Return the reason why the YAML cannot be read, never with a part of a key or an address."""
    lines, names = text.splitlines(), credential_names()
    at = lines if error.line is None else lines[max(error.line - 2, 0) : error.line]
    if any(name in line for line in at for name in names):
        return "this is not YAML; put the value in quotes, and a space after the colon"
    # A value may be any number of lines below its name, so nothing of the text is quoted if there is such a name.
    return _QUOTED.sub("…", error.reason) if any(name in text for name in names) else mask_credentials(error.reason)


@cache
def _list_places(kind: type = RuntimeConfig, path: tuple[str, ...] = ()) -> tuple[tuple[str, ...], ...]:
    """Return the path of every setting and section."""
    found: list[tuple[str, ...]] = []
    for each in table_of(kind).fields:
        here = (*path, each.name)
        found += [
            here,
            *(_list_places(each.shape.of, here) if isinstance(each.shape, Record) and each.shape.of else ()),
        ]
    return tuple(found)


_WORDING = _FileWording()
