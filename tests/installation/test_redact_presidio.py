import socket

import pytest

from jacquard import ConfigError, RedactionConfig
from jacquard.wiring.parts.ingest import open_redactor
from mnemosyne import RedactionError, RedactionRules
from mnemosyne.privacy.redact import RegexRedactor

pytestmark = pytest.mark.anyio

FOUND = [
    ("电话13812345678，谢谢", "13812345678", "pii_phone_number"),
    ("call +44 20 7946 0958 at noon", "+44 20 7946 0958", "pii_phone_number"),
    ("Aadhaar 2345 6789 0124, please", "2345 6789 0124", "pii_in_aadhaar"),
    ("NRIC S1234567D", "S1234567D", "pii_sg_nric_fin"),
]
HARMLESS = [
    "The sword cost 1200 gold in 1387.",
    "HP 85/100, damage 2d6+3",
    "uuid 123e4567-e89b-12d3-a456-426614174000",
    "第12回合，2026-01-31，圆周率约为3.1415926535。",
    "Coordinates 39.9042, 116.4074",
]


@pytest.fixture(scope="module")
def presidio():
    """Imported by the tests that need it: it takes seconds."""
    return pytest.importorskip("mnemosyne.privacy.presidio", reason="the extra `pii` is not installed")


@pytest.fixture(scope="module")
def detector(presidio):
    return presidio.PresidioDetector()


async def test_numbers_of_many_countries_are_found_without_a_connection(detector, monkeypatch):
    def refused(*args):
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refused)
    for text, secret, rule in FOUND:
        spans = await detector.detect(text)
        assert (rule, secret) in {(span.rule, text[span.begin : span.end]) for span in spans}, text


async def test_harmless_numbers_and_placeholders_stay(detector):
    for text in (*HARMLESS, "[redacted:phone] and [redacted:pii_in_aadhaar]"):
        assert await detector.detect(text) == (), text


async def test_it_stands_beside_the_patterns(detector):
    redactor = RegexRedactor(RedactionRules(dictionaries=("pii",)), detector=detector)
    result = await redactor.redact("Aadhaar 2345 6789 0124, mail a@b.cn")
    assert result.redacted_text == "Aadhaar [redacted:pii_in_aadhaar], mail [redacted:email]"
    again = await redactor.redact(result.redacted_text)
    assert again.redacted_text == result.redacted_text


def test_a_recogniser_that_needs_a_model_is_refused(presidio):
    with pytest.raises(RedactionError, match="StanzaRecognizer"):
        presidio.PresidioDetector(recognisers=("StanzaRecognizer",))


@pytest.fixture
def namer(presidio, tmp_path):
    """A detector with a model that knows one name."""
    model = pytest.importorskip("spacy").blank("en")
    model.add_pipe("entity_ruler").add_patterns([{"label": "PERSON", "pattern": "Elowen Marsh"}])
    model.to_disk(tmp_path / "names")
    return presidio.PresidioDetector(models=(str(tmp_path / "names"),))


async def test_names_are_found_by_an_installed_model(namer):
    long = "The tide came in at six. " * 1_200
    result = await RegexRedactor(detector=namer).redact(f"{long}Then Elowen Marsh lit the lamp.")
    assert result.redacted_text == f"{long}Then [redacted:pii_person] lit the lamp."


def test_a_model_that_is_not_there_or_finds_no_names_is_named(presidio, tmp_path):
    with pytest.raises(RedactionError, match="no_such_model"):
        presidio.PresidioDetector(models=("no_such_model",))
    pytest.importorskip("spacy").blank("en").to_disk(tmp_path / "blank")
    with pytest.raises(RedactionError, match="finds no entities"):
        presidio.PresidioDetector(models=(str(tmp_path / "blank"),))


def test_a_configuration_without_a_model_says_what_to_install(presidio):
    if presidio.installed_models():
        pytest.skip("a spaCy model is installed")
    with pytest.raises(ConfigError, match="en_core_web_sm"):
        open_redactor(RedactionConfig(detector="presidio_names"))
