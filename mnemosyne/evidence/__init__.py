"""Ingests text from outside as evidence (retrieved passages, tool results, documents), and uses it in prompts.

Ingestion is the only way by which text from outside becomes evidence.
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
