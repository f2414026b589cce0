"""Encoding, scoring and ranking as the references evaluate, timed."""
import math
import statistics
import time

import numpy as np
import torch

from .base import FEAT, REGIONS, l2_eps, sync
from .networks import Net
from .synth import LENGTH_HIST, Synth, region_rows, to_device
from .timing import autocast, common, configure, ms, peak_memory_mb


def recalls(sims, per_image, kind=None):
    """reference protocol: one argsort per query, reversed (ties: larger index first when the sort is stable)"""
    n = sims.shape[0]
    i2t = np.zeros(n)
    for i in range(n):
        inds = np.argsort(sims[i], kind=kind)[::-1]
        rank = 1e20
        for c in range(per_image * i, per_image * i + per_image):
            rank = min(rank, np.where(inds == c)[0][0])
        i2t[i] = rank
    cols = sims.T
    t2i = np.zeros(per_image * n)
    for i in range(n):
        for k in range(per_image):
            c = per_image * i + k
            inds = np.argsort(cols[c], kind=kind)[::-1]
            t2i[c] = np.where(inds == i)[0][0]

    def metrics(r):
        return (100.0 * np.mean(r < 1), 100.0 * np.mean(r < 5), 100.0 * np.mean(r < 10),
                np.floor(np.median(r)) + 1, r.mean() + 1)
    return metrics(i2t), metrics(t2i), i2t, t2i


def eval_pairs(opts):
    device = configure(opts)
    net = Net(opts.network, opts).to(device)
    net.mode(False)
    n_img, n_cap = 1000, 5000
    out = common(opts, device)
    out["mode"] = "eval-pairs"
    rng = np.random.default_rng(opts.seed)
    pairwise = opts.network in ("saf", "sgr", "scan", "gsmn")
    with torch.no_grad(), autocast(device, opts.dtype):
        # encoding: as in the references, every caption is encoded together with its image
        synth = Synth(opts.network, opts.batch, opts.seed)
        enc = []
        batches = [synth.make() for _ in range(2)]
        for i in range(1 + opts.eval_batches):
            b = batches[i % 2]
            if "image_lengths" in b:                        # no size augmentation in evaluation
                b = dict(b, images=torch.from_numpy(region_rows(rng, opts.batch, REGIONS, FEAT)),
                         image_lengths=torch.full((opts.batch,), float(REGIONS)))
            sync(device)
            t0 = time.perf_counter()
            img, txt, _ = net.embed(to_device(b, device))
            img.float().cpu(), txt.float().cpu()
            sync(device)
            if i:
                enc.append(time.perf_counter() - t0)
        encode = statistics.median(enc) * n_cap / opts.batch
        if pairwise:
            size = opts.shard or (100 if opts.network != "gsmn" else 50)
            shards = math.ceil(n_img / size) * math.ceil(n_cap / size)
            longest = max(LENGTH_HIST)
            times, tokens = [], []
            for i in range(1 + opts.eval_shards):
                im = l2_eps(torch.from_numpy(rng.standard_normal((size, REGIONS, 1024))), -1).float()
                ca = l2_eps(torch.from_numpy(rng.standard_normal((size, longest, 1024))), -1).float()
                ls = [int(x) for x in synth.lengths(size)]
                boxes = torch.rand(size, REGIONS, 4)
                deps = [synth.depends(k) for k in ls]
                sync(device)
                t0 = time.perf_counter()
                s = net.pair_scores(im.to(device), ca.to(device), ls, boxes.to(device), deps)
                s.float().cpu().numpy()
                if i:
                    times.append(time.perf_counter() - t0)
                    tokens.append(sum(ls))
            shard = statistics.median(times)
            score = shard * shards
            out.update({"shard_size": size, "shards_timed": len(times), "shards_total": shards,
                        "shard_ms": {"min": ms(min(times)), "median": ms(shard), "max": ms(max(times))},
                        "pairs_per_s": round(size * size / shard, 1)})
            sims = rng.random((n_img, n_cap))
        else:
            d = 2048 if opts.network.startswith("vsrn") else 1024
            a, c = rng.standard_normal((n_img, d)), rng.standard_normal((n_cap, d))
            t0 = time.perf_counter()
            sims = np.dot(a, c.T)
            score = time.perf_counter() - t0
        t0 = time.perf_counter()
        recalls(sims, 5)
        rank = time.perf_counter() - t0
    memory, kind = peak_memory_mb(device)
    out.update({"images": n_img, "captions": n_cap, "encode_s": round(encode, 3), "encode_extrapolated": True,
                "score_s": round(score, 3), "score_extrapolated": pairwise, "rank_s": round(rank, 3),
                "total_s": round(encode + score + rank, 2), "peak_memory_mb": memory, "peak_memory_kind": kind})
    return out
