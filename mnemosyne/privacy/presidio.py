"""Uses Presidio's recognisers to find phone numbers of many countries, national numbers with check digits, and names.

Only this file imports presidio_analyzer. The import takes seconds, because presidio imports spaCy (and torch if it is
installed). So this module is imported only if a configuration names this detector. Only recognisers based on patterns and check
digits are used, because the recognisers for e-mail and web addresses would download a list of domains. Names of persons are
found by spaCy models that are already installed. This module opens no connection and downloads no model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from anyio import to_thread
from presidio_analyzer import predefined_recognizers
from spacy import load as load_model
from spacy.util import get_installed_models

from mnemosyne.core.errors import RedactionError
from mnemosyne.schema.redaction import SensitiveSpan

REGIONS = ("CN", "US", "GB")
"""Countries whose national phone formats are recognised.

Numbers with a country code are found for every country. More regions would make more harmless numbers look like
phones.
"""
RECOGNISERS = (
    "CreditCardRecognizer",
    "CryptoRecognizer",
    "IbanRecognizer",
    "MacAddressRecognizer",
    "AuAbnRecognizer",
    "AuMedicareRecognizer",
    "AuTfnRecognizer",
    "CaSinRecognizer",
    "DeTaxIdRecognizer",
    "EsNieRecognizer",
    "EsNifRecognizer",
    "FiPersonalIdentityCodeRecognizer",
    "InAadhaarRecognizer",
    "InPanRecognizer",
    "ItFiscalCodeRecognizer",
    "KrRrnRecognizer",
    "NhsRecognizer",
    "PlPeselRecognizer",
    "SePersonnummerRecognizer",
    "SgFinRecognizer",
    "ThTninRecognizer",
    "TrNationalIdRecognizer",
    "UkNinoRecognizer",
    "UsSsnRecognizer",
    "UsItinRecognizer",
    "ZaIdNumberRecognizer",
)
LEAST_SCORE = 0.4
"""Presidio's score of a phone number without a keyword before it. A pattern without check digits scores less."""

_PERSON_LABELS = ("PERSON", "PER")
_PIECE_CHARS = 20_000
_SEAM = re.compile(r"\[redacted:[a-z_]{1,40}\]")


class PresidioDetector:
    """Finds personal data by Presidio's recognisers: a `PiiDetector`.

    Its rules are named `pii_<kind>`, as in `pii_phone_number` or `pii_in_aadhaar`.

    Args:
        recognisers: Names of classes in `presidio_analyzer.predefined_recognizers`; each must use only patterns.
        regions: Country codes whose national phone formats are recognised.
        least_score: Lowest score of a match that counts, 0..1.
        models: spaCy models, by package or folder, whose persons are found as `pii_person`.

    Raises:
        RedactionError: if a recogniser does not exist or uses more than patterns, or a model is not installed or
            finds no entities.
    """

    name = "presidio"

    def __init__(
        self,
        *,
        recognisers: Sequence[str] = RECOGNISERS,
        regions: Sequence[str] = REGIONS,
        least_score: float = LEAST_SCORE,
        models: Sequence[str] = (),
    ) -> None:
        self._least_score = least_score
        self._recognisers = [_load_analyzer(name) for name in recognisers]
        self._recognisers.append(predefined_recognizers.PhoneRecognizer(supported_regions=tuple(regions)))
        self._models = [_load_names_model(name) for name in models]

    async def detect(self, text: str) -> tuple[SensitiveSpan, ...]:
        """Return the spans of personal data in `text`, in order. Placeholders of redacted texts are skipped."""
        return await to_thread.run_sync(self._detect, text)

    def _detect(self, text: str) -> tuple[SensitiveSpan, ...]:
        seams = [found.span() for found in _SEAM.finditer(text)]
        spans = {
            SensitiveSpan(rule=_rule(found.entity_type), begin=found.start, end=found.end)
            for found in self._analyze(text)
            if found.score >= self._least_score and _is_whole_word(text, found.start, found.end)
        }
        for model in self._models:
            spans.update(_find_persons(model, text))
        apart = [span for span in spans if not any(low < span.end and span.begin < high for low, high in seams)]
        return tuple(sorted(apart, key=lambda span: (span.begin, span.end, span.rule)))

    def _analyze(self, text: str) -> Iterable[Any]:
        for recogniser in self._recognisers:
            yield from recogniser.analyze(text, recogniser.supported_entities, None) or ()


def installed_models() -> tuple[str, ...]:
    """Return the names of the installed spaCy models, in alphabetical order."""
    return tuple(sorted(get_installed_models()))


def _load_names_model(name: str) -> Any:
    try:
        model = load_model(name)
    except (OSError, ValueError, ImportError) as error:
        raise RedactionError(f"The spaCy model {name!r} cannot be loaded ({error}).") from error
    if not {"ner", "entity_ruler"} & set(model.pipe_names):
        raise RedactionError(f"The spaCy model {name!r} finds no entities; use one whose pipeline has `ner`.")
    return model


def _find_persons(model: Any, text: str) -> Iterator[SensitiveSpan]:
    for begin, end in _pieces(text):
        for entity in model(text[begin:end]).ents:
            if entity.label_ in _PERSON_LABELS:
                yield SensitiveSpan(rule="pii_person", begin=begin + entity.start_char, end=begin + entity.end_char)


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    """Yield pieces of a text that end with a line or a sentence, because a model's memory grows with the length of its
    input.
    """
    begin = 0
    while begin < len(text):
        end = begin + _PIECE_CHARS
        if end < len(text):
            ends = [text.rfind(mark, begin, end) for mark in ("\n", ". ", "。")]
            end = max(ends) + 1 if max(ends) > begin else end
        yield begin, min(end, len(text))
        begin = end


def _load_analyzer(name: str) -> Any:
    kind = getattr(predefined_recognizers, name, None)
    if kind is None or not hasattr(kind, "PATTERNS"):
        raise RedactionError(f"Presidio has no recogniser {name!r} that uses patterns only; leave it out.")
    return kind()


def _is_whole_word(text: str, begin: int, end: int) -> bool:
    """Return whether a match is not part of a longer word or number."""
    before = begin > 0 and (text[begin - 1] in ".-_/" or (text[begin - 1].isascii() and text[begin - 1].isalnum()))
    after = end < len(text) and text[end].isascii() and text[end].isalnum()
    return begin < end and not (before or after)


def _rule(entity: str) -> str:
    return f"pii_{re.sub('[^a-z]+', '_', entity.lower()).strip('_')}"
