"""Losses, optimisers, training steps, evaluation and semantic vectors beside their golden cases; the check of all files."""
import glob
import json
import math
import os
import warnings

import numpy as np
import torch
from torch.nn.utils import clip_grad_norm_

from .base import log
from .vsepp import FlatImage, LastStateText
from .losses import hinge_parts, luwm_loop, luwm_vec, semantic_margin, semantic_similarity
from .evaluation import recalls
from .semantics import clean_lines, tfidf
from .verifier import T, TI, Verifier, X, fill, leaf
from .verify_networks import (
    verify_bert, verify_chan, verify_gru, verify_gsmn, verify_scan, verify_sgraf, verify_vse_infinity, verify_vsepp,
    verify_vsrn_caption, verify_vsrn_image)


def lseh_margin_of(c, loop=False):
    divisor = c.get("caption_id_divisor") if c.get("same_image_rule") is None else None
    return semantic_margin(X(c["semantic_vectors"]), c["caption_ids"], c["image_ids"], c["alpha"], c["lam"], divisor,
                           c["similarity"], loop)


def verify_losses(v, doc):
    for c in doc["cases"]:
        if "margin" not in c and c.get("loss_type") != "LSEH" and c["name"] != "ORDER_SIM":
            v.skipped.append("losses.json case " + c["name"])
            continue
        v.case("losses/" + c["name"])
        e = c["expected"]
        if c["name"] == "ORDER_SIM":
            a, b = X(c["image_emb"]), X(c["caption_emb"])
            v.same("scores", -(b.unsqueeze(0) - a.unsqueeze(1)).clamp(min=0).pow(2).sum(2).sqrt(), e["scores"])
            continue
        emb = "image_emb" in c
        if emb:
            a, b = leaf(c["image_emb"]), leaf(c["caption_emb"])
        kinds = ("loop", "vec") if c["loss_type"] == "LUWM" else ("",)
        for kind in kinds:
            s = (a.mm(b.t()) if emb else leaf(c["scores"]))
            if emb:
                s.retain_grad()
                v.same("scores", s, e["scores"])
            if c["loss_type"] == "LUWM":
                f = luwm_loop if kind == "loop" else luwm_vec
                loss = f(s, c["margin"], c["pos_coeffs"], c["neg_coeffs"], c["pos_epsilon"])
            else:
                m = lseh_margin_of(c) if c["loss_type"] == "LSEH" else c["margin"]
                if c["loss_type"] == "LSEH":
                    if "margin_matrix" in e:
                        v.same("margin_matrix", m, e["margin_matrix"])
                    if "semantic_similarity" in e:
                        v.same("similarity", semantic_similarity(X(c["semantic_vectors"]), c["similarity"]), e["semantic_similarity"])
                    v.same("margin by loop", lseh_margin_of(c, loop=True), m)
                loss, ls, li, (cs, ci) = hinge_parts(s, m, c["max_violation"])
                v.same("caption part", ls, e["loss_caption_retrieval"])
                v.same("image part", li, e["loss_image_retrieval"])
                v.same("cost_s", cs, e["cost_s"])
                v.same("cost_im", ci, e["cost_im"])
                if c["max_violation"]:
                    v.equal("hard captions", cs.max(1)[1].tolist(), e["hard_caption_index_per_image"])
                    v.equal("hard images", ci.max(0)[1].tolist(), e["hard_image_index_per_caption"])
            for t in (a, b) if emb else ():
                t.grad = None
            loss.backward()
            v.same(kind + " loss", loss, e["loss"])
            v.same(kind + " grad scores", s.grad, e["grad_scores"])
            if emb:
                v.same(kind + " grad image_emb", a.grad, e["grad_image_emb"])
                v.same(kind + " grad caption_emb", b.grad, e["grad_caption_emb"])
    # Hinges of exactly 0 have slope 1 in every version of PyTorch: four of them, each with a negative and a positive.
    v.case("losses/slope at 0")
    s = torch.tensor([[0.5, 0.25], [0.25, 0.5]], requires_grad=True)
    hinge_parts(s, 0.25, max_violation=False)[0].backward()
    v.equal("grad scores", s.grad.tolist(), [[-2.0, 2.0], [2.0, -2.0]])


def verify_optim(v, doc):
    for c in doc["cases"]:
        v.case("optim/" + c["name"])
        e = c["expected"]
        if c["name"].startswith("schedule"):
            ms_ = c.get("milestones")
            lr, got = c["lr"], []
            for k in range(c["epochs"]):
                if ms_ is None:
                    got.append(c["lr"] * 0.1 ** (k // c["lr_update"]))
                else:
                    lr = lr * 0.1 if k in ms_ else lr
                    got.append(lr)
            v.same("lr", got, e)
            continue
        if c["name"].startswith("clip"):
            ps = [torch.zeros(len(g), requires_grad=True) for g in c["grads"]]
            for p, g in zip(ps, c["grads"]):
                p.grad = X(g)
            norm = clip_grad_norm_([ps[i] for i in c["parameter_list_order"]], c["max_norm"])
            v.same("norm", norm, e["total_norm"])
            for i, p in enumerate(ps):
                v.same("grad %d" % i, p.grad, e["grads"][i])
            continue
        w = leaf(c["initial"])
        if c["name"] == "adam_legacy_epsilon":
            m = s = torch.zeros_like(w)
            p = X(c["initial"])
            for t, g in enumerate(c["grads"], 1):
                g = X(g)
                m, s = 0.9 * m + 0.1 * g, 0.999 * s + 0.001 * g * g
                p = p - c["lr"] * math.sqrt(1 - 0.999 ** t) / (1 - 0.9 ** t) * m / (s.sqrt() + 1e-8)
                v.same("step %d" % t, p, e["params_after_each_step"][t - 1])
            continue
        dup = "duplicated" in c["name"]
        cls = torch.optim.AdamW if c.get("decoupled") else torch.optim.Adam
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                o = cls([w, w] if dup else [w], lr=c["lr"], betas=tuple(c["betas"]), eps=c["eps"], weight_decay=c["weight_decay"], foreach=False)
            except ValueError as err:
                if not dup:
                    raise
                v.skipped.append("optim/%s: this torch refuses duplicates (%s)" % (c["name"], err))
                continue
        for t, g in enumerate(c["grads"]):
            w.grad = X(g)
            o.step()
            v.same("step %d" % t, w, e["params_after_each_step"][t])
        st = o.state[w]
        v.same("exp_avg", st["exp_avg"], e["exp_avg"])
        v.same("exp_avg_sq", st["exp_avg_sq"], e["exp_avg_sq"])
        v.equal("step count", int(st["step"]), e["step"])


def verify_train_step(v, doc):
    for c in doc["cases"]:
        v.case("train_step/" + c["name"])
        cfg, e = c["config"], c["expected"]
        pick = lambda pre: {k[len(pre):]: t for k, t in c["initial_params"].items() if k.startswith(pre)}
        im = fill(FlatImage(cfg["regions"], cfg["img_dim"], cfg["embed"]), pick("img."))
        tx = fill(LastStateText(cfg["vocab"], cfg["word_dim"], cfg["embed"]), pick("txt."))
        params = list(tx.parameters()) + list(im.parameters())
        opt = torch.optim.Adam(params, lr=cfg["lr"])
        for st in e["steps"]:
            s = im(X(c["inputs"]["images"])).mm(tx(TI(c["captions"]), c["lengths"]).t())
            m = cfg["margin"]
            if cfg["loss"] == "LSEH":
                m = semantic_margin(X(c["semantic_vectors"]), c["caption_ids"], c["image_ids"], cfg["margin"], cfg["lam"])
            loss = hinge_parts(s, m)[0]
            opt.zero_grad()
            loss.backward()
            norm = clip_grad_norm_(params, cfg["grad_clip"])
            opt.step()
            v.same("step %d scores" % st["step"], s, st["scores"])
            v.same("step %d loss" % st["step"], loss, st["loss"])
            v.same("step %d norm" % st["step"], norm, st["grad_norm"])
        after = {("img." + k): p for k, p in im.named_parameters()}
        after.update({("txt." + k): p for k, p in tx.named_parameters()})
        key = [k for k in e if k.startswith("params_after")][0]
        for k, want in e[key].items():
            v.same("final " + k, after[k], want)


def verify_evaluation(v, doc):
    def whole(s, k, e):
        a, b, ra, rb = recalls(np.asarray(s, dtype=np.float64), k, kind="stable")
        for got, want in ((a, e["i2t"]), (b, e["t2i"])):
            v.same("metrics", [float(x) for x in got], [want[n] for n in ("r1", "r5", "r10", "medr", "meanr")])
        v.equal("i2t ranks", [int(x) for x in ra], e["i2t_ranks"])
        v.equal("t2i ranks", [int(x) for x in rb], e["t2i_ranks"])
        v.same("rsum", float(sum(a[:3]) + sum(b[:3])), e["rsum"])
        return a, b
    for c in doc["cases"]:
        v.case("evaluation/" + c["name"])
        e = c["expected"]
        if "recalls" in c:
            v.same("mean", float(np.mean(c["recalls"])), e["mean"])
            v.same("std", float(np.std(c["recalls"])), e["population_std"])
        elif "folds" in c:
            n, k = c["images_per_fold"], c["captions_per_image"]
            s = np.asarray(c["sims"])
            for f in range(c["folds"]):
                whole(s[f * n:(f + 1) * n, f * n * k:(f + 1) * n * k], k, e["folds"][f])
            whole(s, k, e["full_matrix"])
        elif "sims_a" in c:
            whole((np.asarray(c["sims_a"]) + np.asarray(c["sims_b"])) / 2, c["captions_per_image"], e)
        else:
            whole(c["sims"], c["captions_per_image"], e)


def verify_semantic_text(v, c):
    try:
        import sklearn  # noqa: F401
        from nltk.stem.porter import PorterStemmer
    except ImportError:
        v.skipped.append("semantic_text.json (scikit-learn or nltk is missing)")
        return
    v.case("semantic_text")
    stem = PorterStemmer().stem
    docs = clean_lines(c["lines"], c["stop_words_nltk"], stem)
    v.equal("cleaned", docs, c["cleaned"])
    v.equal("stems", {w: stem(w) for w in c["stems"]}, c["stems"])
    a = tfidf(docs).toarray()
    v.same("tfidf", torch.from_numpy(a), c["tfidf"])
    u, s, vt = np.linalg.svd(a, full_matrices=False)
    v.same("singular values", torch.from_numpy(s), c["singular_values"])
    b = torch.from_numpy(a @ vt[:c["k"]].T)
    v.same("gram", b.mm(b.t()), c["gram_k"])
    rows = T(c["gram_k"]).max(1)[0] > 1e-9                  # a row that is only rounding noise has no defined ratio
    v.same("rowmax", semantic_similarity(b)[rows], T(c["similarity_rowmax_all"])[rows])
    if not bool((rows | (T(c["gram_k"]).abs().max(1)[0] == 0)).all()):
        v.skipped.append("semantic_text.json similarity rows that are rounding noise: %s"
                         % [i for i, r in enumerate(rows.tolist()) if not r and float(T(c["gram_k"])[i].abs().max()) > 0])


VERIFIERS = {"gru": verify_gru, "vsepp": verify_vsepp, "vsrn_image": verify_vsrn_image, "vsrn_caption": verify_vsrn_caption,
             "sgraf": verify_sgraf, "scan": verify_scan, "chan": verify_chan, "vse_infinity": verify_vse_infinity, "bert": verify_bert, "gsmn": verify_gsmn,
             "losses": verify_losses, "optim": verify_optim, "train_step": verify_train_step, "evaluation": verify_evaluation,
             "semantic_text": verify_semantic_text}


def verify(opts):
    old = torch.get_default_dtype()
    double = opts.verify_dtype == "fp64"
    torch.set_default_dtype(torch.float64 if double else torch.float32)
    v = Verifier(double)
    per_file = {}
    try:
        files = sorted(glob.glob(os.path.join(opts.verify, "*.json")))
        if not files:
            raise SystemExit("no golden files in " + opts.verify)
        for path in files:
            name = os.path.splitext(os.path.basename(path))[0]
            if name not in VERIFIERS:
                v.skipped.append(name + ".json (not a network file)")
                continue
            with open(path, encoding="utf-8") as f:
                doc = json.load(f)
            before, bad = v.checks, len(v.failures)
            try:
                VERIFIERS[name](v, doc)
            except Exception as e:
                v.failures.append("%s: %s: %s" % (v.where or name, type(e).__name__, e))
            per_file[name] = v.checks - before
            log("%-14s %4d checks  %s" % (name, per_file[name], "ok" if len(v.failures) == bad else "FAILED"))
        missing = sorted(set(VERIFIERS) - set(per_file))
        if missing:
            v.failures.append("golden files missing: " + ", ".join(missing))
    finally:
        torch.set_default_dtype(old)
    for f in v.failures:
        log("FAIL", f)
    return {"mode": "verify", "torch": torch.__version__, "cases": v.cases, "checks": v.checks, "checks_per_file": per_file,
            "failures": len(v.failures), "worst_fraction_of_tolerance": float("%.3g" % v.worst), "worst_at": v.worst_at,
            "dtype": opts.verify_dtype, "rtol": v.rtol, "grad_rtol": v.grad_rtol, "atol": v.atol,
            "not_checked": v.skipped, "pass": not v.failures}
