"""Ranks and recalls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict

import numpy as np


@dataclass(frozen=True, repr=False)
class Ranks:
    """The rank of the match of every query, from 0: for an image the best of its captions, as evaluation counts.

    ``i2t_first`` and ``t2i_first`` are the candidates that rank first.
    """

    i2t: np.ndarray
    t2i: np.ndarray
    i2t_first: np.ndarray
    t2i_first: np.ndarray

    def __repr__(self) -> str:
        return f"Ranks({len(self.i2t)} images, {len(self.t2i)} captions, m_recall={self.m_recall:.2f})"

    def recalls(self) -> Dict[str, float]:
        """R@1, R@5 and R@10 of both directions in percent, by the names i2t_r1 … t2i_r10."""
        return {f"{name}_r{k}": 100.0 * float(np.mean(ranks < k))
                for name, ranks in (("i2t", self.i2t), ("t2i", self.t2i)) for k in (1, 5, 10)}

    @property
    def m_recall(self) -> float:
        """The mean of the six recalls."""
        return float(np.mean(list(self.recalls().values())))


def rank(scores: Any) -> Ranks:
    """Rank scores [images, captions]; caption c belongs to image c // (captions / images).

    Of equal scores the larger number ranks first, as in evaluation. Works on a block of rows or columns at a time.
    A tensor of PyTorch is taken too, also one that has a gradient.
    """
    scores = numbers(scores)
    n, m = scores.shape
    if n == 0 or m % n:
        raise ValueError(f"scores {scores.shape}; expected [images, captions], as many captions for each image")
    k = m // n
    captions, images = np.arange(m), np.arange(n)
    i2t, t2i = np.empty(n, np.int64), np.empty(m, np.int64)
    i2t_first, t2i_first = np.empty(n, np.int64), np.empty(m, np.int64)
    for i in range(n):
        row = np.asarray(scores[i])
        own = row[i * k:(i + 1) * k]
        best = i * k + k - 1 - int(np.argmax(own[::-1]))
        i2t[i] = np.sum((row > row[best]) | ((row == row[best]) & (captions > best)))
        i2t_first[i] = m - 1 - int(np.argmax(row[::-1]))
    for lo in range(0, m, 1024):
        part = np.asarray(scores[:, lo:lo + 1024])
        match = captions[lo:lo + part.shape[1]] // k
        own = part[match, np.arange(part.shape[1])]
        t2i[lo:lo + part.shape[1]] = np.sum((part > own) | ((part == own) & (images[:, None] > match)), axis=0)
        t2i_first[lo:lo + part.shape[1]] = n - 1 - np.argmax(part[::-1], axis=0)
    return Ranks(i2t, t2i, i2t_first, t2i_first)


def numbers(values: Any) -> Any:
    """Return what NumPy takes: the values of tensors of PyTorch, which may have a gradient or be on a GPU."""
    if isinstance(values, list) and values and hasattr(values[0], "detach"):
        return [numbers(x) for x in values]
    return values.detach().cpu().numpy() if hasattr(values, "detach") else values
