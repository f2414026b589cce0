"""Files that the program writes: safetensors, embeddings, scores, ranks."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List, Tuple, Union

import numpy as np

if TYPE_CHECKING:
    from vsetrain._ranks import Ranks

PathLike = Union[str, "os.PathLike[str]"]

_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1", "U8": "|u1",
           "BOOL": "|b1"}
_MAX_HEADER = 100 << 20  # bytes, as in the reference implementation


def read_safetensors(path: PathLike) -> Tuple[Dict[str, np.ndarray], Dict[str, str]]:
    """Return the tensors of a safetensors file, which stay on disk until they are read, and its metadata.

    Raises ValueError where the file is no safetensors file or is cut off.
    """
    size = os.path.getsize(path)
    with open(path, "rb") as f:
        length = int.from_bytes(f.read(8), "little")
        if size < 8 or length > min(size - 8, _MAX_HEADER):
            raise ValueError(f"{path}: no safetensors file: a header of {length} bytes in a file of {size}")
        try:
            header: Dict[str, Any] = json.loads(f.read(length))
        except ValueError as e:
            raise ValueError(f"{path}: no safetensors file: {e}") from e
    metadata = header.pop("__metadata__", {})
    begin = 8 + length
    data = np.memmap(path, dtype=np.uint8, mode="r", offset=begin) if size > begin else np.empty(0, np.uint8)
    tensors = {}
    for name, t in header.items():
        if t["dtype"] not in _DTYPES:
            raise ValueError(f"{path}: tensor {name} has the type {t['dtype']}; expected one of {', '.join(_DTYPES)}")
        lo, hi = t["data_offsets"]
        dtype = np.dtype(_DTYPES[t["dtype"]])
        if not 0 <= lo <= hi <= data.size or hi - lo != dtype.itemsize * int(np.prod(t["shape"], dtype=np.int64)):
            raise ValueError(f"{path}: tensor {name}: its bytes {lo} to {hi} do not fit the file or its shape")
        tensors[name] = data[lo:hi].view(dtype).reshape(t["shape"])
    return tensors, metadata


@dataclass(frozen=True)
class Embeddings:
    """What ``vsetrain embed`` writes: a vector for each image or caption, float32 [N, E], and its id."""

    vectors: np.ndarray
    ids: List[str]

    def __len__(self) -> int:
        return len(self.ids)


def _check_manifest(array: Path, ids: Path) -> None:
    """Raise ValueError where array or ids are not those that the manifest of their folder lists."""
    try:
        files = json.loads((array.parent / "vsetrain-manifest.json").read_text(encoding="utf-8"))["files"]
    except FileNotFoundError:
        return
    if array.name not in files or ids.name not in files:
        return
    block = 1 << 20
    with open(array, "rb") as f:
        first = f"{zlib.crc32(f.read(block)):08x}"
        f.seek(max(0, (os.path.getsize(array) - 1) // block * block))
        last = f"{zlib.crc32(f.read(block)):08x}"
    sums = files[array.name]
    if (os.path.getsize(array) != sums["size"] or not sums["blocks"].startswith(first)
            or not sums["blocks"].endswith(last)):
        raise ValueError(f"{array}: not the file that its manifest lists; run vsetrain embed again")
    if hashlib.sha256(ids.read_bytes()).hexdigest() != files[ids.name]["sha256"]:
        raise ValueError(f"{ids}: not the ids that {array.name} was written with; run vsetrain embed again")


def read_embeddings(path: PathLike) -> Embeddings:
    """Read NAME.npy with its NAME_ids.txt, or NAME.safetensors."""
    path = Path(path)
    if path.suffix.lower() == ".safetensors":
        tensors, metadata = read_safetensors(path)
        if "embeddings" not in tensors or "ids" not in metadata:
            raise ValueError(f"{path}: no embeddings of vsetrain; it holds {', '.join(tensors) or 'nothing'}")
        vectors, ids = tensors["embeddings"], json.loads(metadata["ids"])
        found = hashlib.sha256("".join(f"{i}\n" for i in ids).encode()).hexdigest()
        if metadata.get("ids_sha256", found) != found:
            raise ValueError(f"{path}: the ids are not those it was written with (SHA-256 {found[:12]}..., expected "
                             f"{metadata['ids_sha256'][:12]}...); run vsetrain embed again")
    else:
        vectors = np.load(path, mmap_mode="r", allow_pickle=False)
        names = path.with_name(path.stem + "_ids.txt")
        _check_manifest(path, names)
        ids = names.read_text(encoding="utf-8").split("\n")[:-1]
    if vectors.ndim != 2 or vectors.shape[0] != len(ids):
        raise ValueError(f"{path}: {vectors.shape} values and {len(ids)} ids; expected an id for each row")
    return Embeddings(vectors, ids)


def read_scores(path: PathLike) -> np.ndarray:
    """Read what ``vsetrain eval --save-scores`` wrote: float32 [images, captions], which stay on disk."""
    scores: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    if scores.ndim != 2 or scores.shape[0] == 0 or scores.shape[1] % scores.shape[0]:
        raise ValueError(f"{path}: scores {scores.shape}; expected [images, captions], as many captions for each image")
    return scores


def read_ranks(path: PathLike) -> "Ranks":
    """Read what ``vsetrain eval --save-ranks`` wrote."""
    from vsetrain._ranks import Ranks

    ranks: Dict[str, List[int]] = {"i2t": [], "t2i": []}
    first: Dict[str, List[int]] = {"i2t": [], "t2i": []}
    with open(path, newline="", encoding="utf-8") as f:
        for number, row in enumerate(csv.DictReader(f), 2):
            try:
                direction = row["direction"]
                if int(row["query"]) != len(ranks[direction]):
                    raise ValueError(f"query {row['query']}; expected {len(ranks[direction])}")
                ranks[direction].append(int(row["rank"]))
                first[direction].append(int(row["top1"]))
            except (KeyError, TypeError, ValueError) as e:
                raise ValueError(f"{path}:{number}: expected direction, query, rank, top1: {e}") from e
    return Ranks(*(np.array(x, dtype=np.int64) for x in (ranks["i2t"], ranks["t2i"], first["i2t"], first["t2i"])))
