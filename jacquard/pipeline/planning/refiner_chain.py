"""Combines several refiners (small models that improve the plan of a turn) into one: the first plan that succeeds is used."""

from __future__ import annotations

from collections.abc import Sequence

from jacquard.core.errors import ModelError
from jacquard.core.plan import PlanContext
from jacquard.core.protocols import PlanRefiner, PlanRequest
from mnemosyne.schema.document import ModelUsage


class RefinerChain:
    """Calls the refiners in order until one returns a plan.

    The planner's time limit for a refiner applies to all refiners of the chain together. Raises ValueError if there is
    no refiner.
    """

    def __init__(self, refiners: Sequence[PlanRefiner]) -> None:
        if not refiners:
            raise ValueError("a chain needs at least one refiner")
        self._refiners = tuple(refiners)
        self.model = ", ".join(refiner.model for refiner in refiners)

    async def refine(self, request: PlanRequest) -> tuple[PlanContext, tuple[ModelUsage, ...]]:
        """Return (plan, usages): the first plan that a refiner returns, and the model calls of all refiners that were called.

        Raises ModelError if no refiner returns a plan. The error has the code and detail of the last refiner's error,
        and the model calls of all refiners.
        """
        failures: list[ModelError] = []
        for refiner in self._refiners:
            try:
                plan, usages = await refiner.refine(request)
            except ModelError as error:
                failures.append(error)
            else:
                return plan, (*_spent(failures), *usages)
        raise ModelError(failures[-1].code, failures[-1].detail, _spent(failures)) from failures[-1]


def _spent(failures: Sequence[ModelError]) -> tuple[ModelUsage, ...]:
    return tuple(usage for failure in failures for usage in failure.usages)
