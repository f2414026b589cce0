"""Semantic vectors, TF-IDF and truncated SVD, with scikit-learn, timed."""
import json
import os
import re
import tempfile
import time

import numpy as np
import torch

from .base import VOCAB, log
from .synth import Synth, zipf_ids
from .timing import configure, peak_memory_mb


def clean_lines(lines, stop, stem):
    docs = []
    for line in lines:
        toks = re.sub("[^a-zA-Z#]", " ", line).lower().split()
        docs.append(" ".join([stem(t) for t in toks if t not in stop]))     # stop is a list, as in the reference
    return docs


def tfidf(docs):
    from sklearn.feature_extraction.text import TfidfVectorizer
    return TfidfVectorizer(stop_words="english", smooth_idf=True).fit_transform(docs)


def semantics(opts):
    configure(opts)
    out = {"mode": "semantics", "torch": torch.__version__, "threads": torch.get_num_threads()}
    try:
        import sklearn
        from sklearn.decomposition import TruncatedSVD
    except ImportError:
        out["error"] = "scikit-learn is not installed"
        return out
    out["sklearn"] = sklearn.__version__
    try:
        from nltk.stem.porter import PorterStemmer
        stem = PorterStemmer().stem
        out["stemmer"] = "nltk PorterStemmer"
    except ImportError:
        stem = str
        out["stemmer"] = "none (nltk is not installed)"
    here = os.path.dirname(os.path.abspath(__file__))
    golden = os.path.join(here, "..", "..", "testdata", "golden", "semantic_text.json")
    stop = json.load(open(golden))["stop_words_nltk"] if os.path.exists(golden) else []
    if opts.captions:
        with open(opts.captions, encoding="utf-8") as f:
            lines = f.readlines()
        out["source"] = os.path.basename(opts.captions)
    else:
        synth = Synth("vsepp", 1, opts.seed)
        alpha = "abcdefghijklmnopqrstuvwxyz"
        words = ["q" + "".join(alpha[(i // 26 ** k) % 26] for k in range(3)) + "x" for i in range(VOCAB)]
        lines = [" ".join(words[j] for j in zipf_ids(synth.rng, int(k) - 2, 0, VOCAB)) + "\n" for k in synth.lengths(145000)]
        out["source"] = "synthetic"
    t0 = time.perf_counter()
    docs = clean_lines(lines, stop, stem)
    out["clean_s"] = round(time.perf_counter() - t0, 2)
    t0 = time.perf_counter()
    x = tfidf(docs)
    out["tfidf_s"] = round(time.perf_counter() - t0, 2)
    out.update({"lines": x.shape[0], "terms": x.shape[1], "nonzeros": int(x.nnz), "components": min(400, x.shape[1] - 1)})
    log(out)
    b = {}
    for kind in opts.svd.split(","):
        kw = {"paper": dict(algorithm="randomized", n_iter=100), "arpack": dict(algorithm="arpack"),
              "quick": dict(algorithm="randomized", n_iter=5)}[kind]
        t0 = time.perf_counter()
        model = TruncatedSVD(n_components=out["components"], random_state=122, **kw)
        b[kind] = model.fit_transform(x)
        out["svd_%s_s" % kind] = round(time.perf_counter() - t0, 2)
        sv = np.asarray(model.singular_values_)
        out["svd_%s_singular" % kind] = [float("%.6g" % v) for v in (sv[0], sv[9], sv[99], sv[-2], sv[-1])]
        out["explained_variance_%s" % kind] = float("%.6f" % model.explained_variance_ratio_.sum())
        log(kind, out["svd_%s_s" % kind])
    if len(b) > 1:
        pick = np.random.default_rng(0).choice(x.shape[0], size=min(2000, x.shape[0]), replace=False)
        ks = sorted(b)
        g0, g1 = (b[k][pick] @ b[k][pick].T for k in ks[:2])
        out["gram_difference_%s_%s" % tuple(ks[:2])] = float("%.3g" % (np.abs(g0 - g1).max() / np.abs(g0).max()))
    one = b[sorted(b)[0]]
    with tempfile.TemporaryFile("w", dir=opts.tmp) as f:
        n = min(4000, one.shape[0])
        t0 = time.perf_counter()
        np.savetxt(f, one[:n], fmt="%s", delimiter=",")
        out["savetxt_s_extrapolated"] = round((time.perf_counter() - t0) * one.shape[0] / n, 1)
    out["peak_memory_mb"] = peak_memory_mb(torch.device("cpu"))[0]
    return out
