"""Lists the arms of recall in a table. An arm is one way of searching memory: by words or by vectors.

The table has every difference between the arms except the search itself. The module `hybrid` searches; `fusion` joins the
results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from mnemosyne.retrieval.recall.fusion import WEIGHTS, Arm, FusionWeights, vector_weight
from mnemosyne.retrieval.recall.query_features import QueryFeatures
from mnemosyne.schema.memory import Chain
from mnemosyne.schema.query import Hits
from mnemosyne.values import dataclass

BM25 = "bm25"
VECTOR = "vector"

Weigh = Callable[[QueryFeatures, Chain, float, FusionWeights], float]
"""Returns the weight of an arm's best hit for a query in a chain. The third argument is the share of the query that
the model knows.
"""


def _weigh_words(features: QueryFeatures, chain: Chain, fitness: float, weights: FusionWeights) -> float:
    """Words are the measure: other arms are weighed against them."""
    return 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class ArmTraits:
    """Traits of an arm.

    `signal` is the field of `Signals` that keeps the arm's score. `is_dense` states whether the arm gives every entry
    a score (`Arm.dense`). `weigh` returns the arm's weight.
    """

    signal: str
    is_dense: bool
    weigh: Weigh


ARMS: Mapping[str, ArmTraits] = MappingProxyType(
    {
        BM25: ArmTraits(signal="fts", is_dense=False, weigh=_weigh_words),
        VECTOR: ArmTraits(signal="vector", is_dense=True, weigh=vector_weight),
    }
)
ALL_ARMS = frozenset(ARMS)


def build_arm(
    name: str,
    hits: Hits,
    *,
    features: QueryFeatures,
    chain: Chain,
    fitness: float,
    weights: FusionWeights = WEIGHTS,
    is_alone: bool = False,
) -> Arm:
    """Return `hits`, found by the arm `name` in `chain`, with the arm's weight for the query that has `features`.

    `fitness` is the share of the query that the model knows. If `is_alone`, no other arm is used, and the weight is 1. Raises
    KeyError for an unknown arm.
    """
    traits = ARMS[name]
    weight = 1.0 if is_alone else traits.weigh(features, chain, fitness, weights)
    power = weights.vector_power if traits.is_dense else 1.0
    return Arm(hits=hits, weight=weight, dense=traits.is_dense, power=power)
