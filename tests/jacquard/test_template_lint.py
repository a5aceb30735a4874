"""The lint finds each kind of fault, in the right file and line, and none in what the house ships."""

from __future__ import annotations

from pathlib import Path

import pytest

from jacquard import JacquardError
from jacquard.authoring.findings import CODES, FindingSeverity, format_finding
from jacquard.authoring.linting.lint import LintReport, lint_templates
from jacquard.authoring.target import TemplateTarget, find_target
from jacquard.templating import find_shipped_templates
from mnemosyne import load_world

SHIPPED = find_shipped_templates()
FOREST = Path(__file__).parents[2] / "examples" / "whispering_forest"
MANIFEST = "id: night\nextends: chat\nblocks:\n  - {id: guidance, file: guidance.j2}\n"


def linted(root: Path, files: dict[str, str], world: Path | None = None) -> LintReport:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    target = TemplateTarget(roots=(root, SHIPPED), shown=str(root), own=True)
    return lint_templates(target, load_world(world) if world else None)


def found(report: LintReport) -> list[tuple[str, str, int]]:
    return [(each.code, Path(each.file).name, each.line) for each in report.findings]


def of_guidance(root: Path, text: str, world: Path | None = None) -> list[tuple[str, int]]:
    report = linted(root, {"night/template.yaml": MANIFEST, "night/guidance.j2": text}, world)
    assert all(
        each.source_line == text.split("\n")[each.line - 1] for each in report.findings if each.file.endswith("j2")
    )
    return [(each.code, each.line) for each in report.findings]


@pytest.mark.parametrize("name", ["chat", "combat", "dense", "flashback", "shipped/chat"])
def test_what_is_shipped_has_no_fault(name):
    report = lint_templates(find_target(name, pack=None, shipped=SHIPPED))
    assert report.findings == ()
    assert report.files


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\n{{ gaol }}\n", [("unknown-variable", 2)]),
        ("{{ plan.goal }}\n", [("unknown-attribute", 1)]),
        ("{{ goal | shout }}\n", [("unknown-filter", 1)]),
        ("{% if goal is happy %}x{% endif %}\n", [("unknown-test", 1)]),
        ("\n{{ persona }}\n", [("needs-filter", 2)]),
        ("{{ goal | safe }}\n", [("escape-bypass", 1)]),
        ("{{ goal.__class__ }}\n", [("unsafe-attribute", 1)]),
        ("{{ goal.format(1) }}\n", [("unsafe-call", 1)]),
        ("{% include 'chat/none.j2' %}\n", [("outside-import", 1)]),
        ("{% include '../../etc/passwd.j2' %}\n", [("outside-import", 1)]),
        ("{% include goal %}\n", [("dynamic-name", 1)]),
        ("a\n\tb\n", [("tab", 2)]),
        ("{% if\tgoal %}x{% endif %}\n", [("tab-in-code", 1)]),
        ("<mood>\n{{ goal }}\n", [("unclosed-tag", 1)]),
        ("<a><b></a></b>\n", [("misnested-tag", 1)]),
        ("x\n</mood>\n", [("stray-close", 2)]),
        ("{% if goal %}<mood>{% endif %}x\n", [("unbalanced-branch", 1), ("unclosed-tag", 1)]),
        ("1 < 2 & so\n", [("bare-markup", 1), ("bare-markup", 1)]),
        ('<mood of="{{ goal }}"></mood>\n', [("attribute-escape", 1)]),
        ("<mood {{ goal }}></mood>\n", [("tag-expression", 1)]),
        ("{% for quest in quests %}{{ quest | yaml }}{% endfor %}\n", [("unbounded-list", 1)]),
        ("{% for quest in quests[:5] %}{{ quest | yaml }}{% endfor %}\n", []),
        ("{% if goal %}\n{{ goal }}\n", [("syntax", 2)]),
        ("{% extends 'night/guidance.j2' %}\n", [("circular-extends", 1)]),
        ("{% extends 'chat/guidance.j2' %}\n{% block nowhere %}x{% endblock %}\n", [("lost-block", 2)]),
        ("{% extends 'chat/guidance.j2' %}\nnever printed\n", [("lost-text", 2)]),
        ("{{ item.text }}\n", [("unknown-variable", 1)]),
        ("{% set mood = goal %}{{ mood }}\n", []),
    ],
)
def test_each_fault_is_found_in_its_line(tmp_path, text, expected):
    codes = of_guidance(tmp_path, text)
    assert set(expected) <= set(codes), codes
    if not expected:
        assert codes == []


def test_a_world_tells_which_fields_its_state_has(tmp_path):
    text = "{{ state.hero.helth }} {{ state.hero.health | value }}\n"
    assert of_guidance(tmp_path, text, FOREST / "en") == [("unknown-state", 1)]
    assert of_guidance(tmp_path, text) == []


def test_what_may_be_missing_is_asked_for_first(tmp_path):
    loop = "{{% for quest in quests[:3] %}}{body}{{% endfor %}}\n"
    bare = of_guidance(tmp_path, loop.format(body="{{ quest.progress }}"))
    asked = of_guidance(tmp_path, loop.format(body="{% if quest.progress is defined %}{{ quest.progress }}{% endif %}"))
    assert bare == [("maybe-missing", 1)]
    assert asked == []


def test_volatile_text_in_the_stable_prefix_is_found_in_file_and_manifest(tmp_path):
    manifest = "id: night\nextends: chat\nblocks:\n  - {id: persona, file: persona.j2, volatile: true}\n"
    report = linted(tmp_path, {"night/template.yaml": manifest, "night/persona.j2": "x\nnow: {{ goal }}\n"})
    assert found(report) == [("volatile-prefix", "persona.j2", 2), ("volatile-prefix", "template.yaml", 4)]
    assert "cache_first" in report.findings[0].message


def test_a_question_whether_there_is_any_is_not_volatile(tmp_path):
    manifest = "id: night\nextends: chat\nblocks:\n  - {id: persona, file: persona.j2}\n"
    files = {"night/template.yaml": manifest, "night/persona.j2": "{% if status %}x{% endif %}\n"}
    assert found(linted(tmp_path, files)) == []


def test_faults_of_manifests_layouts_and_files_nobody_uses(tmp_path):
    files = {
        "night/template.yaml": "id: night\nblocks:\n  - {id: guidance, flie: guidance.j2}\n",
        "night/old.j2": "x\n",
        "layouts/own.yaml": "slots:\n  - {slot: status, position: nowhere}\n",
        "profiles/own.yaml": "id: own\ntemplate: nowhere\n",
    }
    report = linted(tmp_path, files)
    assert set(found(report)) == {
        ("manifest", "template.yaml", 3),
        ("layout", "own.yaml", 1),
        ("profile", "own.yaml", 1),
        ("unused-file", "old.j2", 1),
    }


def test_every_code_of_the_list_is_tried_here():
    tried = Path(__file__).read_text(encoding="utf-8")
    assert [code for code in CODES if f'"{code}"' not in tried] == []


def test_a_finding_reads_well_and_as_json(tmp_path):
    report = linted(tmp_path, {"night/template.yaml": MANIFEST, "night/guidance.j2": "时间 {{ gaol }}\n"})
    (finding,) = report.findings
    assert (finding.line, finding.column, finding.severity) == (1, 7, FindingSeverity.ERROR)
    shown = format_finding(finding)
    assert shown.splitlines()[0].endswith("no variable 'gaol'; did you mean 'goal'?")
    assert "guidance.j2:1:7: error [unknown-variable]" in shown
    assert shown.splitlines()[2].index("^") == shown.splitlines()[1].index("gaol")
    assert report.to_json()["errors"] == 1
    assert report.to_json()["findings"][0]["line"] == 1


def test_a_name_that_means_nothing_says_what_there_is(tmp_path):
    with pytest.raises(JacquardError, match="did you mean 'combat'"):
        find_target("combt", pack=None, shipped=SHIPPED)
    with pytest.raises(JacquardError, match="no such file or folder"):
        find_target(str(tmp_path / "none"), pack=None, shipped=SHIPPED)
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(JacquardError, match="is not a template"):
        find_target(str(tmp_path / "notes.txt"), pack=None, shipped=SHIPPED)


@pytest.mark.parametrize(
    "text", ["{{ " * 500, "{% for %}", "<" * 2000, "{{ a" + ".b" * 3000 + " }}", "\x00{{", "{% raw %}"]
)
def test_no_file_makes_the_lint_fall(tmp_path, text):
    report = linted(tmp_path, {"night/template.yaml": MANIFEST, "night/guidance.j2": text})
    assert report.files
