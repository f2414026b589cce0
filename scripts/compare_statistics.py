"""Compares vsetrain's intervals, p-values and rank correlations with scipy on made-up scores, and its tests across seeds
with scipy and statsmodels on the runs of docs/log/runs.zip.

    python3 -m venv venv && venv/bin/pip install numpy scipy statsmodels
    venv/bin/python scripts/compare_statistics.py bin/vsetrain

Differences and correlations must be equal. Intervals and p-values come from random resamples on both sides: interval ends may differ by 0.15
standard errors, p-values by 0.03, which is four times what chance explains. Ends with status 1 where one does not hold.
"""
import csv
import glob
import io
import json
import os
import subprocess
import sys
import tempfile
import time
import zipfile

import numpy as np
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.weightstats import CompareMeans, DescrStatsW, ttost_paired

RUNS = os.path.join(os.path.dirname(__file__), "..", "docs", "log", "runs.zip")
IMAGES, K, RESAMPLES = 1000, 5, 10000


def hits(scores):
    """Which queries find their match among the first 1, 5, 10: of each image [IMAGES, 3], and how many of its captions [IMAGES, 3]."""
    own = np.arange(IMAGES * K) // K
    image_rank = np.array([min(np.sum(row > row[c]) for c in range(i * K, i * K + K)) for i, row in enumerate(scores)])
    caption_rank = np.sum(scores > scores[own, np.arange(IMAGES * K)], axis=0).reshape(IMAGES, K)
    depths = (1, 5, 10)
    return (np.stack([image_rank < d for d in depths], 1).astype(float), np.stack([(caption_rank < d).sum(1) for d in depths], 1) / K)


def seeds(vsetrain, runs, check):
    """Compares the table across seeds of a report on LSEH and LMH; of LMH2 with the seeds that LSEH has, or with others."""
    for lseh, lmh2 in (("s*", "s*"), ("s[78]", "s[!78]*")):
        settings = [sorted(glob.glob(os.path.join(runs, p))) for p in (f"claim-vseinf/lseh/{lseh}", "ablate-vseinf/lmh1-early/s*", f"claim-vseinf/lmh2/{lmh2}")]
        out = subprocess.run([vsetrain, "report", *sum(settings, []), "--test", "--base", settings[0][0], "--equivalence", "1", "--format", "csv"],
                             check=True, stdout=subprocess.PIPE, text=True).stdout
        table = out[out.index("# M-Recall across seeds"):].split("\n", 1)[1].split("\n\n")[0]
        rows = list(csv.DictReader(io.StringIO(table)))
        recall = [{os.path.basename(run): json.load(open(os.path.join(run, "test.json")))["results"][0]["m_recall"] for run in runs} for runs in settings]
        theirs = []
        for row, loss in zip(rows, recall[1:], strict=True):
            shared = [s for s in loss if s in recall[0]]
            if shared:
                x, y = np.array([loss[s] for s in shared]), np.array([recall[0][s] for s in shared])
                test, equal, how = stats.ttest_rel(x, y), ttost_paired(x, y, -1, 1)[0], f"paired by seed (n = {len(x)})"
            else:
                x, y = np.array(list(loss.values())), np.array(list(recall[0].values()))
                test, how = stats.ttest_ind(x, y, equal_var=False), f"Welch (n = {len(y)}, {len(x)})"
                equal = CompareMeans(DescrStatsW(x), DescrStatsW(y)).ttost_ind(-1, 1, usevar="unequal")[0]
            ends = [float(e) for e in row["Difference 95 %"].split(" to ")]
            name = f"{row['loss']}, {how}"
            check(f"{name}: as tested", row["test"] == how, True, 0)
            check(f"{name}: difference", float(row["Difference mean"]), x.mean() - y.mean(), 1e-9)
            for e, end in zip(ends, test.confidence_interval(0.95)):
                check(f"{name}: end of interval", e, end, 0.005)
            theirs.append((row, name, test.pvalue, equal))
        for column, n in (("Difference", 2), ("Equal within ±1", 3)):
            for (row, name, *_), p, corrected in zip(theirs, [t[n] for t in theirs], multipletests([t[n] for t in theirs], method="holm")[1]):
                check(f"{name}: {column} p", float(row[f"{column} p"]), p, 1e-9)
                check(f"{name}: {column} Holm", float(row[f"{column} p, Holm"]), corrected, 1e-9)


def main(vsetrain):
    rng = np.random.default_rng(2)
    wrong = 0

    def check(what, mine, theirs, tolerance):
        nonlocal wrong
        ok = abs(mine - theirs) <= tolerance
        wrong += not ok
        print(f"{what:<44}{mine:>14.6f}{theirs:>14.6f}  {'' if ok else 'DIFFERS'}")

    print(f"{'':<44}{'vsetrain':>14}{'scipy':>14}")
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(RUNS) as z:
            z.extractall(folder)
        seeds(vsetrain, folder, check)
        path = lambda name: os.path.join(folder, name)
        with open(path("test_caps.txt"), "w") as f:
            f.writelines(f"caption {c}\n" for c in range(IMAGES * K))
        np.save(path("test_ims.npy"), np.ones((IMAGES, 1, 2), np.float32))
        truth = np.repeat(np.eye(IMAGES, dtype=np.float32), K, axis=1)
        shared = rng.standard_normal((IMAGES, IMAGES * K), dtype=np.float32)
        matrices = []
        for name, lift in (("a.npy", 2.75), ("b.npy", 2.7)):
            s = lift * truth + 0.8 * shared + 0.6 * rng.standard_normal(shared.shape, dtype=np.float32)
            np.save(path(name), s)
            matrices.append(s)
        start = time.time()
        out = subprocess.run([vsetrain, "eval", "--compare", path("a.npy"), path("b.npy"), "--data", folder, "--resamples", str(RESAMPLES), "--json", "-"],
                             check=True, stdout=subprocess.PIPE).stdout
        print(f"eval --compare took {time.time() - start:.1f} s")
        (ia, ca), (ib, cb) = hits(matrices[0]), hits(matrices[1])
        columns = {f"i2t_r{k}": (ia[:, n], ib[:, n]) for n, k in enumerate((1, 5, 10))}
        columns |= {f"t2i_r{k}": (ca[:, n], cb[:, n]) for n, k in enumerate((1, 5, 10))}
        columns["m_recall"] = (np.hstack([ia, ca]).mean(1), np.hstack([ib, cb]).mean(1))
        for d in json.loads(out)["comparisons"][0]["differences"]:
            a, b = columns[d["measure"]]
            name, difference = d["measure"], 100 * (a - b)
            error = difference.std() / np.sqrt(IMAGES)
            check(f"{name} difference", d["difference"]["value"], difference.mean(), 1e-9)
            for what, values, mine in (("A", 100 * a, d["a"]), ("difference", difference, d["difference"])):
                ci = stats.bootstrap((values,), np.mean, n_resamples=RESAMPLES, method="percentile", rng=rng).confidence_interval
                spread = 0.15 * values.std() / np.sqrt(IMAGES)
                check(f"{name} {what}, lower end", mine["low"], ci.low, spread)
                check(f"{name} {what}, upper end", mine["high"], ci.high, spread)
            p = stats.permutation_test((a, b), lambda x, y, axis: np.mean(x - y, axis=axis), permutation_type="samples", vectorized=True,
                                       n_resamples=RESAMPLES, rng=rng).pvalue
            check(f"{name} p ({difference.mean() / error:+.1f} standard errors)", d["p"], p, 0.03)

        pairs = {(int(i), int(c)) for i, c in zip(rng.integers(0, IMAGES, 6000), rng.integers(0, IMAGES * K, 6000))}
        pairs |= {(i, i * K + 2) for i in range(150)}
        pairs = sorted(pairs)
        score = np.array([matrices[0][i, c] for i, c in pairs])
        own = np.array([c // K == i for i, c in pairs])
        expert = np.clip(np.round(1.5 + 0.6 * score[:, None] + rng.standard_normal((len(pairs), 3))), 1, 4).astype(int)
        yes = rng.binomial(3, 1 / (1 + np.exp(2 - score)))
        with open(path("experts.txt"), "w") as f:
            f.writelines(f"{i}\t{i2}#{j}\t{r[0]}\t{r[1]}\t{r[2]}\n" for (i, c), r in zip(pairs, expert) for i2, j in [divmod(c, K)])
        with open(path("crowd.txt"), "w") as f:
            f.writelines(f"{i}\t{c // K}#{c % K}\t{y / 3:.15g}\t{y}\t{3 - y}\n" for (i, c), y in zip(pairs, yes))
        out = subprocess.run([vsetrain, "eval", "--scores", path("a.npy"), "--data", folder, "--judgements", path("experts.txt"), "--judgements", path("crowd.txt"), "--json", "-"],
                             check=True, stdout=subprocess.PIPE).stdout
        for got, ratings in zip(json.loads(out)["people"], (expert, yes[:, None] / 3)):
            for part, keep in (("all", own | True), ("other_captions", ~own)):
                x, y = np.repeat(score[keep], ratings.shape[1]), ratings[keep].ravel()
                for key, value in (("kendall_tau_b", stats.kendalltau(x, y).statistic), ("kendall_tau_c", stats.kendalltau(x, y, variant="c").statistic),
                                   ("spearman", stats.spearmanr(x, y).statistic)):
                    check(f"{got['name']} {part} {key}", got[part][key], value, 1e-9)
    print("all agree" if not wrong else f"{wrong} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
