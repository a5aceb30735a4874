"""Laws: whatever is done to a pack, it loads or says why; and check and published schema agree."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from filament import dump_yaml, load_yaml
from mnemosyne import WorldPackError, load_world
from mnemosyne.core.faults import SourceLocation
from mnemosyne.schema.world import WorldPack
from mnemosyne.world.format.check import PackFaults, check
from mnemosyne.world.format.fields import FILES
from mnemosyne.world.scaffold import starter_files

BASE = {language: starter_files(language) for language in ("en", "zh")}
YAML_NAMES = sorted(name for name in BASE["en"] if name.endswith(".yaml"))
MANY = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=12),
    st.sampled_from(
        ["id", "$meta", "hero.health", "q_light", "axiom", "[", "a b", "{{ x }}", "(a+)+", "\x00", "\ud800"]
    ),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def load(files: dict[str, bytes]) -> WorldPack | None:
    """Return the world, or None after seeing that every fault says where it is."""
    with tempfile.TemporaryDirectory() as folder:
        for name, data in files.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        try:
            return load_world(Path(folder))
        except WorldPackError as error:
            faults = error.faults
    check_places(faults, files)
    return None


def check_places(faults: tuple[str, ...], files: dict[str, bytes]) -> None:
    assert faults
    for fault in faults:
        file, line, _ = fault.split(":", 2)
        assert file in files, fault
        assert 1 <= int(line) <= files[file].decode("utf-8", "replace").count("\n") + 2, fault


def paths(node: Any, at: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    found = [at]
    if isinstance(node, dict):
        for key, child in node.items():
            found += paths(child, (*at, key))
    elif isinstance(node, list):
        for index, child in enumerate(node):
            found += paths(child, (*at, index))
    return found


def changed(node: Any, path: tuple[str | int, ...], change: Callable[[Any], Any]) -> Any:
    if not path:
        return change(node)
    step, *rest = path
    if isinstance(node, dict):
        return {key: changed(child, tuple(rest), change) if key == step else child for key, child in node.items()}
    return [changed(child, tuple(rest), change) if index == step else child for index, child in enumerate(node)]


@MANY
@given(data=st.data())
def test_a_changed_value_never_crashes(data: st.DataObject) -> None:
    files = dict(BASE[data.draw(st.sampled_from(["en", "zh"]))])
    name = data.draw(st.sampled_from(YAML_NAMES))
    tree = load_yaml(files[name].decode())
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(paths(tree)))
        new = data.draw(values)
        tree = changed(tree, path, lambda _old, new=new: new)
    files[name] = dump_yaml(tree).encode()
    load(files)


@MANY
@given(data=st.data())
def test_changed_bytes_never_crash(data: st.DataObject) -> None:
    files = dict(BASE["zh"])
    name = data.draw(st.sampled_from(sorted(files)))
    raw = bytearray(files[name])
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(raw)))
        end = min(len(raw), start + data.draw(st.integers(0, 12)))
        piece = data.draw(
            st.one_of(
                st.binary(max_size=6),
                st.sampled_from(
                    [b"\t", b"- ", b": ", b"\n", b"---\n", b"&a ", b"*a", b"!!x ", b"[", b"{", b'"', b"|", b"?"]
                ),
            )
        )
        raw[start:end] = piece
    files[name] = bytes(raw)
    load(files)


@MANY
@given(data=st.data())
def test_lines_lost_or_doubled_never_crash(data: st.DataObject) -> None:
    files = dict(BASE["en"])
    name = data.draw(st.sampled_from(sorted(files)))
    lines = files[name].splitlines(keepends=True)
    index = data.draw(st.integers(0, len(lines) - 1))
    lines[index : index + 1] = [lines[index]] * data.draw(st.sampled_from([0, 2]))
    files[name] = b"".join(lines)
    load(files)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_schema_takes_what_loads(language: str) -> None:
    for name in YAML_NAMES:
        shape = FILES[name.partition("/")[0].removesuffix(".yaml")]
        Draft202012Validator(shape.schema()).validate(load_yaml(BASE[language][name].decode()))


@MANY
@given(data=st.data())
def test_check_and_schema_agree_on_shapes(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(YAML_NAMES))
    tree = load_yaml(BASE["en"][name].decode())
    path = data.draw(st.sampled_from(paths(tree)))
    new = data.draw(
        st.none() | st.booleans() | st.integers(-200, 200) | st.sampled_from(["", "x", "active", [], {}, ["x"]])
    )
    tree = changed(tree, path, lambda _old: new)
    shape = FILES[name.partition("/")[0].removesuffix(".yaml")]
    faults = PackFaults()
    check(shape, tree, SourceLocation(file=name), faults)
    told = [error.message for error in Draft202012Validator(shape.schema()).iter_errors(tree)]
    if told:
        assert len(faults), (json.dumps(tree, ensure_ascii=False), told)
    elif not _beyond_shape(name, path):
        assert not len(faults), json.dumps(tree, ensure_ascii=False)


def _beyond_shape(name: str, path: tuple[str | int, ...]) -> bool:
    """Say whether a value is judged by more than its shape: conditions are read, ops are looked at."""
    return any(step in path for step in ("when", "guards")) or (name == "actions.yaml" and "ops" in path)
