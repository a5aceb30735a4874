"""Every entry point that takes text: `ENTRIES`, filled by the modules that are imported here."""

from __future__ import annotations

import entries_of_files
import entries_of_formats
import entries_of_memory
import entries_of_service
import entries_of_turns
from entry_points import ENTRIES, EXAMPLES, LIMITS, forget_texts

__all__ = [
    "ENTRIES",
    "EXAMPLES",
    "LIMITS",
    "entries_of_files",
    "entries_of_formats",
    "entries_of_memory",
    "entries_of_service",
    "entries_of_turns",
    "forget_texts",
]
