"""A DataLoader that works as those of the references do."""
import contextlib
import os
import random
import re
import tempfile

import numpy as np
import torch

from .base import BERT_VOCAB, FEAT, REGIONS, VOCAB, log
from .synth import AUGMENTED, Synth, caption_labels, region_rows


class RowDataset(torch.utils.data.Dataset):
    """Reference-like: the whole .npy in memory, captions turned into ids item by item (a regular expression stands in
    for the NLTK tokeniser, so this is a lower bound of the reference's per-item cost)."""

    def __init__(self, name, path, svd_rows, seed):
        synth = Synth(name, 1, seed)
        self.name = name
        self.images = np.load(path)
        n = self.images.shape[0] * 5
        self.words = ["w%d" % i for i in range(BERT_VOCAB)]
        self.index = {w: i for i, w in enumerate(self.words)}
        self.captions = [" ".join(self.words[i] for i in synth.caption(int(k))[1:-1]) + "." for k in synth.lengths(n)]
        self.svd = svd_rows
        if name == "gsmn":
            rng = np.random.default_rng(seed)
            xy = np.sort(rng.random((self.images.shape[0], REGIONS, 2, 2), dtype=np.float32), axis=2)
            self.boxes = np.concatenate((xy[:, :, 0], xy[:, :, 1]), -1) * 500
            self.depends = [synth.depends(len(c.split()) + 2) for c in self.captions]

    def __len__(self):
        return len(self.captions)

    def __getitem__(self, i):
        img = i // 5
        toks = re.findall(r"\w+|[^\w\s]", self.captions[i].strip().lower())[:-1]
        bert = self.name == "vseinf-bert"
        ids = [101 if bert else 1] + [self.index[t] for t in toks] + [102 if bert else 2]
        row = self.images[img]
        if self.name in AUGMENTED:
            row = row[np.where(np.random.rand(row.shape[0]) > 0.20)]
            out = []
            for t in ids:
                u = random.random()
                if u < 0.20:
                    u /= 0.20
                    if u < 0.5:
                        out.append(103 if bert else VOCAB)
                    elif u < 0.6:
                        out.append(random.randrange(4, VOCAB))
                else:
                    out.append(t)
            ids = out or ids[:1]
        item = [torch.Tensor(row), torch.Tensor(ids), i, img, torch.Tensor(self.svd[i])]
        if self.name == "gsmn":
            boxes = self.boxes[img].copy()
            for k in range(REGIONS):
                boxes[k][0] /= 500.0
                boxes[k][1] /= 500.0
                boxes[k][2] /= 500.0
                boxes[k][3] /= 500.0
            item += [torch.Tensor(boxes), self.depends[i]]
        return item


class Collate:
    def __init__(self, name):
        self.name = name

    def __call__(self, data):
        if self.name != "vseinf-bert":
            data.sort(key=lambda x: len(x[1]), reverse=True)
        cols = list(zip(*data))
        out = {"caption_ids": np.array(cols[2]), "image_ids": np.array(cols[3]), "svd": torch.stack(cols[4], 0)}
        if self.name in AUGMENTED:
            n = [len(x) for x in cols[0]]
            images = torch.zeros(len(n), max(n), FEAT)
            for i, x in enumerate(cols[0]):
                images[i, :n[i]] = x
            out["images"], out["image_lengths"] = images, torch.Tensor(n)
        else:
            out["images"] = torch.stack(cols[0], 0)
        out["lengths"] = [len(c) for c in cols[1]]
        tokens = torch.zeros(len(cols[1]), max(out["lengths"])).long()
        for i, c in enumerate(cols[1]):
            tokens[i, :len(c)] = c
        out["tokens"] = tokens
        if self.name == "vsrn":
            out["labels"], out["masks"] = caption_labels([c.long().tolist() for c in cols[1]], 60)
        if self.name == "gsmn":
            out["boxes"], out["depends"] = torch.stack(cols[5], 0), list(cols[6])
        return out


REFERENCE_WORKERS = {"saf": 0, "sgr": 0, "gsmn": 0}         # these two repositories never pass num_workers on


@contextlib.contextmanager
def loader_source(opts, need):
    rows = max(opts.loader_rows, (need * opts.batch + 4) // 5 + 1)
    tmp = tempfile.NamedTemporaryFile(suffix=".npy", dir=opts.tmp, delete=False)
    try:
        log("writing %d feature rows (%.2f GB)" % (rows, rows * REGIONS * FEAT * 4 / 1e9))
        mm = np.lib.format.open_memmap(tmp.name, mode="w+", dtype=np.float32, shape=(rows, REGIONS, FEAT))
        rng = np.random.default_rng(opts.seed)
        for i in range(0, rows, 128):
            mm[i:i + 128] = region_rows(rng, min(128, rows - i), REGIONS, FEAT)
        del mm
        svd = np.random.default_rng(opts.seed).standard_normal((rows * 5, 400)) * 0.04
        data = RowDataset(opts.network, tmp.name, svd, opts.seed)
        workers = opts.workers
        if workers < 0:
            workers = min(REFERENCE_WORKERS.get(opts.network, 10), os.cpu_count() or 1)
        gen = torch.Generator()
        gen.manual_seed(opts.seed)
        loader = torch.utils.data.DataLoader(data, batch_size=opts.batch, shuffle=True, num_workers=workers, drop_last=True,
                                             pin_memory=opts.device == "cuda", collate_fn=Collate(opts.network), generator=gen)
        yield loader, workers, rows
    finally:
        os.unlink(tmp.name)
