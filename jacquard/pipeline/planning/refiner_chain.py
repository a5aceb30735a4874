"""Several planner tiers above the rules, used as one: the first plan is taken."""

from __future__ import annotations

from collections.abc import Sequence

from jacquard.core.errors import ModelError
from jacquard.core.plan import PlanContext
from jacquard.core.protocols import PlanRefiner, PlanRequest
from mnemosyne.schema.document import ModelUsage


class RefinerChain:
    """Calls refiners in order until one returns a plan; together they have the time limit of one.

    Raises ValueError if there is no refiner.
    """

    def __init__(self, refiners: Sequence[PlanRefiner]) -> None:
        if not refiners:
            raise ValueError("a chain needs at least one refiner")
        self._refiners = tuple(refiners)
        self.model = ", ".join(refiner.model for refiner in refiners)

    async def refine(self, request: PlanRequest) -> tuple[PlanContext, tuple[ModelUsage, ...]]:
        """Return the first plan, with the model calls of all refiners so far; raises the last ModelError if none returns a
        plan.
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
