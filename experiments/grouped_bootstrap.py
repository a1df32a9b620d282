"""A bootstrap over groups of rows that are not independent, for instance rows that share their context."""

import numpy as np

SEED = 0


def group_draws(groups: np.ndarray, resamples: int) -> list[np.ndarray]:
    """Resamples of whole groups.

    Args:
        groups: the number of the group of each row, from 0, shape (rows,).
        resamples: how many to draw.

    Returns:
        The indices of the rows that each resample holds.
    """
    members = [np.flatnonzero(groups == group) for group in range(groups.max() + 1)]
    draws = np.random.default_rng(SEED).integers(len(members), size=(resamples, len(members)))
    return [np.concatenate([members[group] for group in draw]) for draw in draws]
