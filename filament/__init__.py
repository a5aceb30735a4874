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
`docs/en/filament.md`, `state-ops.md`, `state-rules.md` and `replies.md` in the same folder explain all of it.
"""

from filament.errors import FilamentError, OpError, PayloadError
from filament.markup import clean_text, escape_attribute, escape_text, show_as_written, unescape
from filament.nodes import Data, Element, element
from filament.payload import dump_yaml, load_yaml, load_yaml_marked, scalar
from filament.read import parse_element
from filament.render import render
from filament.reply.stream import StreamParser, parse_reply
from filament.reply.tags import Body, ExpectedReply, TagRule
from filament.reply.values import EventKind
from filament.state.anchors import collect_anchors, with_anchors
from filament.state.changes.judge import apply_ops, judge_ops, resolve
from filament.state.changes.ops import parse_op
from filament.state.changes.patch import apply_patch
from filament.state.changes.sizes import OpLimits
from filament.state.display import display

__all__ = [
    "Body",
    "Data",
    "Element",
    "EventKind",
    "ExpectedReply",
    "FilamentError",
    "OpError",
    "OpLimits",
    "PayloadError",
    "StreamParser",
    "TagRule",
    "apply_ops",
    "apply_patch",
    "clean_text",
    "collect_anchors",
    "display",
    "dump_yaml",
    "element",
    "escape_attribute",
    "escape_text",
    "judge_ops",
    "load_yaml",
    "load_yaml_marked",
    "parse_element",
    "parse_op",
    "parse_reply",
    "render",
    "resolve",
    "scalar",
    "show_as_written",
    "unescape",
    "with_anchors",
]
