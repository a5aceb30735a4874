"""Credentials from files: every one may be in a file that `NAME_FILE` names, and a file that cannot be used is an error."""

from __future__ import annotations

import os

import pytest

from jacquard import ConfigError
from jacquard.config.in_force import settings_in_force
from jacquard.config.reference import settings_of
from jacquard.config.service import ServiceSettings, find_store, load_settings

STORE = "JACQUARD_SERVICE__STORE"
ADDRESS = "postgresql://jacquard:quicksilver@database/jacquard"
SECRETS = [
    each
    for each in (*settings_of(), *settings_of(ServiceSettings, ("service",)))
    if each.field.rules.get("credential") is not None and each.path[0] != "experiments"
]


def value_of(settings, path):
    for step in path:
        settings = getattr(settings, step)
    return settings


@pytest.mark.parametrize("secret", SECRETS, ids=lambda each: ".".join(each.path))
def test_every_credential_may_be_in_a_file(secret, tmp_path):
    file = tmp_path / "secret"
    value = "http://127.0.0.1:9/a%b: #c"
    file.write_text(f"{value}\n", encoding="utf-8")
    service, turns = load_settings(None, {f"{secret.variable}_FILE": str(file)})
    of_service = secret.path[0] == "service"
    assert value_of(service if of_service else turns, secret.path[of_service:]) == value


def test_the_file_counts_over_the_settings_file_and_options_over_it(tmp_path):
    settings, secret = tmp_path / "engine.yaml", tmp_path / "store"
    settings.write_text("service: {store: saves}\n")
    secret.write_bytes(b"\xef\xbb\xbf" + ADDRESS.encode() + b"\r\n")
    variables = {f"{STORE}_FILE": str(secret)}
    assert load_settings(settings, variables)[0].store == ADDRESS
    assert load_settings(settings, variables, {"store": "other"})[0].store == "other"


def make_unusable(folder, fault):
    file = folder / "secret"
    if fault == "empty":
        file.write_text("\n")
    elif fault == "binary":
        file.write_bytes(b"\xff\xfe\x00quicksilver")
    elif fault == "lines":
        file.write_text("quicksilver\nledger\n")
    elif fault == "long":
        file.write_text("quicksilver" * 10_000)
    elif fault == "folder":
        file.mkdir()
    return file


@pytest.mark.parametrize(
    ("fault", "what", "do"),
    [
        ("missing", "does not exist", "write the value into it, or correct the path"),
        ("empty", "is empty", "write the value into it"),
        ("binary", "is not UTF-8 text", "save it as UTF-8"),
        ("lines", "has more than one line", "keep only the value"),
        ("long", "has more than one line", "keep only the value"),
        ("folder", "cannot be read (", "let the user of this process read it"),
    ],
)
@pytest.mark.parametrize("variable", [STORE, "JACQUARD_SELECTOR__API_KEY"])
def test_a_file_that_cannot_be_used_is_an_error_with_its_place_and_a_remedy(fault, what, do, variable, tmp_path):
    file = make_unusable(tmp_path, fault)
    with pytest.raises(ConfigError) as refused:
        load_settings(None, {f"{variable}_FILE": str(file)})
    (told,) = str(refused.value).splitlines()
    assert told.startswith(f"{variable}_FILE: the file {file} {what}")
    assert do in told
    assert "quicksilver" not in told


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_file_of_another_user_is_an_error(tmp_path):
    file = tmp_path / "secret"
    file.write_text("quicksilver")
    file.chmod(0)
    with pytest.raises(ConfigError, match="cannot be read"):
        load_settings(None, {f"{STORE}_FILE": str(file)})


def test_an_empty_variable_names_no_file():
    with pytest.raises(ConfigError, match=f"{STORE}_FILE: names no file; set it to the path of a file, or unset it"):
        load_settings(None, {f"{STORE}_FILE": ""})


@pytest.mark.parametrize("variable", [STORE, "JACQUARD_SELECTOR__API_KEY"])
def test_the_value_and_its_file_together_are_an_error(variable, tmp_path):
    (tmp_path / "secret").write_text("quicksilver")
    with pytest.raises(ConfigError, match=f"{variable}_FILE: is set together with {variable}; unset one of them"):
        load_settings(None, {variable: "other", f"{variable}_FILE": str(tmp_path / "secret")})


def test_what_is_no_credential_is_not_read_from_a_file(tmp_path):
    (tmp_path / "port").write_text("80")
    with pytest.raises(ConfigError, match="JACQUARD_SERVICE__PORT_FILE: is no setting"):
        load_settings(None, {"JACQUARD_SERVICE__PORT_FILE": str(tmp_path / "port")})


def test_the_file_is_shown_as_the_source_and_never_its_value(tmp_path):
    store, key = tmp_path / "store", tmp_path / "key"
    store.write_text(ADDRESS)
    key.write_text("quicksilver")
    variables = {f"{STORE}_FILE": str(store), "JACQUARD_SELECTOR__API_KEY_FILE": str(key)}
    shown = {name: (value, source) for name, value, source in settings_in_force(None, variables)}
    assert shown["service.store"][1] == f"{STORE}_FILE ({store})"
    assert shown["selector.api_key"] == ("***", f"JACQUARD_SELECTOR__API_KEY_FILE ({key})")
    assert "quicksilver" not in repr(shown)
    assert find_store(None, variables) == (ADDRESS, f"{STORE}_FILE ({store})")
