"""References and predictions at random."""

import numpy as np


def sample(rows: int, seed: int = 0) -> np.ndarray:
    """4-class references in about the proportions of the data set."""
    return np.random.default_rng(seed).choice(4, size=rows, p=[0.627, 0.045, 0.066, 0.262])


def noisy(references: np.ndarray, share_right: float, seed: int) -> np.ndarray:
    """Predictions that are right on about this share of rows and otherwise permuted references."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(len(references)) < share_right, references, rng.permutation(references))
