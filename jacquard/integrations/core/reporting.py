"""Counts the actions and problems of an adapter. Hooks of a framework may be called on several threads at once."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from threading import Lock

from jacquard.integrations.core.values import AdapterReport, Problem
from mnemosyne.core.masking.credentials import mask_credentials

MOST_PROBLEMS = 100
"""Maximum number of problems that a report keeps, the newest ones."""


class ReportBook:
    """Collects the report of one adapter."""

    def __init__(self, framework: str, version: str) -> None:
        self._report = AdapterReport(framework=framework, version=version)
        self._problems: deque[Problem] = deque(maxlen=MOST_PROBLEMS)
        self._lock = Lock()

    @property
    def report(self) -> AdapterReport:
        """The report so far."""
        with self._lock:
            return replace(self._report, problems=tuple(self._problems))

    def add(self, **counts: int) -> None:
        """Add `counts` to the counts of the report that have these names."""
        with self._lock:
            self._report = replace(
                self._report, **{name: getattr(self._report, name) + count for name, count in counts.items()}
            )

    def note(self, step: str, session_id: str, turn_id: str, detail: str) -> Problem:
        """Add a problem to the report and return it. Credentials in `detail` are masked."""
        problem = Problem(step=step, session_id=session_id, detail=mask_credentials(detail), turn_id=turn_id)
        with self._lock:
            self._problems.append(problem)
        return problem
