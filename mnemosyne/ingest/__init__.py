"""Ingestion: the one door through which text from outside becomes evidence (seed 002 section 6.3; spec 3.6)."""

from mnemosyne.ingest.ingestor import RedactingIngestor
from mnemosyne.ingest.recalled import without_shown
from mnemosyne.ingest.rules import IngestRules, confidence_of, is_expired, trust_of
from mnemosyne.ingest.vault import FolderVault

__all__ = [
    "FolderVault",
    "IngestRules",
    "RedactingIngestor",
    "confidence_of",
    "is_expired",
    "trust_of",
    "without_shown",
]
