"""The vectors nearest to another one, by the cosine."""

import numpy as np
from sklearn.metrics.pairwise import cosine_similarity


def nearest(
    query: np.ndarray, vectors: np.ndarray, top: int
) -> list[tuple[int, float]]:
    """Finds the nearest vectors.

    Args:
      query: float [H].
      vectors: float [N, H].
      top: how many to return, or all if there are fewer.
    Returns:
      Place and cosine of each, the nearest first.
    """
    [cosines] = cosine_similarity(query[np.newaxis], vectors)
    order = np.argsort(-cosines, kind="stable")[:top]
    return [(int(place), float(cosines[place])) for place in order]
