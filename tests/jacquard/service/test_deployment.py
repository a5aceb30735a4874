"""The files of deploy/ name what there is: extras, files, commands, settings, metrics."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from configparser import RawConfigParser
from pathlib import Path

import pytest
import yaml
from cli_calls import find_command

from jacquard.config.service import ServiceLimits, ServiceSettings, load_service_settings
from jacquard.remote.operations import OPERATIONS
from jacquard.service.access.admission import Admission
from jacquard.service.running.metrics import ServiceMetrics
from mnemosyne.stores.locate import locate_store

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
SERVICE, DATABASE = COMPOSE["services"]["service"], COMPOSE["services"]["database"]
DASHBOARD = json.loads((DEPLOY / "grafana-dashboard.json").read_text(encoding="utf-8"))
UNIT_FILE = DEPLOY / "jacquard.service"
SECRETS = Path("/run/secrets")


def environment_of_image():
    return dict(re.findall(r"(JACQUARD_SERVICE__\w+)=(\S+)", DOCKERFILE))


def test_the_image_installs_extras_that_there_are():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = re.search(r"^ARG EXTRAS=(.+)$", DOCKERFILE, re.MULTILINE)[1].split(",")
    assert {"serve", "postgres"} <= set(extras) <= set(project["optional-dependencies"])
    for minor in re.findall(r"FROM python:3\.(\d+)-slim", DOCKERFILE):
        assert f"Programming Language :: Python :: 3.{minor}" in project["classifiers"]


def test_the_image_has_every_file_that_its_build_reads():
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    sent = [line.removeprefix("!") for line in ignored if line[0] == "!"]
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


def test_the_command_of_the_image_and_of_the_unit_is_there():
    words = json.loads(re.search(r"^CMD (.+)$", DOCKERFILE, re.MULTILINE)[1])
    assert find_command(*words) is not None
    assert json.loads(re.search(r"^ENTRYPOINT (.+)$", DOCKERFILE, re.MULTILINE)[1]) == ["jacquard"]
    assert read_unit()["ExecStart"] == f"/opt/jacquard/bin/jacquard {' '.join(words)}"


def test_the_settings_of_the_image_are_settings_and_need_tokens():
    settings = load_service_settings(environment=environment_of_image())
    assert settings.tenants
    assert (settings.host, settings.port) == ("0.0.0.0", ServiceSettings().port)
    assert f"EXPOSE {settings.port}" in DOCKERFILE


def test_the_image_runs_without_root():
    *_, user = re.findall(r"^USER (.+)$", DOCKERFILE, re.MULTILINE)
    assert re.fullmatch(r"[1-9]\d+:[1-9]\d+", user)


def test_compose_starts_the_service_on_the_database_with_secrets_from_files(tmp_path):
    for part in (SERVICE, DATABASE):
        used = {Path(value).name for value in part["environment"].values() if value.startswith(str(SECRETS))}
        assert used == set(part["secrets"]) <= set(COMPOSE["secrets"])
        assert not any("PASSWORD" in name and not name.endswith("_FILE") for name in part["environment"])
    user, database = DATABASE["environment"]["POSTGRES_USER"], DATABASE["environment"]["POSTGRES_DB"]
    (tmp_path / "store").write_text(f"postgresql://{user}:secret@database/{database}\n")
    given = {**environment_of_image(), **SERVICE["environment"]}
    assert given["JACQUARD_SERVICE__STORE_FILE"] == str(SECRETS / "store")
    given["JACQUARD_SERVICE__STORE_FILE"] = str(tmp_path / "store")
    settings = load_service_settings(environment=given)
    assert locate_store(settings.store).kind == "postgresql"
    assert set(SERVICE["depends_on"]) == {"database"}
    assert SERVICE["ports"] == [f"127.0.0.1:{settings.port}:{settings.port}"]
    assert (DEPLOY / SERVICE["build"]["context"] / SERVICE["build"]["dockerfile"]).is_file()
    named = {each.partition(":")[0] for part in (SERVICE, DATABASE) for each in part["volumes"]}
    assert named == set(COMPOSE["volumes"])
    assert int(SERVICE["stop_grace_period"].removesuffix("s")) > settings.limits.shutdown_seconds


def read_unit():
    unit = RawConfigParser(strict=False)
    unit.optionxform = str
    unit.read(UNIT_FILE, encoding="utf-8")
    return unit["Service"]


def test_the_unit_stops_after_the_service_and_writes_to_its_own_folders():
    service = read_unit()
    assert int(service["TimeoutStopSec"]) > ServiceLimits().shutdown_seconds
    assert service["ProtectSystem"] == "strict"
    assert service["WorkingDirectory"] == f"%S/{service['StateDirectory']}"
    assert service["Environment"] == f"MNEMOSYNE_CACHE_DIR=%C/{service['CacheDirectory']}"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd on this machine")
def test_systemd_takes_the_unit(tmp_path):
    unit = UNIT_FILE.read_text(encoding="utf-8")
    # The program is not in /opt here; systemd wants it to be there.
    (tmp_path / UNIT_FILE.name).write_text(unit.replace("/opt/jacquard/bin/jacquard", shutil.which("true")))
    verify = ["systemd-analyze", "verify", str(tmp_path / UNIT_FILE.name)]
    done = subprocess.run(verify, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_prometheus_scrapes_the_metrics_with_a_token_from_a_file():
    (job,) = yaml.safe_load((DEPLOY / "prometheus.yml").read_text(encoding="utf-8"))["scrape_configs"]
    assert job["metrics_path"] == "/metrics"
    assert job["authorization"].keys() == {"credentials_file"}
    assert job["static_configs"] == [{"targets": [f"127.0.0.1:{ServiceSettings().port}"]}]
    assert "get_metrics" in {each.name for each in OPERATIONS}


def names_of_samples():
    """Return the names of all time series of `/metrics`, by their help lines; those of a histogram with their ends."""
    metrics = ServiceMetrics(Admission(ServiceLimits()))
    kinds = dict(re.findall(r"^# TYPE (\w+) (\w+)$", metrics.exposition().decode(), re.MULTILINE))
    ends = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("",), "gauge": ("",)}
    return {f"{name}{end}" for name, kind in kinds.items() for end in ends[kind]}


def queries():
    return [each["expr"] for panel in DASHBOARD["panels"] for each in panel.get("targets", ())]


def test_every_query_of_the_dashboard_names_metrics_that_there_are():
    used = {name for query in queries() for name in re.findall(r"\bjacquard_\w+", query)}
    assert len(used) > 15
    assert used - names_of_samples() == set()


def test_every_metric_of_turns_with_a_query_in_the_guide_is_one_of_the_service():
    page = (ROOT / "docs" / "en" / "observability.md").read_text(encoding="utf-8")
    told = set(re.findall(r"\bjacquard_\w+?_(?:total|bucket)\b", page))
    assert told - names_of_samples() == set()


@pytest.mark.parametrize("query", queries())
def test_the_labels_of_a_query_are_shown_in_its_legend(query):
    by = set(re.search(r"sum by \(([\w, ]+)\)", query)[1].split(", ")) - {"le"} if "sum by" in query else set()
    legends = {
        each["legendFormat"]
        for panel in DASHBOARD["panels"]
        for each in panel.get("targets", ())
        if each["expr"] == query
    }
    for legend in legends:
        assert set(re.findall(r"\{\{(\w+)\}\}", legend)) == by


@pytest.mark.skipif(shutil.which("promtool") is None, reason="there is no promtool on this machine")
def test_prometheus_takes_the_configuration_and_every_query(tmp_path):
    check = ["promtool", "check", "config", "--syntax-only", str(DEPLOY / "prometheus.yml")]
    subprocess.run(check, check=True, capture_output=True)
    rules = [{"record": f"q{n}", "expr": each.replace("$__rate_interval", "5m")} for n, each in enumerate(queries())]
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    done = subprocess.run(["promtool", "check", "rules", str(file)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
