"""Figures that reports and benchmarks share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def percentiles(values: Sequence[float], *ranks: float) -> tuple[float, ...]:
    """Return percentiles (0..100) by linear interpolation; 0 for no values."""
    if not values:
        return tuple(0.0 for _ in ranks)
    return tuple(float(value) for value in np.percentile(np.asarray(values, dtype=np.float64), ranks))
