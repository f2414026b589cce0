"""Read the runs, scores and embeddings of vsetrain into NumPy, and ask its networks.

>>> import vsetrain
>>> run = vsetrain.Run("runs/demo")
>>> run.validations["m_recall"].max()
>>> images = vsetrain.read_embeddings("images.npy")
>>> captions = vsetrain.read_embeddings("captions.npy")
>>> vsetrain.rank(images.vectors @ captions.vectors.T).m_recall
>>> with vsetrain.load("runs/demo") as model:
...     model.search("a dog runs on the beach", k=3)
"""

from vsetrain._files import Embeddings, read_embeddings, read_ranks, read_safetensors, read_scores
from vsetrain._model import Hit, Model, load
from vsetrain._program import program
from vsetrain._ranks import Ranks, rank
from vsetrain._runs import Run, find_runs

__all__ = [
    "Embeddings",
    "Hit",
    "Model",
    "Ranks",
    "Run",
    "find_runs",
    "load",
    "program",
    "rank",
    "read_embeddings",
    "read_ranks",
    "read_safetensors",
    "read_scores",
]
