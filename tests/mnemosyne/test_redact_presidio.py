import socket

import pytest

from mnemosyne import RedactionError, RedactionRules, RegexRedactor

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
