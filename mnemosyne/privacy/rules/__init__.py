"""Defines the shipped rules of redaction: personal numbers, labelled names and addresses, secrets, and network addresses.

Patterns are separate from the checks that exclude harmless texts, so that each can be read separately.
"""

from __future__ import annotations

from mnemosyne.privacy.rules.addresses import ADDRESS_RULES
from mnemosyne.privacy.rules.birth_dates import BIRTH_RULES
from mnemosyne.privacy.rules.checks import is_id_card, is_luhn
from mnemosyne.privacy.rules.numbers import NUMBER_RULES
from mnemosyne.privacy.rules.people import NAME_RULES
from mnemosyne.privacy.rules.rule import IDENTITY, INTERNAL_URLS, PII, SECRETS, Rule, Signs, signs_of
from mnemosyne.privacy.rules.secrets import SECRET_KEY, SECRET_RULES

RULES: tuple[Rule, ...] = (*SECRET_RULES, *NUMBER_RULES, *NAME_RULES, *BIRTH_RULES, *ADDRESS_RULES)
DICTIONARIES = (PII, IDENTITY, SECRETS, INTERNAL_URLS)
RULE_NAMES = tuple(dict.fromkeys(rule.name for rule in RULES))

__all__ = [
    "DICTIONARIES",
    "IDENTITY",
    "PII",
    "RULES",
    "RULE_NAMES",
    "SECRETS",
    "SECRET_KEY",
    "Rule",
    "Signs",
    "is_id_card",
    "is_luhn",
    "signs_of",
]
