"""Defines the built-in rules of quests, which hold for the top field `quests` of a typed state.

A state is typed if its root's `$meta` has `typed: true`: its values then keep their types. The rules of quests have the form of
an author's `$meta`, and `quests` follows them like a template. They have three keys that authors do not have:

- `transitions`: for each value of a field, the values that may follow.
- `synonyms`: other words for the values of a field.
- `entries`: the template for the entries of one list.

This module imports nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

QUESTS = "quests"
STATUS = "status"
QUEST_STATUSES = ("inactive", "active", "completed", "failed", "paused")
OBJECTIVE_STATUSES = ("active", "completed", "failed")

QUEST_TRANSITIONS: Mapping[str, tuple[str, ...]] = {
    "inactive": ("active", "failed"),
    "active": ("completed", "failed", "paused"),
    "paused": ("active", "completed", "failed"),
    "failed": ("active",),
    "completed": (),
}
OBJECTIVE_TRANSITIONS: Mapping[str, tuple[str, ...]] = {
    "active": ("completed", "failed"),
    "failed": ("active",),
    "completed": (),
}

_WORDS: Mapping[str, tuple[str, ...]] = {
    "completed": (
        *("complete", "done", "finished", "finish", "succeeded", "success", "successful", "achieved", "true"),
        *("accomplished", "fulfilled", "resolved"),
        *("完成", "已完成", "完成了", "已经完成", "做完", "做完了", "达成", "已达成", "成功"),
        *("办完", "办完了", "办好", "办好了", "搞定", "搞定了", "解决", "解决了", "已解决", "了结", "了结了"),
    ),
    "failed": ("fail", "failure", "失败", "已失败", "失败了", "已经失败"),
    "active": (
        *("in progress", "ongoing", "open", "started", "begun", "activated", "current"),
        *("进行中", "进行", "正在进行", "激活", "已激活", "开始", "已开始", "开始了", "活跃"),
    ),
    "paused": ("pause", "on hold", "suspended", "暂停", "已暂停", "搁置", "已搁置"),
    "inactive": ("not started", "not yet started", "未开始", "尚未开始", "未激活", "待开始"),
}
SYNONYMS: Mapping[str, str] = {word: status for status, words in _WORDS.items() for word in words}
"""Words in lower case, with blanks for `_` and `-`, mapped to the status that they mean."""

_OBJECTIVE: Mapping[str, Any] = {
    "status": "active",
    "$meta": {
        "types": {
            "text": "text",
            "status": list(OBJECTIVE_STATUSES),
            "optional": "boolean",
            "progress": "any",
            "outcome": "text",
        },
        "transitions": {STATUS: OBJECTIVE_TRANSITIONS},
        "synonyms": {STATUS: SYNONYMS},
        "necessary": ["$self", "text", "status"],
        "extensible": False,
    },
}
_QUEST: Mapping[str, Any] = {
    "$meta": {
        "types": {
            "title": "text",
            "status": list(QUEST_STATUSES),
            "description": "text",
            "objectives": "list",
            "progress": "any",
            "outcome": "text",
        },
        "transitions": {STATUS: QUEST_TRANSITIONS},
        "synonyms": {STATUS: SYNONYMS},
        "necessary": ["$self", "title", "status", "objectives"],
        "updatable": {"links": False},
        "entries": {"objectives": _OBJECTIVE},
    },
}
QUESTS_SHAPE: Mapping[str, Any] = {"$meta": {"necessary": "self", "template": _QUEST}}
"""Template of the field `quests` in a typed state."""
