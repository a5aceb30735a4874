"""Ingests text from outside as evidence (retrieved passages, tool results, documents), and uses it in prompts.

Ingestion is the only way by which text from outside becomes evidence. A selector names a part of an evidence item's
text. A ref points at an evidence item or a part of one. A block is a part of a prompt that shows the texts of its
refs.
"""

from mnemosyne.evidence.echoes import without_shown
from mnemosyne.evidence.ingestor import RedactingIngestor, SessionIngestor
from mnemosyne.evidence.rules import IngestRules, confidence_of, is_expired, trust_of
from mnemosyne.evidence.vault import FolderVault

__all__ = [
    "FolderVault",
    "IngestRules",
    "RedactingIngestor",
    "SessionIngestor",
    "confidence_of",
    "is_expired",
    "trust_of",
    "without_shown",
]
