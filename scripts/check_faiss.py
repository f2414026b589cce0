#!/usr/bin/env python3
"""Build a FAISS index from the embeddings that `vsetrain embed` wrote, and compare its answers with `vsetrain search`.

    vsetrain embed RUN --of images --out images.npy
    vsetrain embed RUN --of captions --out captions.npy
    python3 scripts/check_faiss.py RUN --data DATA [--images images.npy] [--captions captions.npy]

The arrays must be float32 in C order with rows of length 1: FAISS takes them as they are. Images whose scores are equal
to float32 precision may change places. It needs faiss (pip install faiss-cpu) and ends with 1 where answers differ.
"""

import argparse
import json
import subprocess
import sys

import faiss
import numpy as np


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("run")
    p.add_argument("--data", required=True, help="folder of the data set, for the words of the captions")
    p.add_argument("--split", default="test")
    p.add_argument("--images", default="images.npy")
    p.add_argument("--captions", default="captions.npy")
    p.add_argument("--queries", type=int, default=500, help="captions to compare, evenly spread")
    p.add_argument("--k", type=int, default=10)
    p.add_argument("--program", default="vsetrain")
    o = p.parse_args()

    images, captions = np.load(o.images), np.load(o.captions)
    for name, x in ((o.images, images), (o.captions, captions)):
        if x.dtype != np.float32 or not x.flags.c_contiguous:
            sys.exit(f"{name}: {x.dtype}; expected float32 in C order")
        off = np.abs(np.linalg.norm(x.astype(np.float64), axis=1) - 1).max()
        if off > 1e-5:
            sys.exit(f"{name}: a row whose length differs from 1 by {off:.2g}")
    with open(f"{o.data}/{o.split}_caps.txt", encoding="utf-8") as f:
        texts = f.read().splitlines()
    if len(texts) != len(captions):
        sys.exit(f"{len(texts)} captions in {o.data}, {len(captions)} embeddings in {o.captions}")
    index = faiss.IndexFlatIP(images.shape[1])
    index.add(images)

    chosen = np.unique(np.linspace(0, len(captions) - 1, min(o.queries, len(captions))).astype(int))
    scores, found = index.search(captions[chosen], o.k)
    lines = [json.loads(line) for line in subprocess.run(
        [o.program, "search", "-", "--checkpoint", o.run, "--data", o.data, "--split", o.split, "--k", str(o.k), "--json"],
        check=True, text=True, input="".join(texts[c] + "\n" for c in chosen), stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL).stdout.splitlines()]
    if len(lines) != len(chosen):
        sys.exit(f"{len(lines)} answers to {len(chosen)} queries")
    swapped = 0
    for q, line, row, values in zip(chosen, lines, found, scores):
        for rank, (hit, image, value) in enumerate(zip(line["hits"], row, values)):
            if abs(hit["score"] - value) > 1e-5:
                print(f"caption {q}, rank {rank + 1}: score {hit['score']:.6f}, FAISS has {value:.6f}")
                return 1
            swapped += hit["image"] != image
    among = f"the same {found.shape[1]} of {len(images)} images"
    if swapped:
        among += f"; {swapped} of equal scores have changed places"
    print(f"{len(chosen)} queries: FAISS and vsetrain find {among}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
