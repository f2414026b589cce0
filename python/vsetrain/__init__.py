"""Read the runs, scores and embeddings of vsetrain into NumPy.

>>> import vsetrain
>>> run = vsetrain.Run("runs/demo")
>>> run.validations["m_recall"].max()
>>> images = vsetrain.read_embeddings("images.npy")
>>> captions = vsetrain.read_embeddings("captions.npy")
>>> vsetrain.rank(images.vectors @ captions.vectors.T).m_recall
"""

from vsetrain._files import Embeddings, read_embeddings, read_ranks, read_safetensors, read_scores
from vsetrain._program import program
from vsetrain._ranks import Ranks, rank
from vsetrain._runs import Run, find_runs

__all__ = [
    "Embeddings",
    "Ranks",
    "Run",
    "find_runs",
    "program",
    "rank",
    "read_embeddings",
    "read_ranks",
    "read_safetensors",
    "read_scores",
]
