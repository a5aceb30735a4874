"""The Dockerfile and the compose file name what there is: extras, files, commands, settings."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
import yaml
from cli_calls import find_command

from jacquard.config.service import ServiceSettings, load_service_settings
from mnemosyne.stores.locate import locate_store

ROOT = Path(__file__).parents[3]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
SERVICE, DATABASE = COMPOSE["services"]["service"], COMPOSE["services"]["database"]


def environment_of_image():
    return dict(re.findall(r"(JACQUARD_SERVICE__\w+)=(\S+)", DOCKERFILE))


def test_the_image_installs_extras_that_there_are():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = re.search(r'"\.\[(.+)\]"', DOCKERFILE)[1].split(",")
    assert {"serve", "postgres"} <= set(extras) <= set(project["optional-dependencies"])
    minor = re.search(r"FROM python:3\.(\d+)-slim", DOCKERFILE)[1]
    assert f"Programming Language :: Python :: 3.{minor}" in project["classifiers"]


def test_the_image_has_every_file_that_its_build_reads():
    sent = [line.removeprefix("!") for line in (ROOT / ".dockerignore").read_text().splitlines() if line[0] == "!"]
    assert all((ROOT / each).exists() for each in sent)
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = build["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {
        *wheel["packages"],
        *wheel["force-include"],
        build["project"]["readme"],
        *build["project"]["license-files"],
    }
    for each in needed | {"constraints.txt", "pyproject.toml"}:
        assert {each, *map(str, Path(each).parents)} & set(sent), each


@pytest.mark.parametrize("words", [json.loads(re.search(r"^CMD (.+)$", DOCKERFILE, re.M)[1]), SERVICE["command"]])
def test_the_command_is_there(words):
    assert find_command(*words) is not None
    assert json.loads(re.search(r"^ENTRYPOINT (.+)$", DOCKERFILE, re.M)[1]) == ["jacquard"]


def test_the_settings_of_the_image_are_settings_and_need_tokens():
    settings = load_service_settings(environment=environment_of_image())
    assert settings.tenants
    assert (settings.host, settings.port) == ("0.0.0.0", ServiceSettings().port)
    assert f"EXPOSE {settings.port}" in DOCKERFILE
    assert f"http://127.0.0.1:{settings.port}/healthz" in DOCKERFILE


def test_compose_starts_the_service_on_the_database():
    given = {**environment_of_image(), **SERVICE["environment"]}
    store = re.sub(r"\$\{POSTGRES_PASSWORD:[^}]*\}", "secret", given["JACQUARD_SERVICE__STORE"])
    settings = load_service_settings(environment={**given, "JACQUARD_SERVICE__STORE": store})
    assert locate_store(settings.store).kind == "postgresql"
    user, database = DATABASE["environment"]["POSTGRES_USER"], DATABASE["environment"]["POSTGRES_DB"]
    assert settings.store == f"postgresql://{user}:secret@database/{database}"
    assert set(SERVICE["depends_on"]) == {"database"}
    assert SERVICE["ports"] == [f"127.0.0.1:{settings.port}:{settings.port}"]
    named = {each.partition(":")[0] for part in (SERVICE, DATABASE) for each in part["volumes"]}
    assert named == set(COMPOSE["volumes"])
    assert int(SERVICE["stop_grace_period"].removesuffix("s")) > settings.limits.shutdown_seconds
