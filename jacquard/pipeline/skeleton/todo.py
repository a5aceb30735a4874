"""Selects the part of a session's to-do list that a prompt shows: a limited number of open tasks. Pure.

Stream A (the skeleton of a prompt) and the Collector of layers both use this module. The module must not import a store
or a template.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mnemosyne.schema.document import Task, TaskStatus

TASKS_SHOWN = 20
TEXT_CHARS = 300
WAITS_SHOWN = 8
_OPEN = frozenset({TaskStatus.PENDING, TaskStatus.IN_PROGRESS, TaskStatus.FAILED})


def list_open_tasks(tasks: Sequence[Task]) -> dict[str, Any]:
    """Return the part of a to-do list that a prompt shows; {} if no task is open.

    - `open`: at most TASKS_SHOWN tasks, those in progress first, otherwise in their order. Each has `id`, `name` and
      `status`. A task that depends on open tasks has `waits_for`, and a task with an error has `error`. Texts are cut
      at TEXT_CHARS.
    - `more`: number of open tasks that are left out.
    - `completed`: number of completed tasks.

    Pending, running and failed tasks are open. Cancelled tasks are not shown.
    """
    left = [task for task in tasks if task.status in _OPEN]
    if not left:
        return {}
    waiting = {task.task_id for task in left}
    ordered = sorted(left, key=lambda task: task.status is not TaskStatus.IN_PROGRESS)
    shown: dict[str, Any] = {"open": [_row(task, waiting) for task in ordered[:TASKS_SHOWN]]}
    done = sum(task.status is TaskStatus.COMPLETED for task in tasks)
    counts = {"more": len(left) - TASKS_SHOWN, "completed": done}
    return {**shown, **{name: count for name, count in counts.items() if count > 0}}


def _row(task: Task, waiting: set[str]) -> dict[str, Any]:
    row: dict[str, Any] = {"id": _line(task.task_id), "name": _line(task.name), "status": task.status.value}
    if waits := [_line(other) for other in task.depends_on if other in waiting]:
        row["waits_for"] = waits[:WAITS_SHOWN]
    if task.error:
        row["error"] = _line(task.error)
    return row


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= TEXT_CHARS else line[: TEXT_CHARS - 1] + "…"
