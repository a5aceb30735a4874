"""The sandbox: what is printed is safe, what is asked for is bounded, what is wrong is named."""

from __future__ import annotations

import json
import os
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from time import thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[1] / "attack"))

from raw_search import bytes_of_object

from filament import clean_text, load_yaml, unescape
from jacquard.core.errors import TemplateError
from jacquard.templating import (
    describe_template_faults,
    find_shipped_templates,
    open_templates,
    template_set,
    validate_templates,
)
from jacquard.templating.files import TemplateFile
from jacquard.templating.sandbox import SandboxRenderer
from jacquard.templating.sets import RenderedTexts, TemplateSet, forget_rendered_texts

LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
TREES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "t").mkdir()
    return tmp_path


def write(folder: Path, name: str, source: str) -> TemplateSet:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source, encoding="utf-8")
    return open_templates([folder])


def render(folder: Path, source: str, **variables: object) -> str:
    return write(folder, "t/a.j2", source).render("t/a.j2", variables)


# --- what is printed


@given(LEAVES)
def test_a_printed_leaf_is_one_safe_line_that_reads_back(value):
    shown = _render_once("<a>v: {{ x }}</a>", x=value)
    body = ElementTree.fromstring(shown).text
    assert body is not None
    assert "\n" not in shown
    assert load_yaml(unescape(shown[3:-4])) == {"v": _readable(value)}


@given(st.text())
def test_a_printed_leaf_is_safe_in_flow_too(value):
    assert load_yaml(unescape(_render_once("{a: {{ x }}, b: [{{ x }}, 1]}", x=value))) == {
        "a": _readable(value),
        "b": [_readable(value), 1],
    }


@given(TREES)
def test_a_yaml_body_reads_back_and_indents(value):
    shown = _render_once("k:\n{{ x | yaml(4) }}", x=[value])
    assert "<" not in shown
    assert all(not line or line.startswith("    ") for line in shown.split("\n")[1:])


@given(st.text(), st.text())
def test_prose_and_attributes_stay_where_they_are(text, name):
    shown = _render_once('<a n="{{ n | attr }}">{{ x | text }}</a>', x=text, n=name)
    element = ElementTree.fromstring(shown)
    assert (element.text or "") == clean_text(text)
    assert element.attrib["n"] == clean_text(name)


JOINS = r"""
{{ a ~ b }}
{{ (a | text) ~ b }}
{{ (a | yaml) + b }}
{{ [a | text, b] | join(b) }}
{{ (a | text) | upper }}
{{ (a | text)[:3] }}
{{ (a | attr).split(b)[0] if b else '' }}
{% set x %}{{ a }}{{ b }}{% endset %}{{ x }}
{% macro m(v) %}{{ v }}{% endmacro %}{{ m(a) }}{{ m(b) | replace('&', b) }}
{{ a | replace('a', b | text) }}
{% print a %}{% print [a | text, b] | last %}
{{ {'k': a | text}.k }}
{{ (a | text) | default(b) | trim }}
{% macro m(x) %}<i>{{ caller(x) }}</i>{% endmacro %}{% call(v) m(b) %}{{ v }}{% endcall %}
{{ a | truncate(5) }}
{{ (a | text)[1:4:2] }}{{ (b | text)[-1] }}
{{ (a | text) ~ (b | attr) ~ a }}
{{ [a, b | text] | map('upper') | join }}
{% for c in a | text %}{{ c }}{% endfor %}
{% set ns = namespace() %}{% set ns.x = a %}{% set ns.y %}{{ b }}{% endset %}{{ ns.x }}{{ ns.y }}
""".strip().split("\n")


@given(st.text(), st.text())
@pytest.mark.parametrize("source", JOINS)
def test_no_way_of_joining_opens_a_tag(source, a, b):
    ElementTree.fromstring(f"<r>{_render_once(source, a=a + '<b>&', b=b + '</r>]]>')}</r>")


def test_macros_blocks_and_super_print_once_escaped(folder):
    write(folder, "t/base.j2", "{% block x %}<i>{{ v }}</i>{% endblock %}")
    assert (
        render(folder, '{% extends "base.j2" %}{% block x %}[{{ super() }}]{% endblock %}', v="a<b")
        == "[<i>a&lt;b</i>]"
    )
    assert render(folder, "{% macro m(x) %}<b>{{ x }}</b>{% endmacro %}{{ m(v) }}", v="&") == '<b>"&amp;"</b>'
    assert render(folder, "{% set s %}<b>{{ v }}</b>{% endset %}{{ s }}{{ s }}", v="a<") == "<b>a&lt;</b>" * 2


def test_what_is_printed_is_never_read_again(folder):
    assert render(folder, "{{ x | text }}", x="{{ 7*7 }}{% if %}{# #}") == "{{ 7*7 }}{% if %}{# #}"


def test_descriptions_and_marks_of_the_state(folder):
    state = {"health": [85, "受伤"], "$meta": {"limits": {"health": [0, 100]}}}
    assert render(folder, "{{ s | yaml }}|{{ s.health | value }}", s=state) == "health: 85 (受伤)|85"


def test_a_key_comes_before_a_method(folder):
    assert render(folder, "{{ b.items[0] }} {{ b.missing is defined }}", b={"items": [7]}) == "7 false"
    assert render(folder, "{% for k, v in b.items() %}{{ k }}{% endfor %}", b={"z": 1, "a": 2}) == "za"


# --- what is refused

BOMBS = r"""
{{ 'a' * 50000000 }}
{{ ['a'] * 50000000 }}
{{ 50000000 * 'a' }}
{{ 9 ** 9 ** 9 }}
{{ 2 ** 200 }}
{% for i in range(99999999) %}{% endfor %}
{{ range(9999) | list + range(9999) | list | string * 9 }}
{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}
{% for i in range(9999) %}{{ 'x' * 100 }}{% endfor %}
{% set n = namespace(x='aaaaaaaaaa') %}{% for i in range(40) %}{% set n.x = n.x + n.x %}{% endfor %}
{% set n = namespace(x='aaaaaaaaaa') %}{% for i in range(40) %}{% set n.x = n.x ~ n.x %}{% endfor %}
{% set n = namespace(x='aaaaaaaaaa') %}{% for i in range(40) %}{% set n.x %}{{ n.x }}{{ n.x }}{% endset %}{% endfor %}
{% set n = namespace(x=[1,2]) %}{% for i in range(40) %}{% set n.x = n.x + n.x %}{% endfor %}
{% set n = namespace(x=9) %}{% for i in range(40) %}{% set n.x = n.x * n.x %}{% endfor %}
{{ ('a' * 100000) | replace('a', 'b' * 100000) }}
{{ ['a' * 1000] | join('b') * 1000 }}
{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(50) }}
{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}
{% include "a.j2" %}
{% extends "a.j2" %}
{{ x | yaml(99999999) }}
{{ '%99999999d' % 1 }}
{{ 'a'.center(50000000) }}
{{ 'a' | center(50000000) }}
{{ '{:>50000000}'.format(1) }}
{{ lipsum(n=100) }}
{{ 'a'.ljust(50000000) }}
{{ 'a'.join(range(9)) }}
{% set a = ['x'] * 900 %}{% set b = [a] * 900 %}{% set c = [b] * 900 %}{{ c | yaml }}
{% set a = ['x'] * 90 %}{% set b = [a] * 90 %}{% for i in range(9999) %}{% if b == [a] * 90 %}{% endif %}{% endfor %}
{% set n = namespace(x=[1]) %}{% for i in range(40) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x | string }}
{% set n = namespace(x=1) %}{% for i in range(40) %}{% set n.x = {'a': n.x, 'b': n.x} %}{% endfor %}
{% set n = namespace(x=1) %}{% for i in range(40) %}{% set n.x = (n.x, n.x) %}{% endfor %}
{% set n = namespace(x=1) %}{% for i in range(40) %}{% set n.x = dict(a=n.x, b=n.x) %}{% endfor %}
{% set t = 'a b ' * 49000 %}{% for i in range(9999) %}{{ t | upper | length }}{% endfor %}
{% set t = 'a b ' * 49000 %}{% for i in range(9999) %}{% if t.split() %}{% endif %}{% endfor %}
{% set t = range(9999) | list %}{% for i in t %}{% if t is eq(t | list) %}{% endif %}{% endfor %}
{% set t = range(9999) | list %}{% for i in t %}{% if t[1:] %}{% endif %}{% endfor %}
{{ [[1], [2]] | sum(start=[]) }}
{{ (['a' * 199999] * 1000) | yaml }}
""".strip().split("\n")
BOMBS.append("{% set s %}{% for i in range(9999) %}" + "static text " * 100 + "{% endfor %}{% endset %}")
ESCAPES = r"""
{{ ''.__class__ }}
{{ x.__init__.__globals__ }}
{{ ()['__class__'] }}
{{ self.__init__ }}
{{ x | attr('__class__') | upper.z }}
{{ x.update({'a': 1}) }}
{{ x.pop('k') }}
{{ l.append(1) }}
{% set x.k = 2 %}
{{ range.__mro__ }}
{{ dict.fromkeys }}
{{ x | tojson }}
{{ x | safe }}
{{ x | random }}
{{ now() }}
{{ open('/etc/passwd') }}
{{ cycler.__init__ }}
{% include "/etc/passwd" %}
{% include "../../etc/passwd" %}
{% include "t/../../x.j2" %}
{% import "os" as os %}
{% include "t/template.yaml" %}
{% autoescape false %}{{ x }}{% endautoescape %}
{{ x }}
{{ l }}
{{ range }}
{{ y }}
{{ x.nothing }}
{{ 'a'.format_map(x) }}
{{ x | map(attribute='__class__') | list | first }}
{{ joiner.__doc__ }}
{{ loop }}
{{ namespace().__class__ }}
{% for i in l recursive %}{% endfor %}
{{ 1 / 0 }}
{% if %}
{{ x | nofilter }}
{% filter upper %}{{ l[0] }}{% endfilter %}
{% set s | upper %}{{ l[0] }}{% endset %}
{{ 'a'.format(1) }}
""".strip().split("\n")


@pytest.mark.parametrize("source", BOMBS)
def test_bombs_are_stopped_soon_and_named(folder, source):
    started = thread_time()
    with pytest.raises(TemplateError) as caught:
        render(folder, "\n" + source, x={"k": 1})
    assert thread_time() - started < 2
    assert caught.value.file == str(folder / "t/a.j2")


@pytest.mark.parametrize("source", ESCAPES)
def test_what_a_template_may_not_do_is_refused_with_file_and_line(folder, source):
    write(folder, "t/template.yaml", "blocks: []")
    with pytest.raises(TemplateError) as caught:
        render(folder, "first\nsecond\n" + source, x={"k": 1}, l=[1])
    fault = caught.value
    assert (fault.file, fault.line) == (str(folder / "t/a.j2"), 3)
    assert fault.source_line == source
    assert f"a.j2:3: {fault.reason}" in str(fault)


def test_the_sentence_says_what_to_do(folder):
    with pytest.raises(TemplateError, match=r"a mapping cannot be printed directly; use `\| yaml`"):
        render(folder, "{{ x }}", x={})
    with pytest.raises(TemplateError, match=r"`\| value` takes the value"):
        render(folder, "{{ x }}", x=[1, "described"])
    with pytest.raises(TemplateError, match="'who' is undefined; here are: hero, place"):
        render(folder, "{{ who }}", hero=1, place=2)


def test_a_fault_in_an_included_file_names_that_file(folder):
    write(folder, "t/part.j2", "ok\n{{ gone }}")
    with pytest.raises(TemplateError) as caught:
        render(folder, '{% include "part.j2" %}')
    assert (Path(caught.value.file).name, caught.value.line, caught.value.source_line) == ("part.j2", 2, "{{ gone }}")


# --- files


def test_a_pack_overrides_file_by_file_and_can_extend_what_it_overrides(folder, tmp_path_factory):
    house = tmp_path_factory.mktemp("house")
    write(house, "chat/a.j2", "house {% block b %}a{% endblock %}")
    write(house, "chat/b.j2", "house b")
    write(folder, "chat/a.j2", '{% extends "shipped/chat/a.j2" %}{% block b %}pack{% endblock %}')
    templates = open_templates([folder, house])
    assert templates.render("chat/a.j2", {}) == "house pack"
    assert templates.render("chat/b.j2", {}) == "house b"


def test_files_are_read_again_when_they_change(folder):
    assert render(folder, "one") == "one"
    kept = open_templates([folder])
    assert open_templates([folder]) is kept
    assert render(folder, "two, and longer") == "two, and longer"
    (folder / "t/a.j2").unlink()
    with pytest.raises(TemplateError, match="no template"):
        open_templates([folder]).render("t/a.j2", {})


class NotingRenderer(SandboxRenderer):
    """Renders, and notes with which variables."""

    def __init__(self, files):
        super().__init__(files)
        self.made = []

    def render(self, name, variables):
        self.made.append(variables)
        return super().render(name, variables)


def test_a_text_is_kept_by_what_its_template_reads():
    sources = {"t/a.j2": "{% include 't/b.j2' %} {{ title }}", "t/b.j2": "{{ tree | yaml }}"}
    files = {name: TemplateFile(name=name, shown=name, text=text) for name, text in sources.items()}
    renderer = NotingRenderer(files)
    templates, made = TemplateSet(files, renderer), renderer.made
    same = {"tree": {"a": 1}, "title": "x"}
    assert templates.render("t/a.j2", same) == templates.render("t/a.j2", {**same, "unread": 2})
    assert len(made) == 1
    others = (
        {"a": True},
        {"a": 1.0},
        {"a": "1"},
        {"a": -0.0},
        {"a": 0.0},
        {"a": None},
        {"a": float("inf")},
        {"a": {}},
        {"a": []},
    )
    orders = ({"a": 1, "b": 2}, {"b": 2, "a": 1})
    texts = [templates.render("t/a.j2", {"tree": tree, "title": "x"}) for tree in (*others, *orders)]
    assert len(set(texts)) == len(texts) == len(made) - 1
    assert templates.render("t/a.j2", {"tree": {"a": 1}, "title": "z"}) == "a: 1 z"


def test_a_template_that_names_another_by_a_value_is_rendered_each_time(folder):
    (folder / "t/a.j2").write_text("{% include 't/' ~ which %}")
    for name in ("b", "c"):
        (folder / f"t/{name}.j2").write_text(f"{name} {{{{ seen }}}}")
    templates = open_templates([folder])
    given = [{"which": which, "seen": seen} for which in ("b.j2", "c.j2") for seen in (1, 2)]
    assert [templates.render("t/a.j2", each) for each in given] == ["b 1", "b 2", "c 1", "c 2"]


def test_kept_texts_are_bounded_and_forgotten(folder):
    kept = RenderedTexts(most_chars=10)
    for name in "abc":
        kept.keep((name, b""), name * 4)
    assert [kept.find((name, b"")) for name in "abc"] == [None, "bbbb", "cccc"]
    (folder / "t/a.j2").write_text("{{ said }}")
    templates = open_templates([folder])
    templates.render("t/a.j2", {"said": "a secret of the mill"})
    assert any(b"secret of the mill" in data for data in bytes_of_object(templates))
    forget_rendered_texts()
    assert not any(b"secret of the mill" in data for data in bytes_of_object(templates))


def test_files_that_come_and_go_are_seen_though_folders_are_listed_once(folder):
    """A folder whose times are old is not listed again until they change."""
    for each in (folder / "t", folder):
        os.utime(each, (1_000_000_000, 1_000_000_000))
    first = open_templates([folder])
    assert open_templates([folder]) is first
    (folder / "t/new.j2").write_text("new")
    assert open_templates([folder]).render("t/new.j2", {}) == "new"
    (folder / "t/new.j2").unlink()
    assert "t/new.j2" not in open_templates([folder]).files


def test_files_that_cannot_be_used_are_named(folder):
    (folder / "t/bad.j2").write_bytes(b"fine\n\xff\xfe")
    assert [fault.line for fault in validate_templates(folder)] == [2]
    (folder / "t/bad.j2").write_text("x" * 100_000)
    assert "at most" in describe_template_faults(folder)[0]
    (folder / "t/bad.j2").unlink()
    (folder / "t/out.j2").symlink_to("/etc/hostname")
    assert "leads out" in describe_template_faults(folder)[0]


def test_all_faults_of_a_root_are_told(folder):
    write(folder, "chat/a.j2", "ok\n{% if x %}")
    write(folder, "chat/b.j2", "{{ x | nofilter }}")
    write(folder, "mine/template.yaml", "id: mine\nblocks:\n  - id: status\n    priority: urgent\n")
    write(folder, "other/template.yaml", "id: other\nblocks:\n  - {id: new, file: new.j2, type: state, slot: new}\n")
    faults = describe_template_faults(folder)
    assert len(faults) == 4
    assert "a.j2:2" in faults[0]
    assert "nofilter" in faults[1]
    assert "template.yaml:4: blocks[0].priority: must be one of must, high, medium, low" in faults[2]
    assert "new.j2" in faults[3]


def test_the_shipped_templates_are_without_fault():
    assert validate_templates(find_shipped_templates()) == ()
    assert {"chat", "combat", "flashback", "dense"} <= set(open_templates([find_shipped_templates()]).template_ids)


def _readable(value: object) -> object:
    """What a reader of YAML gets: lone surrogates are replaced, all else is as it was."""
    if isinstance(value, str):
        return "".join("\ufffd" if 0xD800 <= ord(char) <= 0xDFFF else char for char in value)
    return value


_SETS: dict[str, TemplateSet] = {}


def _render_once(source: str, **variables: object) -> str:
    if source not in _SETS:
        _SETS[source] = template_set({"t/a.j2": TemplateFile(name="t/a.j2", shown="t/a.j2", text=source)})
    return _SETS[source].render("t/a.j2", variables)


def test_json_is_not_needed():
    """A value printed by `yaml` is data to any YAML reader, also where JSON would be asked for."""
    assert load_yaml(_render_once("{{ x | yaml }}", x=json.loads('{"a": [1, null]}'))) == {"a": [1, None]}
