"""The advice to install an extra fits the way in which Jacquard was installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from jacquard.core.sentences import translate
from mnemosyne.core.optional_packages import command_for, install_command

METADATA = """\
Name: jacquard-context
Requires-Dist: anyio>=4.6
Requires-Dist: anyio>=4.6; extra == 'ranks'
Requires-Dist: no-such-ranker<2,>=0.2; extra == 'ranks'
Requires-Dist: no-such-encoder[fast]>=1; extra == 'ranks'
Requires-Dist: not-for-us; (sys_platform == 'nowhere') and extra == 'ranks'
Requires-Dist: of-another-extra; extra == 'other'
"""
WHEEL = 'pip install "jacquard_context-0.1.0-py3-none-any.whl[ranks]"'
PIPX = 'pipx inject jacquard-context "no-such-ranker<2,>=0.2" "no-such-encoder[fast]>=1"'


@pytest.fixture
def site(tmp_path: Path) -> Path:
    info = tmp_path / "site" / "jacquard_context-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(METADATA, encoding="utf-8")
    return info.parent


def test_in_a_checkout_the_extra_is_installed_from_the_checkout(site: Path) -> None:
    assert install_command("evals", "lance") == 'pip install ".[evals,lance]" in a checkout of Jacquard'
    (site / "pyproject.toml").write_text("", encoding="utf-8")
    assert command_for(("ranks",), site=site, prefix=site) == 'pip install ".[ranks]" in a checkout of Jacquard'


def test_what_pip_installed_from_a_checkout_is_installed_from_it_again(site: Path) -> None:
    source = next(site.iterdir()) / "direct_url.json"
    source.write_text('{"dir_info": {}, "url": "file:///home/ann/jacquard"}', encoding="utf-8")
    assert command_for(("ranks",), site=site, prefix=site) == 'pip install ".[ranks]" in a checkout of Jacquard'


def test_without_a_checkout_the_wheel_is_installed_with_the_extra(site: Path) -> None:
    source = next(site.iterdir()) / "direct_url.json"
    source.write_text('{"archive_info": {}, "url": "file:///home/ann/jacquard.whl"}', encoding="utf-8")
    assert command_for(("ranks",), site=site, prefix=site) == WHEEL


def test_under_pipx_the_missing_packages_of_the_extra_are_injected(site: Path, tmp_path: Path) -> None:
    (tmp_path / "pipx_metadata.json").write_text("{}", encoding="utf-8")
    assert command_for(("ranks",), site=site, prefix=tmp_path) == PIPX


@pytest.mark.parametrize("command", [WHEEL, PIPX])
def test_the_advice_is_in_chinese_too(command: str) -> None:
    assert translate(f"A store needs no_such: {command}", "zh") == f"A store 需要 no_such：{command}"
    told = translate(f"A store needs no_such (No module named 'x'): {command}", "zh")
    assert told == f"A store 需要 no_such（No module named 'x'）：{command}"


@pytest.mark.parametrize(
    ("user", "chinese"),
    [
        ("The service", "服务"),
        ("The command line", "命令行"),
        ("The embedding model 'use'", "嵌入模型 'use'"),
        ("redaction.detector spacy", "redaction.detector spacy"),
    ],
)
def test_who_needs_a_package_is_named_in_chinese_too(user: str, chinese: str) -> None:
    assert translate(f"{user} needs a, b: {WHEEL}", "zh") == f"{chinese} 需要 a, b：{WHEEL}"
