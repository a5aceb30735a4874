"""Filament: writes prompts for a model as XML and YAML, and reads the model's replies as XML and JSON.

- Prompt: `display`, `with_anchors` and `collect_anchors` prepare a state tree (nested mappings and lists) for the
  prompt. `render` and `render_body` write the prompt.
- Reply: `parse_reply` reads the content, the thought and the ops. An op is one change of the state that the model
  asks for. `judge_ops` applies the ops, gives a verdict on each op, and returns all changes as a JSON Patch.

Words of this package:

- An anchor is a name that ops use for a mapping of the state: its `id` or its `_anchor`.
- A VWD (value with description) is the pair `[value, "text"]`.
- `$meta` contains the author's rules for a mapping; a model never sees `$meta`.
- An update is one block of ops in a reply.

The package does no I/O, reads no clock, has no async code and imports nothing from `mnemosyne` or `jacquard`.
`docs/en/filament.md` explains all of it.
"""

from filament.boundaries import ContentPiece, choose_boundary, show_text, split_content, unescape_content
from filament.errors import AnchorError, FilamentError, MarkupError, OpError, PayloadError, ReplyError
from filament.markup import (
    check_name,
    clean_surrogates,
    clean_text,
    close_tag,
    escape_attribute,
    escape_text,
    open_tag,
    show_as_written,
    unescape,
)
from filament.nodes import Data, Element, Node, Text, element
from filament.payload import dump_yaml, load_yaml, load_yaml_marked, scalar
from filament.read import parse_element
from filament.render import render, render_body
from filament.reply.json_body import unescape_strings
from filament.reply.stream import Reply, StreamParser, parse_reply
from filament.reply.tags import REPLY, Body, ExpectedReply, TagRule
from filament.reply.values import Block, Correction, EventKind, ParsedReply, ParseEvent, Piece, PieceKind
from filament.state.anchors import collect_anchors, with_anchors
from filament.state.changes.judge import AppliedOps, JudgedOps, apply_ops, judge_ops, resolve
from filament.state.changes.ops import Op, Verb, parse_op
from filament.state.changes.patch import apply_patch
from filament.state.changes.sizes import OpLimits
from filament.state.descriptions import with_descriptions
from filament.state.display import display, is_hidden_at, list_limits, with_own_lists, without_hidden
from filament.state.verdicts import Authority, Legal, Note, OpVerdict, Outcome, Refusal, Remark

__all__ = [
    "REPLY",
    "AnchorError",
    "AppliedOps",
    "Authority",
    "Block",
    "Body",
    "ContentPiece",
    "Correction",
    "Data",
    "Element",
    "EventKind",
    "ExpectedReply",
    "FilamentError",
    "JudgedOps",
    "Legal",
    "MarkupError",
    "Node",
    "Note",
    "Op",
    "OpError",
    "OpLimits",
    "OpVerdict",
    "Outcome",
    "ParseEvent",
    "ParsedReply",
    "PayloadError",
    "Piece",
    "PieceKind",
    "Refusal",
    "Remark",
    "Reply",
    "ReplyError",
    "StreamParser",
    "TagRule",
    "Text",
    "Verb",
    "apply_ops",
    "apply_patch",
    "check_name",
    "choose_boundary",
    "clean_surrogates",
    "clean_text",
    "close_tag",
    "collect_anchors",
    "display",
    "dump_yaml",
    "element",
    "escape_attribute",
    "escape_text",
    "is_hidden_at",
    "judge_ops",
    "list_limits",
    "load_yaml",
    "load_yaml_marked",
    "open_tag",
    "parse_element",
    "parse_op",
    "parse_reply",
    "render",
    "render_body",
    "resolve",
    "scalar",
    "show_as_written",
    "show_text",
    "split_content",
    "unescape",
    "unescape_content",
    "unescape_strings",
    "with_anchors",
    "with_descriptions",
    "with_own_lists",
    "without_hidden",
]
