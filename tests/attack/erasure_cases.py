"""Random sessions for the attack on erasure, and a search of what a store keeps that uses nothing of ours.

Several users talk in several sessions; what one says is quoted in replies, evidence, originals, summaries, plans, receipts,
prompts, state, tool calls and selections; sessions may share a prologue and have branches. Everything that was put in is
noted, by session and author, so that it is known what must be gone after an erasure and what others hold in their own right.
"""

from __future__ import annotations

import gc
import html
import json
import re
import sqlite3
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any
from xml.sax.saxutils import escape

import psycopg
from psycopg import sql

from mnemosyne import (
    Actor,
    Author,
    AuthorKind,
    BlockType,
    Chain,
    ContextBlock,
    Evidence,
    EvidenceSource,
    EvidenceType,
    FolderVault,
    ImportedTurn,
    JsonText,
    MemoryEntry,
    Message,
    Meta,
    PathSummary,
    Prefetch,
    Priority,
    Ref,
    Role,
    SessionStart,
    SourceKind,
    Store,
    Summary,
    Task,
    ToolCall,
    Trust,
    TurnCommit,
    TurnKind,
    TurnRecord,
    TurnStatus,
    session_scope,
)
