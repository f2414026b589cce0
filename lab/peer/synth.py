"""Synthetic batches with the caption lengths of Flickr30K."""
import math

import numpy as np
import torch

from .base import BERT_VOCAB, FEAT, REGIONS, VOCAB, Lengths
from .gsmn import adjacencies

AUGMENTED = ("vseinf-bigru", "vseinf-bert", "chan")         # networks that lose words and regions in training

# Number of Flickr30K training captions per token count (start and end token included), measured on the 145,000
# public training captions with a Treebank-style tokeniser; the 440 captions longer than 40 are put at 40.  Mean 15.4.
LENGTH_HIST = {
    4: 11, 5: 47, 6: 255, 7: 1005, 8: 3256, 9: 7173, 10: 10087, 11: 11988, 12: 13518, 13: 14053, 14: 13222,
    15: 11758, 16: 10344, 17: 9097, 18: 7406, 19: 6072, 20: 4864, 21: 4025, 22: 3250, 23: 2544, 24: 2173, 25: 1616,
    26: 1299, 27: 1076, 28: 920, 29: 716, 30: 594, 31: 440, 32: 360, 33: 337, 34: 253, 35: 207, 36: 154, 37: 164,
    38: 118, 39: 88, 40: 529,
}


def zipf_ids(rng, n, lo, hi):
    k = hi - lo
    u = rng.random(n)
    # inverse of the log-like cumulative function of p(rank) ~ 1/(rank + 2.7)
    r = np.floor(2.7 * (((k + 2.7) / 2.7) ** u) - 2.7).astype(np.int64)
    return lo + np.clip(r, 0, k - 1)


def region_rows(rng, *shape):
    """non-negative like bottom-up-attention features: |normal|, mean 0.45"""
    x = rng.standard_normal(shape, dtype=np.float32)
    np.abs(x, out=x)
    x *= np.float32(0.45 / math.sqrt(2.0 / math.pi))
    return x


class Synth:
    """Deterministic batches with Flickr30K caption lengths."""

    def __init__(self, name, batch, seed):
        self.name, self.batch = name, batch
        self.rng = np.random.default_rng(seed)
        ks = np.array(sorted(LENGTH_HIST))
        ps = np.array([LENGTH_HIST[k] for k in ks], dtype=np.float64)
        self.ks, self.ps = ks, ps / ps.sum()

    def lengths(self, n):
        return self.rng.choice(self.ks, size=n, p=self.ps)

    def caption(self, n):
        if self.name == "vseinf-bert":
            return np.concatenate(([101], zipf_ids(self.rng, n - 2, 1000, BERT_VOCAB), [102]))
        return np.concatenate(([1], zipf_ids(self.rng, n - 2, 4, VOCAB), [2]))

    def drop_words(self, ids):
        """VSE-infinity size augmentation: 8 % of the tokens vanish (masked/replaced ones keep the length)"""
        u = self.rng.random(len(ids))
        keep = u >= 0.08
        if self.name == "vseinf-bert":
            keep[0] = keep[-1] = True
        return ids[keep] if keep.any() else ids[:1]

    def depends(self, n):
        return [[0, int(self.rng.integers(1, n))]] + [[int(self.rng.integers(1, n)), int(self.rng.integers(1, n))] for _ in range(n - 2)]

    def make(self):
        rng, b = self.rng, self.batch
        caps = [self.caption(int(k)) for k in self.lengths(b)]
        ids = rng.choice(145000, size=b, replace=False)
        images = region_rows(rng, b, REGIONS, FEAT)
        out = {}
        if self.name in AUGMENTED:
            caps = [self.drop_words(c) for c in caps]
            keep = [np.flatnonzero(rng.random(REGIONS) > 0.20) for _ in range(b)]
            keep = [k if len(k) else np.array([0]) for k in keep]
        if self.name != "vseinf-bert":
            order = sorted(range(b), key=lambda i: -len(caps[i]))
            caps, ids = [caps[i] for i in order], ids[order]
        if self.name in AUGMENTED:
            n = [len(k) for k in keep]
            full = np.zeros((b, max(n), FEAT), dtype=np.float32)
            for i, k in enumerate(keep):
                full[i, :len(k)] = images[i, k]
            images = full
            out["image_lengths"] = torch.tensor(n, dtype=torch.float32)
        out["images"] = torch.from_numpy(images)
        out["lengths"] = [len(c) for c in caps]
        tokens = torch.zeros(b, max(out["lengths"]), dtype=torch.long)
        for i, c in enumerate(caps):
            tokens[i, :len(c)] = torch.from_numpy(c)
        out["tokens"] = tokens
        out["caption_ids"], out["image_ids"] = ids, ids // 5
        out["svd"] = torch.from_numpy(rng.standard_normal((b, 400), dtype=np.float32) * np.float32(0.04))
        if self.name == "vsrn":
            out["labels"], out["masks"] = caption_labels(caps, 60)
        if self.name == "gsmn":
            xy = np.sort(rng.random((b, REGIONS, 2, 2), dtype=np.float32), axis=2)
            out["boxes"] = torch.from_numpy(np.concatenate((xy[:, :, 0], xy[:, :, 1]), -1))
            out["depends"] = [self.depends(n) for n in out["lengths"]]
        return out


def caption_labels(caps, max_len):
    labels = np.zeros((len(caps), max_len + 1), dtype=np.int64)
    masks = np.zeros((len(caps), max_len + 1), dtype=np.float32)
    for i, c in enumerate(caps):
        full = [int(x) for x in c]
        if len(full) > max_len - 1:
            full = full[:max_len]
            full[-1] = 2
        labels[i, :len(full)] = full
        masks[i, :len(full) + 1] = 1
    return torch.from_numpy(labels), torch.from_numpy(masks)


DEVICE_KEYS = ("images", "tokens", "svd", "labels", "masks", "boxes")


def to_device(b, device):
    return {k: (v.to(device, non_blocking=True) if k in DEVICE_KEYS else v) for k, v in b.items()}


def placed(b, device, together):
    """A batch that stays on the device, with all that its steps would else make on the host and send."""
    b = to_device(b, device)
    b["lengths"] = Lengths.of(b["lengths"])
    if "image_lengths" in b:
        b["image_lengths"] = Lengths.of(b["image_lengths"])
    keep = torch.from_numpy(b["image_ids"])[:, None] != torch.from_numpy(b["caption_ids"] // 5)
    b["keep"] = keep.float().to(device)
    if together and "depends" in b:
        b["adjacent"] = adjacencies(b["depends"], b["lengths"]).to(device)
    return b
