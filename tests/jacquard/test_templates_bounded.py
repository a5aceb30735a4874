"""Templates of packs: whatever an author writes, rendering ends, and the same values give the same text in every process."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from jacquard.cli.app import app
from jacquard.core.errors import TemplateError
from jacquard.templating import open_templates, render_reply

ENDLESS = "{{ 1.5|round(30000000,'ceil') }}"
ADDRESS = "{{ cycler(1)|string }}"
LONG = "{% set r = range(9999) %}{% for i in r %}{% if r|select('odd')|max %}{% endif %}{% endfor %}"

ACTION = """
- id: knock
  patterns: ["knock(?P<n>!)?"]
  ops: [[ADD, hero.health, 1]]
  reply: REPLY
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def call(*args, code=0):
        done = CliRunner().invoke(app, [str(arg) for arg in args])
        assert done.exit_code == code, done.output
        return " ".join(done.output.split())

    return call


@pytest.fixture
def pack(run, tmp_path):
    """Writes a pack with a template of its own, and an action with a reply."""

    def write(*, template: str = "", reply: str = "Knock.", name: str = "chat/guidance.j2") -> Path:
        folder = tmp_path / "world"
        run("author", "init", folder)
        (folder / "actions.yaml").write_text(ACTION.replace("REPLY", json.dumps(reply)), encoding="utf-8")
        if template:
            file = folder / "templates" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"one\n{template}\n", encoding="utf-8")
        return folder

    return write


ALL = ("validate", "weave", "preview")


@pytest.mark.parametrize(
    ("template", "says", "commands"),
    [
        (ENDLESS, "rounds to at most 308 digits", ALL),
        (ADDRESS, "Cycler has no text", ALL),
        (LONG, "more than 1,000,000 operations", ALL[:1]),
        pytest.param(LONG, "more than 1,000,000 operations", ALL[1:], marks=pytest.mark.full),
    ],
)
def test_a_template_without_end_is_told_with_file_and_line(run, pack, template, says, commands):
    world = pack(template=template)
    words = {
        "validate": ("author", "validate", world),
        "weave": ("play", "weave", "--world", world, "--session", "s", "--input", "Hello.", "--embedder", "none"),
        "preview": ("author", "template", "preview", "--world", world),
    }
    for command in commands:
        said = run(*words[command], code=1)
        assert "guidance.j2:2: " in said.replace("- ", "-")
        assert says in said


@pytest.mark.parametrize(
    ("template", "other", "says"),
    [
        ("{% include 'chat/guidance.j2' %}", "", "this template includes or calls itself without end, at"),
        (
            "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
            "",
            "this template includes or calls itself without end, at",
        ),
        ("{% include 'chat/b.j2' %}", "{% include 'chat/guidance.j2' %}", "b.j2:1 →"),
        ("{{ " + "(" * 300 + "1" + ")" * 300 + " }}", "", "nested too deep here"),
    ],
)
def test_a_template_that_calls_itself_is_told_with_its_chain(run, pack, template, other, says):
    world = pack(template=template)
    if other:
        (world / "templates" / "chat" / "b.j2").write_text(other, encoding="utf-8")
    said = run("play", "weave", "--world", world, "--session", "s", "--input", "Hello.", "--embedder", "none", code=1)
    assert says in said
    assert "guidance.j2" in said
    assert ("in a circle" in said) == bool(other)


def test_a_budget_without_any_room_is_no_negative_number(run, pack):
    narrow = ("--budget", "60", "--reserve", "59", "--embedder", "none")
    said = run("play", "weave", "--world", pack(), "--session", "s", "--input", "Hello.", *narrow, code=1)
    assert "leaves no room at all" in said
    assert not re.search(r"-\d", said)


SOURCES = [ENDLESS, ADDRESS, pytest.param(LONG, marks=pytest.mark.full)]


@pytest.mark.parametrize("template", SOURCES)
def test_validate_renders_templates_that_no_plan_has_chosen_yet(run, pack, template):
    world = pack(template=template, name="night/guidance.j2")
    manifest = "id: night\nextends: chat\nblocks:\n  - {id: guidance, file: guidance.j2}\n"
    (world / "templates" / "night" / "template.yaml").write_text(manifest, encoding="utf-8")
    assert "night/guidance.j2:2" in run("author", "validate", world, code=1)


def test_validate_asks_no_state_of_a_template_that_comes_later(run, pack):
    world = pack(template="{{ state.battle.enemy }}", name="night/guidance.j2")
    manifest = "id: night\nextends: chat\nblocks:\n  - {id: guidance, file: guidance.j2}\n"
    (world / "templates" / "night" / "template.yaml").write_text(manifest, encoding="utf-8")
    run("author", "validate", world)


@pytest.mark.parametrize("reply", SOURCES)
def test_a_reply_without_end_is_told(run, pack, reply):
    world = pack(reply=reply)
    assert "action knock: reply" in run("author", "validate", world, code=1)
    assert "action knock: reply" in run(
        "play", "action", "--world", world, "--session", "s", "--input", "knock", code=1
    )


def render(source: str, **variables: object) -> str:
    return render_reply(source, variables, name="t")


MANY = [f"k{number}" for number in range(15_000)]
HOSTILE = [
    *("{{ 5|round(-30000000) }}", "{{ ('f' * 100000)|int(base=16) }}", "{{ ('9' * 4000)|int }}", "{{ 10 ** 18 * 10 }}"),
    *("{{ (x.keys() - [])|list }}", "{{ (x.items() - [])|first }}", "{{ x.items|upper }}", "{{ range|string }}"),
    *(
        "{{ [cycler(1)]|string }}",
        "{{ {'a': namespace()}|string }}",
        "{{ ([1]|map('upper'))|string }}",
        "{{ x.items()|string }}",
    ),
    *(
        "{{ joiner()|lower }}",
        "{{ x.get|trim }}",
        "{{ cycler(1) is upper }}",
        "{{ [cycler(1)]|join }}",
        "{{ 'a' ~ range }}",
    ),
    *("{{ ((-8) ** 0.5)|string }}", "{{ ('a' * 99999).strip('b' * 90000) }}", "{{ ('a' * 99999)|trim('b' * 90000) }}"),
    "{% for i in [1] %}{{ loop|string }}{% endfor %}",
    "{% macro m() %}{% endmacro %}{{ m|string }}",
    "{{ [1]|_counted(-999999, -999999)|list }}",
    "{{ 1|_worked(-999999) }}",
    "{% set r = range(9999) %}{% for i in r %}{% for j in range(9) %}{% if r|max %}{% endif %}{% endfor %}{% endfor %}",
    "{% set r = range(9999) %}{% for i in r %}{% if r|sum %}{% endif %}{% endfor %}",
    "{% set r = range(9999) %}{% for i in r %}{% if 'a' in r %}{% endif %}{% endfor %}",
    "{% set r = range(9999) %}{% for i in r %}{% if r|join|length %}{% endif %}{% endfor %}",
    "{% set l = [''] * 40000 %}{% for i in range(9999) %}{% if l|join %}{% endif %}{% endfor %}",
    "{% set v = many.values() %}{% for i in range(9999) %}{% if v|max %}{% endif %}{% endfor %}",
    "{% set v = many.keys() %}{% for i in range(9999) %}{% if 'zz' in v %}{% endif %}{% endfor %}",
    "{% for i in range(9999) %}{% if namespace(many) %}{% endif %}{% endfor %}",
    "{% for i in range(9999) %}{% if cycler(*range(9999)) %}{% endif %}{% endfor %}",
    "{% set d = (d|default(0)) + 1 %}{% if d < 25 %}{% include 't.j2' %}{% include 't.j2' %}{% endif %}",
    "{% for i in range(9999) %}" + "{{ e }}" * 7_000 + "{% endfor %}",
    "{% macro m() %}" + "{{ e }}" * 7_000 + "{% endmacro %}{% for i in range(9999) %}{{ m() }}{% endfor %}",
    "{% macro m() %}" + "{{ caller() }}" * 4_000 + "{% endmacro %}{% call m() %}" + "{{ e }}" * 3_000 + "{% endcall %}",
    "{% for a in x %}" * 90 + "{{ e }}" * 8_000 + "{% endfor %}" * 90,
    "{{ " + "(" * 5_000 + "1" + ")" * 5_000 + " }}",
    "{{ " + "1+" * 15_000 + "1 }}",
]


@pytest.mark.parametrize("source", HOSTILE, ids=[str(number) for number in range(len(HOSTILE))])
def test_what_has_no_end_or_no_text_is_an_error(source):
    with pytest.raises(TemplateError):
        render(source, x={"k": 1}, many=dict.fromkeys(MANY, "v"), e="")


def test_what_was_allowed_still_is():
    assert render("{{ [3, 1]|sort|string }} {{ x|string }} {{ range(3)|string }}", x={"a": [1, None]}) == (
        "[1, 3] {'a': [1, None]} range(0, 3)"
    )
    assert render("{{ 2.345|round(2) }} {{ 1234|round(-2)|int }} {{ 'x1'|int(7) }} {{ 7.5|round(0, 'floor') }}") == (
        "2.35 1200 7 7.0"
    )
    assert render("{{ x|int }} {{ x }}", x=10**30) == f"{10**30} {10**30}"
    assert (
        render("{{ x is sameas true }}{{ y is sameas none }}{{ 1 is sameas true }}", x=True, y=None) == "truetruefalse"
    )
    assert render("{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}") == "aba"
    assert (
        render("{% for q in l|selectattr('on') %}{{ loop.index }}{{ q.t }}{% endfor %}", l=[{"on": 1, "t": "x"}])
        == "1x"
    )


def test_a_leaf_is_the_same_wherever_it_came_from():
    text = "".join(["long", " ", "text"])
    assert render("{{ x is sameas 'long text' }}{{ n is sameas 257 }}", x=text, n=int("257")) == "truetrue"


def test_errors_name_no_address():
    with pytest.raises(TemplateError) as caught:
        render("{{ x[cycler(1)] }}", x={})
    assert "0x" not in str(caught.value)


# --- templates that nobody wrote

NUMBERS = [
    "0",
    "1",
    "-1",
    "7",
    "2.5",
    "-0.0",
    "1e308",
    "308",
    "30000000",
    "-30000000",
    "10 ** 18",
    "99999999999999999999",
    "true",
]
VALUES = [
    *NUMBERS, "'a'", "'B c'", "''", "none", "x", "x.a", "l", "l[0]", "s", "s.deep", "nothing", "[]", "[3, 1, 2]", "['b', 'a', 'b']",
    "{'k': 1, 'a': l}", "range(9999)", "range(3)", "cycler(1, 2)", "joiner()", "namespace(a=1)", "range", "dict", "x.items",
    "x.items()", "x.keys()", "x.values()", "x.keys() - ['a']", "x.items() - l", "'a' * 199999", "'aA' * 9", "l|map('string')",
    "l|groupby(0)", "x|items", "('a', 1)", "dict(a=1, b=2)", "cycler", "self", "loop",
]  # fmt: skip
FILTERS = [
    "abs", "capitalize", "count", "default", "dictsort", "first", "float", "groupby", "int", "items", "last", "length", "list",
    "lower", "map", "max", "min", "reject", "rejectattr", "reverse", "round", "select", "selectattr", "sort", "string", "title",
    "trim", "truncate", "unique", "upper", "join", "replace", "sum", "value", "batch", "slice", "center", "indent", "wordwrap",
    "format", "tojson", "pprint", "random", "shuffle", "xmlattr", "filesizeformat", "wordcount", "safe", "urlize", "striptags",
]  # fmt: skip
TESTS = [
    "boolean", "defined", "divisibleby", "even", "float", "in", "integer", "iterable", "lower", "mapping", "none", "number",
    "odd", "sameas", "sequence", "string", "upper",
]  # fmt: skip
METHODS = [
    "upper", "split", "join", "zfill", "ljust", "rjust", "center", "format", "format_map", "translate", "replace", "strip",
    "count", "index", "find", "title", "encode", "startswith", "get", "items", "keys", "values", "pop", "update", "next", "reset",
    "copy", "append",
]  # fmt: skip
ARGUMENTS = st.lists(
    st.sampled_from([*VALUES, "'ceil'", "'floor'", "'upper'", "'odd'", "'a'", "attribute='a'", "base=36"]), max_size=3
)


def _extend(inner):
    calls = ARGUMENTS.map(lambda names: f"({', '.join(sorted(names, key=lambda each: '=' in each))})" if names else "")
    return st.one_of(
        st.tuples(inner, st.sampled_from(FILTERS), calls).map(lambda p: f"({p[0]})|{p[1]}{p[2]}"),
        st.tuples(inner, st.sampled_from(TESTS), st.sampled_from(VALUES), st.booleans()).map(
            lambda p: f"({p[0]}) is {p[1]}" + (f" ({p[2]})" if p[3] else "")
        ),
        st.tuples(inner, st.sampled_from(METHODS), calls).map(lambda p: f"({p[0]}).{p[1]}{p[2] or '()'}"),
        st.tuples(
            inner, st.sampled_from(["+", "-", "*", "/", "//", "%", "**", "~", "==", "<", "in", "and"]), inner
        ).map(lambda p: f"({p[0]}) {p[1]} ({p[2]})"),
        st.tuples(inner, inner).map(lambda p: f"[{p[0]}, {p[1]}]"),
        st.tuples(inner, inner).map(lambda p: f"({p[0]})[{p[1]}]"),
        st.tuples(inner, inner).map(lambda p: f"({p[0]})[:{p[1]}]"),
    )


EXPRESSIONS = st.recursive(st.sampled_from(VALUES), _extend, max_leaves=5)
TEMPLATES = st.one_of(
    EXPRESSIONS.map(lambda e: f"{{{{ {e} }}}}"),
    EXPRESSIONS.map(lambda e: f"{{{{ ({e})|string }}}}"),
    EXPRESSIONS.map(lambda e: f"{{{{ ({e})|list|string }}}}"),
    EXPRESSIONS.map(lambda e: f"{{% for a in {e} %}}{{{{ a }}}} {{% endfor %}}"),
    st.tuples(EXPRESSIONS, EXPRESSIONS).map(
        lambda p: (
            f"{{% set v = {p[0]} %}}{{% for i in range(9999) %}}{{% if {p[1]} %}}{{{{ v|first }}}}{{% endif %}}{{% endfor %}}"
        )
    ),
)
VARIABLES = {
    "x": {"k": 1, "a": "b", "é": [1.5, None]},
    "l": [["b", 2], ["a", 1], ["c", True]],
    "s": {"deep": {"er": [1, "x"]}},
}
SCRIPT = """
import json, sys
from jacquard.core.errors import TemplateError
from jacquard.templating import render_reply
sources, variables = json.load(sys.stdin)
def told(source):
    try:
        return render_reply(source, variables, name="t")
    except TemplateError as error:
        return "error: " + error.reason
json.dump([told(source) for source in sources], sys.stdout)
"""


def in_a_process(sources, seed):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        input=json.dumps([sources, VARIABLES]),
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": str(seed)},
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("examples", [120, pytest.param(400, marks=pytest.mark.full)])
def test_any_template_ends_and_says_the_same_in_every_process(examples):
    tried: dict[str, None] = {}

    @settings(max_examples=examples, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(TEMPLATES)
    def collect(source):
        tried[source] = None

    collect()
    one, other = (in_a_process([*tried], seed) for seed in (1, 2))
    differing = [(source, a, b) for source, a, b in zip(tried, one, other, strict=True) if a != b]
    assert not differing
    assert sum(not text.startswith("error: ") for text in one) > len(tried) // 25
    assert not [text for text in one if " at 0x" in text]


def test_the_text_of_a_prompt_is_the_same_in_every_process(tmp_path):
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "a.j2").write_text("{{ x|yaml }} {{ x|dictsort|string }}", encoding="utf-8")
    assert open_templates([tmp_path]).render("t/a.j2", {"x": {"b": 1, "a": 2}}) == "b: 1\na: 2 \"[('a', 2), ('b', 1)]\""
