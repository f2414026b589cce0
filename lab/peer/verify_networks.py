"""The networks and a GRU beside their golden cases."""
import torch
import torch.nn.functional as F
from torch import nn

from .base import Lengths, mean_of_directions, packed_states
from .vsepp import FlatImage, LastStateText
from .vsrn import CaptionModel, VsrnImage
from .scan import ScanSimilarity
from .chan import AttendedImage, HardAssignment, WordStatesChan
from .sgraf import RegionWords, SgrafSimilarity, WordStates
from .vseinf import GPO, PooledGruText, PooledImage
from .bert import Bert
from .gsmn import ImageGraph, TextGraph, adjacencies, adjacency, word_matching
from .verifier import T, TI, X, fill, leaf


def verify_gru(v, doc):
    for c in doc["cases"]:
        v.case("gru/" + c["name"])
        cfg, e = c["config"], c["expected"]
        m = fill(nn.GRU(cfg["input_size"], cfg["hidden_size"], 1, batch_first=True, bidirectional=cfg["bidirectional"]), c["params"])
        x = leaf(c["inputs"]["x"])
        y = packed_states(m, x, c["lengths"])
        v.same("output", y, e["output"])
        if cfg["bidirectional"]:
            v.same("mean", mean_of_directions(y), e["mean_of_directions"])
            h, last = cfg["hidden_size"], torch.tensor(c["lengths"]) - 1
            v.same("final_forward", y[torch.arange(len(last)), last, :h], e["final_forward"])
            v.same("final_backward", y[:, 0, h:], e["final_backward"])
        else:
            v.same("final_hidden", y[torch.arange(len(c["lengths"])), torch.tensor(c["lengths"]) - 1], e["final_hidden"])
        loss = (y * T(c["loss_weights"])).sum()
        loss.backward()
        v.same("loss", loss, e["loss"])
        v.grads("", m, {k: g for k, g in e["grads"].items() if k != "x"})
        v.same("grad x", x.grad, e["grads"]["x"])


def verify_vsepp(v, c):
    v.case("vsepp")
    cfg, e = c["config"], c["expected"]
    im = fill(FlatImage(cfg["regions"], cfg["img_dim"], cfg["embed"]), c["params_image"])
    tx = fill(LastStateText(cfg["vocab"], cfg["word_dim"], cfg["embed"]), c["params_text"])
    x = leaf(c["inputs"]["images"])
    a, b = im(x), tx(TI(c["captions"]), c["lengths"])
    s = a.mm(b.t())
    loss = (s * T(c["loss_weights"])).sum()
    loss.backward()
    for k, g in (("image_emb", a), ("text_emb", b), ("scores", s), ("loss", loss)):
        v.same(k, g, e[k])
    v.grads("image", im, e["grads_image"])
    v.grads("text", tx, e["grads_text"])
    v.same("grad images", x.grad, e["grad_images"])


def verify_vsrn_image(v, doc):
    for c, last in ((c, last) for c in doc["cases"] for last in (False, True)):
        v.case("vsrn_image/" + c["name"] + "/last" * last)
        cfg, e = c["config"], c["expected"]
        m = fill(VsrnImage(cfg["img_dim"], cfg["embed"], cfg["dataset_mode"] == "f30k"), c["params"], c["running_stats"])
        m.together = last
        m.train(cfg["training"])
        x = leaf(c["inputs"]["images"])
        y, g = m(x)
        loss = (y * T(c["loss_weights_emb"])).sum() + (g * T(c["loss_weights_gcn"])).sum()
        loss.backward()
        for k, t in (("embedding", y), ("gcn_features", g), ("loss", loss)):
            v.same(k, t, e[k])
        v.stats(m, e["new_running_stats"])
        v.grads("", m, e["grads"])
        v.same("grad images", x.grad, e["grad_images"])


def verify_vsrn_caption(v, c):
    v.case("vsrn_caption")
    cfg, e = c["config"], c["expected"]
    m = fill(CaptionModel(cfg["vocab"], cfg["max_len"], cfg["feat_dim"], cfg["hidden"], cfg["word_dim"]), c["params"])
    g = leaf(c["inputs"]["gcn_features"])
    lp = m(g, TI(c["labels"]))
    loss = CaptionModel.loss(lp, TI(c["labels"]), X(c["masks"]))
    loss.backward()
    v.same("log_probs", lp, e["log_probs"])
    v.same("loss", loss, e["loss"])
    v.grads("", m, e["grads"])
    v.same("grad features", g.grad, e["grad_gcn_features"])


def verify_sgraf(v, doc):
    for c, together in ((c, together) for c in doc["cases"] for together in (False, True)):
        v.case("sgraf/" + c["name"] + "/all" * together)
        cfg, e = c["config"], c["expected"]
        im = fill(RegionWords(cfg["img_dim"], cfg["embed"]), c["params_image"])
        tx = fill(WordStates(cfg["vocab"], cfg["word_dim"], cfg["embed"]), c["params_text"])
        sm = fill(SgrafSimilarity(cfg["embed"], cfg["sim_dim"], cfg["module"], cfg["sgr_steps"], cfg["regions"], cfg["attention_smooth"]),
                  c["params_sim"], c["running_stats"])
        sm.together = together
        for m in (im, tx, sm):
            m.train(cfg["training"])
        a, b = im(X(c["inputs"]["images"])), tx(TI(c["captions"]), c["lengths"])
        s = sm(a, b, c["lengths"])
        loss = (s * T(c["loss_weights"])).sum()
        loss.backward()
        for k, t in (("image_emb", a), ("text_emb", b), ("scores", s), ("loss", loss)):
            v.same(k, t, e[k])
        v.stats(sm, e["new_running_stats"])
        v.grads("image", im, e["grads_image"])
        v.grads("text", tx, e["grads_text"])
        v.grads("sim", sm, e["grads_sim"])


SCAN_OPTIONS = {"cross_attn": "cross", "agg_func": "aggregate", "raw_feature_norm": "norm", "lambda_softmax": "smooth",
                "lambda_lse": "smooth_lse"}


def verify_scan(v, doc):
    """Cases with the encoders that the peer has: BiGRU, plain linear layer, both normalised."""
    sizes = doc["config"]
    for c, together in ((c, together) for c in doc["cases"] for together in (False, True)):
        cfg = dict(sizes, **c.get("config", {}))
        case = dict(doc["shared"], **c)
        special = cfg.get("precomp_enc_type", "basic") != "basic" or not cfg.get("bi_gru", True)
        if "cross_attn" not in cfg or special or cfg.get("no_imgnorm") or cfg.get("no_txtnorm") or c["name"].startswith("zero_region"):
            if not together:
                v.skipped.append("scan.json case " + c["name"])
            continue
        v.case("scan/" + c["name"] + "/all" * together)
        e = c["expected"]
        embed, feat = case["params_image"]["fc.weight"]["shape"]
        vocab, word = case["params_text"]["embed.weight"]["shape"]
        im = fill(RegionWords(feat, embed), case["params_image"])
        tx = fill(WordStates(vocab, word, embed, rnn_name="rnn", p=0), case["params_text"])
        sm = ScanSimilarity(**{ours: cfg[theirs] for theirs, ours in SCAN_OPTIONS.items()})
        sm.together = together
        x = leaf(case["inputs"]["images"])
        a, b = im(x), tx(TI(case["captions"]), case["lengths"])
        local, weights = sm.local(a[:1], b[:1, :case["lengths"][0]])
        s = sm(a, b, case["lengths"])
        loss = (s * T(case["loss_weights"])).sum()
        loss.backward()
        for k, t in (("scores", s), ("loss", loss), ("attention_0_0", weights[0]), ("local_similarity_0_0", local[0])):
            v.same(k, t, e[k])
        v.grads("image", im, e["grads_image"])
        v.grads("text", tx, e["grads_text"])
        v.same("grad images", x.grad, e["grad_images"])


def verify_chan(v, doc):
    """The cases of the Flickr30K model with a BiGRU; the key mask is a repair that the reference has not."""
    for c in doc["cases"]:
        cfg, e, shared = c["config"], c["expected"], doc["shared"]
        published = (cfg.get("text_enc_type"), cfg.get("precomp_enc_type"), cfg.get("coding_type"), cfg.get("pooling_type"))
        if published != ("bigru", "selfattention", "VHACoding", "LSEPooling") or cfg.get("mask_padding"):
            v.skipped.append("chan.json case " + c["name"])
            continue
        v.case("chan/" + c["name"])
        text, image = shared["bigru"], shared["params_image"]["selfattention"]
        embed, feat = image["fc.weight"]["shape"]
        vocab, word = text["params_text"]["embed.weight"]["shape"]
        im = fill(AttendedImage(feat, embed, cfg["heads"]), image)
        tx = fill(WordStatesChan(vocab, word, embed), text["params_text"])
        x = leaf(shared["inputs"]["images_dropped" if c["name"].endswith("dropped") else "images"])
        a, b = im(x), tx(TI(text["captions"]), text["lengths"])
        s = HardAssignment(cfg["belta"])(a, b, text["lengths"], c["image_lengths"])
        loss = (s * T(shared["loss_weights"])).sum()
        loss.backward()
        for k, t in (("image_emb", a), ("text_emb", b), ("scores", s), ("loss", loss)):
            v.same(k, t, e[k])
        v.grads("image", im, e["grads_image"])
        v.grads("text", tx, e["grads_text"])
        v.same("grad images", x.grad, e["grad_images"])


def verify_vse_infinity(v, doc):
    for c in doc["cases"]:
        v.case("vse_infinity/" + c["name"])
        cfg, e = c["config"], c["expected"]
        if c["name"].startswith("positional"):
            v.same("table", GPO(cfg["d_pe"], 2).table(cfg["length"]), e["positional_encoding"])
            continue
        if c["name"] == "gpo":
            m = fill(GPO(cfg["d_pe"], cfg["d_hidden"]), c["params"])
            x = leaf(c["inputs"]["features"])
            y, w = m(x, torch.tensor(c["lengths"]))
            v.same("pooled", y, e["pooled"])
            v.same("pool_weights", w.squeeze(2), e["pool_weights"])
            v.same("table", m.table(max(c["lengths"])), e["positional_encoding"])
            grad_x = e["grad_features"]
        elif c["name"].startswith("image_encoder"):
            m = fill(PooledImage(cfg["img_dim"], cfg["embed"], cfg["d_pe"], cfg["d_hidden"]), c["params"], c["running_stats"],
                     may_miss=("mlp.bns.1.",))
            m.train(cfg["training"])
            x = leaf(c["inputs"]["images"])
            y = m(x, torch.tensor(c["lengths"]))
            v.same("embedding", y, e["embedding"])
            v.stats(m, e["new_running_stats"])
            grad_x = e["grad_images"]
        else:
            m = fill(PooledGruText(cfg["vocab"], cfg["word_dim"], cfg["embed"], cfg["d_pe"], cfg["d_hidden"]), c["params"])
            x = grad_x = None
            y = m(TI(c["captions"]), c["lengths"])
            v.same("embedding", y, e["embedding"])
        loss = (y * T(c["loss_weights"])).sum()
        loss.backward()
        v.same("loss", loss, e["loss"])
        v.grads("", m, e["grads"])
        if grad_x is not None:
            v.same("grad input", x.grad, grad_x)


def verify_bert(v, c):
    cfg, e = c["config"], c["expected"]
    for sdpa in ((False, True) if hasattr(F, "scaled_dot_product_attention") else (False,)):
        v.case("bert" + ("/sdpa" if sdpa else ""))
        m = fill(Bert(cfg["vocab"], cfg["hidden"], cfg["heads"], cfg["intermediate"], cfg["layers"], cfg["max_position"], sdpa=sdpa), c["params"])
        ids = TI(c["input_ids"])
        h, pooled = m(ids)
        mask = (ids != 0).to(h.dtype).unsqueeze(2)
        loss = (h * T(c["loss_weights"]) * mask).sum() + (pooled * T(c["loss_weights_pooled"])).sum()
        loss.backward()
        for k, t in (("last_hidden", h), ("pooler_output", pooled), ("loss", loss)):
            v.same(k, t, e[k])
        v.grads("", m, e["grads"])


def verify_gsmn(v, doc):
    shared = None
    for c, together in ((c, together) for c in doc["cases"] for together in (False, True)):
        if together and not c["config"]["is_sparse"]:
            continue
        v.case("gsmn/" + c["name"] + "/all" * together)
        cfg, e = c["config"], c["expected"]
        if isinstance(c["params_image_graph"], dict):
            shared = (c["params_image_graph"], c["params_text_graph"])
        blocks, width = cfg["num_block"], cfg["embed"] // cfg["num_block"]
        gi = fill(ImageGraph(blocks, cfg["hid_dim"], cfg["n_kernels"]), shared[0])
        gt = fill(TextGraph(blocks, cfg["hid_dim"], cfg["n_kernels"]), shared[1])
        im, ca = leaf(c["inputs"]["images"]), leaf(c["inputs"]["captions"])
        if together:
            lengths = Lengths.of(c["lengths"])
            regions, words = word_matching(im, ca, lengths, width, cfg["lambda_softmax"])
            a = gi.all_captions(regions, X(c["bboxes"]))
            b = gt.all_captions(words, ca, adjacencies(c["dependencies"], lengths).to(ca.dtype), lengths, cfg["lambda_softmax"])
        else:
            a = gi(im, ca, X(c["bboxes"]), c["lengths"], width, cfg["lambda_softmax"])
            b = gt(im, ca, c["dependencies"], c["lengths"], width, cfg["lambda_softmax"], cfg["is_sparse"])
        s = a + b
        loss = (s * T(c["loss_weights"])).sum()
        loss.backward()
        for k, t in (("scores_image_graph", a), ("scores_text_graph", b), ("scores", s), ("loss", loss)):
            v.same(k, t, e[k])
        for i, want in enumerate(e["adjacency"]):
            v.same("adjacency %d" % i, torch.from_numpy(adjacency(c["dependencies"][i], c["lengths"][i])), want)
        own = [x.grad for x in (im, ca, *gi.parameters(), *gt.parameters())]
        if together:                                        # this case has no gradients of its own: as those of the loop
            for i, (got, want) in enumerate(zip(own, looped)):
                v.same("grad %d" % i, got, want)
        looped = own
        if "grads_image_graph" in e:
            v.grads("image graph", gi, e["grads_image_graph"])
            v.grads("text graph", gt, e["grads_text_graph"])
            v.same("grad images", im.grad, e["grads_inputs"]["images"])
            v.same("grad captions", ca.grad, e["grads_inputs"]["captions"])
