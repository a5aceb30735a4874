"""Vectors in memory: what is admitted, and the nearest among the few that are compared."""

from __future__ import annotations

import numpy as np
import pytest
from recall_parts import unit

from mnemosyne.retrieval.engines.tables.nearest import VectorRows

ROWS, WIDTH, LIMIT = 16_000, 64, 20
RNG = np.random.default_rng(3)
CENTRES = RNG.normal(size=(40, WIDTH))
VECTORS = unit((CENTRES[RNG.integers(0, 40, ROWS)] + 0.5 * RNG.normal(size=(ROWS, WIDTH))).tolist())


def rows() -> VectorRows:
    made = VectorRows()
    made.take(VECTORS)
    return made


def best(found: tuple[np.ndarray, np.ndarray]) -> list[int]:
    slots, cosines = found
    return [int(slot) for slot in slots[np.argsort(-cosines, kind="stable")][:LIMIT]]


def test_only_what_is_admitted_is_found_and_nothing_twice() -> None:
    admitted = RNG.random(ROWS) < 0.9
    for query in VECTORS[:5]:
        slots, cosines = rows().nearest(query, admitted, LIMIT)
        assert admitted[slots].all()
        assert len(set(slots.tolist())) == len(slots) >= LIMIT
        assert cosines == pytest.approx(VECTORS[slots] @ query, abs=1e-5)


def test_few_are_compared_and_the_nearest_are_among_them() -> None:
    made, admitted = rows(), np.ones(ROWS, dtype=np.bool_)
    compared, shares = [], []
    for query in VECTORS[:20]:
        exact = set(np.argsort(-(VECTORS @ query))[:LIMIT].tolist())
        found = made.nearest(query, admitted, LIMIT)
        compared.append(len(found[0]))
        shares.append(len(exact & set(best(found))) / LIMIT)
    assert np.mean(shares) > 0.95
    assert max(compared) <= ROWS / 24


def test_estimates_order_rows_almost_as_cosines_do() -> None:
    """With a limit of 1 a 32nd of all rows is left by signs and estimates; it holds what is nearest by cosine."""
    made, admitted = rows(), np.ones(ROWS, dtype=np.bool_)
    for query in VECTORS[:10]:
        likely, _ = made.nearest(query, admitted, 1)
        exact = np.argsort(-(VECTORS @ query))[:20]
        assert len(likely) == ROWS // 32
        assert len(set(exact.tolist()) & set(likely.tolist())) >= 18


def test_slots_behind_the_last_vector_have_none() -> None:
    made = VectorRows()
    made.put([1, 3], [VECTORS[1], VECTORS[3]], 4)
    admitted = np.array([False, True, False, True, False, False])
    slots, _ = made.nearest(VECTORS[3], admitted, 5)
    assert sorted(slots.tolist()) == [1, 3]
    made.pack(np.array([True, False, True, True, True, True]))
    slots, cosines = made.nearest(VECTORS[3], np.array([False, False, True, False, False]), 5)
    assert slots.tolist() == [2]
    assert cosines == pytest.approx([1.0], abs=1e-6)
