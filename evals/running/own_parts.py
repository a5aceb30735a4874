"""Retrievers and selectors of other people: parts of plugins, and objects named as `module:attribute`.

A part that breaks a numbered rule of its Protocol ends the run, with a sentence that names the rule.
"""

from __future__ import annotations

import hashlib
import inspect
import traceback
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path
from typing import Any

from evals.errors import PartError, SetupError
from jacquard import (
    Selection,
    SelectionContext,
    SelectionRequest,
    Selector,
    SelectorError,
)
from jacquard.config.extension_points import SELECTORS
from mnemosyne import (
    Recall,
    RetrievalQuery,
    Retriever,
)
from mnemosyne.core.errors import PluginError
from mnemosyne.plugins import GUIDE, ExtensionPoint, find_missing_members, find_plugins, open_plugin, split_name

MOST_SHOWN = 60
"""Characters of an input in a sentence."""

OpenPart = Callable[..., Any]
"""Makes a part; its arguments are the options of the factory."""


RUN_SELECTORS = replace(SELECTORS, setting="--selector", built_in=(*SELECTORS.built_in, "oracle"))


def find_part(point: ExtensionPoint, written: str) -> OpenPart:
    """Return what opens the part that `written` names: `NAME` or `NAME:ARGUMENT` of a plugin, or `MODULE:ATTRIBUTE`.

    Raises:
        SetupError: if there is no such plugin, module or attribute, or if `written` gives a built-in part an argument.
    """
    name, argument = split_name(written)
    if name in point.built_in:
        raise SetupError(f"{point.setting}: {name} takes no argument, but is written {written!r}.")
    if any(plugin.name == name for plugin in find_plugins(point)):
        return partial(_open_plugin, point, name, argument)
    if not argument or not name.replace(".", "_").isidentifier():
        raise SetupError(f"{_explain_unknown(point, name)}")
    return partial(_open_attribute, point, written, _import_attribute(point, written))


def describe_origin(point: ExtensionPoint, written: str) -> str:
    """Return what distinguishes two versions of a named part: the version of its plugin, or the hash of its module's file.

    Return '' for a built-in part, and for a part that cannot be found.
    """
    name, argument = split_name(written)
    if name in point.built_in:
        return ""
    for plugin in find_plugins(point):
        if plugin.name == name:
            return f"{plugin.distribution} {plugin.version}"
    try:
        spec = find_spec(name) if argument else None
        file = Path(spec.origin) if spec is not None and spec.origin else None
        return "" if file is None else f"sha256 {hashlib.sha256(file.read_bytes()).hexdigest()[:16]}"
    except Exception:  # the package around the module may fail in any way; opening the part says how
        return ""


class CheckedSelector:
    """Selector that ends the run if the selector of an evaluator breaks a rule; a SelectorError is a result of its query."""

    def __init__(self, selector: Selector, written: str) -> None:
        self.name = selector.name
        self._selector = selector
        self._written = f"--selector {written}"

    async def select(self, request: SelectionRequest, context: SelectionContext | None = None) -> Selection:
        """Return the selection. Raises PartError if it is not one, and SelectorError as the selector does."""
        shown = request.user_message
        call = partial(self._selector.select, request, context)
        selection: Selection = await _call(self._written, "select", call, Selection, shown)
        known = {each.name for each in request.candidates} | {each.entry_id for each in request.candidates}
        chosen = selection.entry_ids
        faults = {
            "ids that are not candidates": set(chosen) - known,
            "ids twice": {each for each in chosen if chosen.count(each) > 1},
            f"more than {request.limit} ids": set(chosen[request.limit :]),
        }
        _refuse(self._written, "Selector", shown, faults)
        return selection


class CheckedRetriever:
    """Retriever that ends the run if the retriever of an evaluator breaks a rule."""

    def __init__(self, retriever: Retriever, written: str) -> None:
        self._retriever = retriever
        self._written = f"--retriever {written}"

    async def sync(self, scope: str, progress: Callable[[int, int], None]) -> None:
        """Let the retriever index a scope, if it has something to index."""
        sync = getattr(self._retriever, "sync", None)
        if sync is not None:
            await _call(self._written, "sync", partial(sync, scope, progress), object, scope)

    async def recall(self, query: RetrievalQuery) -> Recall:
        """Return the candidates. Raises PartError if they are not a recall."""
        recall: Recall = await _call(
            self._written, "recall", partial(self._retriever.recall, query), Recall, query.text
        )
        ids = [each.entry_id for each in recall.candidates]
        faults = {
            "ids twice": {each for each in ids if ids.count(each) > 1},
            f"more than {query.limit} candidates": set(ids[query.limit :]),
            "excluded ids": {
                each.entry_id for each in recall.candidates if each.entry_id in query.excluded_ids(each.scope)
            },
        }
        _refuse(self._written, "Retriever", query.text, faults)
        return recall


async def _call(written: str, method: str, call: Callable[[], Any], expected: type, shown: str) -> Any:
    """Await a method of an evaluator's part; PartError if it fails, does not wait, or returns something else."""
    where = f"{written}, on the input {_shorten(shown)}"
    try:
        found = call()
        result = await found if isinstance(found, Awaitable) else found
    except SelectorError:
        raise
    except Exception as error:
        raise PartError(f"{where}: {method} failed ({_describe(error)}).") from error
    if not isinstance(found, Awaitable):
        raise PartError(f"{where}: {method} is not awaited; write `async def {method}`.")
    if not isinstance(result, expected):
        raise PartError(f"{where}: {method} returned {type(result).__name__}; it must return a {expected.__name__}.")
    return result


def _refuse(written: str, protocol: str, shown: str, faults: Mapping[str, set[str]]) -> None:
    for fault, ids in faults.items():
        if ids:
            some = ", ".join(sorted(ids)[:3])
            raise PartError(
                f"{written}, on the input {_shorten(shown)}: the result has {fault} ({some}); rule 1 of {protocol} forbids that."
            )


def _open_plugin(point: ExtensionPoint, name: str, argument: str, **options: Any) -> Any:
    try:
        return open_plugin(point, name, argument, **options)
    except PluginError as error:
        raise SetupError(str(error)) from error


def _open_attribute(point: ExtensionPoint, written: str, found: Any, **options: Any) -> Any:
    """Return the part that a module's attribute is, or that it makes if it is a class or a function."""
    part = found
    if isinstance(found, type) or (callable(found) and find_missing_members(point.part, found)):
        part = _make(point, written, found, options)
    if missing := find_missing_members(point.part, part):
        raise SetupError(
            f"{point.setting}: {written} is not a {point.part.__name__}: {_name_kind(part)} lacks {', '.join(missing)} "
            f"(see {GUIDE})."
        )
    return part


def _make(point: ExtensionPoint, written: str, factory: Callable[..., Any], options: Mapping[str, Any]) -> Any:
    for arguments, named in ((("",), options), ((), {})):
        try:
            inspect.signature(factory).bind(*arguments, **named)
        except (TypeError, ValueError):
            continue
        try:
            return factory(*arguments, **named)
        except Exception as error:
            raise SetupError(f"{point.setting}: {written} cannot be opened ({_describe(error)}).") from error
    keywords = ", ".join(f"{name}=…" for name in options)
    raise SetupError(
        f"{point.setting}: {written} cannot be called as {point.factory.__name__} ('', {keywords}), nor without arguments; "
        f"name a {point.part.__name__} or what makes one (see {GUIDE})."
    )


def _import_attribute(point: ExtensionPoint, written: str) -> Any:
    name, attribute = split_name(written)
    try:
        module = import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise SetupError(_explain_unknown(point, name)) from error
        raise SetupError(f"{point.setting}: the module {name} cannot be imported ({_describe(error)}).") from error
    except Exception as error:
        raise SetupError(f"{point.setting}: the module {name} cannot be imported ({_describe(error)}).") from error
    try:
        return attrgetter(attribute)(module)
    except AttributeError as error:
        own = [each for each, value in vars(module).items() if getattr(value, "__module__", None) == name]
        others = [each for each, value in vars(module).items() if not find_missing_members(point.part, value)]
        names = ", ".join(sorted({each for each in (*own, *others) if not each.startswith("_")})) or "nothing"
        raise SetupError(f"{point.setting}: the module {name} has no {attribute!r}; it has: {names}.") from error


def _explain_unknown(point: ExtensionPoint, name: str) -> str:
    known = ", ".join(sorted({*point.built_in, *(each.name for each in find_plugins(point))}))
    return (
        f"{point.setting}: there is no {point.kind} {name!r}; known: {known}. Plugins bring others (entry points in the group "
        f"{point.group!r}, see {GUIDE}). Your own is written MODULE:ATTRIBUTE; the module lies in the folder where you give "
        "the command, or is installed."
    )


def _name_kind(part: Any) -> str:
    return f"the module {part.__name__}" if inspect.ismodule(part) else f"{type(part).__name__}"


def _describe(error: BaseException) -> str:
    """Return the kind and text of an error, with the place in the code that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f", {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}: {' '.join(str(error).split())}{place}"


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return repr(line if len(line) <= MOST_SHOWN else line[: MOST_SHOWN - 1] + "…")
