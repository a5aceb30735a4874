"""`plugins`: what can be named in settings and options, and where it comes from."""

from __future__ import annotations

from collections import Counter

from jacquard.cli.shared import JsonOption, print_json, say, show
from jacquard.config.extension_points import EXTENSION_POINTS
from mnemosyne.core import codec
from mnemosyne.plugins import GUIDE, ExtensionPoint, Plugin, find_plugins


def plugins(as_json: JsonOption = False) -> None:
    """List the parts that are found by name: those that are built in, and those of installed plugins. None of them is loaded."""
    found = {point: find_plugins(point) for point in EXTENSION_POINTS}
    if as_json:
        print_json([_to_json(point, installed) for point, installed in found.items()])
        return
    for point, installed in found.items():
        show(f"{point.setting} ({point.group}): {', '.join(point.built_in)}")
        for plugin in installed:
            show(f"  {plugin.name}  {plugin.distribution} {plugin.version}  {plugin.value}")
        for fault in _faults(point, installed):
            say(f"  {fault}", "yellow")
    if not any(found.values()):
        show(f"No plugin is installed. How to write one: {GUIDE}.")


def _to_json(point: ExtensionPoint, installed: tuple[Plugin, ...]) -> dict[str, object]:
    return {
        "group": point.group,
        "setting": point.setting,
        "built_in": list(point.built_in),
        "plugins": [codec.to_plain(plugin) for plugin in installed],
        "faults": _faults(point, installed),
    }


def _faults(point: ExtensionPoint, installed: tuple[Plugin, ...]) -> list[str]:
    """Return what keeps plugins from being used by their names, one sentence a name."""
    times = Counter(plugin.name for plugin in installed)
    hidden = [f"{name!r} is the name of a built-in part, which is used" for name in times if name in point.built_in]
    return hidden + [
        f"{name!r} is provided by several plugins and cannot be used: uninstall all but one"
        for name, number in times.items()
        if number > 1 and name not in point.built_in
    ]
