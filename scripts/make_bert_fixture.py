#!/usr/bin/env python3
"""Write a tiny BERT and a VSE-infinity checkpoint around it, with what PyTorch computes from both: the fixture of the tests of BERT.

    make_bert_fixture.py --out testdata/torch/vseinf-bert

Everything is made up here: word pieces, captions, features and weights (seeded).  OUT then holds, beside the files that
make_checkpoint_fixture.py describes (checkpoint.pth, data, scores, expected.json; data/vocab.txt in place of vocab.json),

    bert/vocab.txt, bert/config.json, bert/pytorch_model.bin    the encoder alone as Hugging Face keeps it, in the names of early versions:
                                                                "bert." in front, gamma and beta, a head for pre-training, position_ids
    vectors_pooler.npy, vectors_cls.npy, vectors_mean.npy       float64 [5 N, hidden] sentence vectors of the captions

The layers are those of torch_peer.py, whose arithmetic --verify compares with the golden cases.  Needs torch and numpy.
"""
import argparse
import json
import os
import re
import sys

import numpy as np
import torch

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lab"))
import make_checkpoint_fixture as base  # noqa: E402
from peer.base import l2_eps  # noqa: E402
from peer.bert import Bert  # noqa: E402
from peer.vseinf import GPO, PooledImage  # noqa: E402

HIDDEN, HEADS, INNER, LAYERS, POSITIONS, EMBED = 12, 3, 20, 2, 40, 16
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def pieces():
    """Some words whole, the others by beginnings and endings; 'zeppelin' and its like stay unknown."""
    words = sorted({w for group in base.WORDS.values() for w in group if w != "can't"})
    whole, cut = [w for i, w in enumerate(words) if i % 3 or len(w) < 4], [w for i, w in enumerate(words) if i % 3 == 0 and len(w) >= 4]
    begin, end = sorted({w[:3] for w in cut} - set(whole)), sorted({"##" + w[3:] for w in cut})
    return SPECIAL + whole + begin + end + ["can", "'", "t"]


def encode(text, vocab):
    """BERT's tokenizer for ASCII: lower case, punctuation apart, the longest piece first."""
    ids = [vocab["[CLS]"]]
    for word in re.findall(r"[a-z0-9]+|[^a-z0-9\s]", text.lower()):
        found, at = [], 0
        while at < len(word):
            n = next((n for n in range(len(word), at, -1) if ("##" if at else "") + word[at:n] in vocab), None)
            if n is None:
                found = [vocab["[UNK]"]]
                break
            found.append(vocab[("##" if at else "") + word[at:n]])
            at = n
        ids += found
    return ids + [vocab["[SEP]"]]


class Text(torch.nn.Module):
    def __init__(self, vocab):
        super().__init__()
        self.bert = Bert(vocab, HIDDEN, HEADS, INNER, LAYERS, POSITIONS)
        self.linear = torch.nn.Linear(HIDDEN, EMBED)
        self.gpool = GPO()

    def forward(self, tokens, lengths):
        x, _ = self.gpool(self.linear(self.bert(tokens)[0]), torch.as_tensor(lengths))
        return l2_eps(x, -1)


def modules(vocab):
    out = [PooledImage(base.FEAT, EMBED), Text(vocab)]
    with torch.no_grad():
        for name, p in out[1].bert.named_parameters():      # as drawn, attention would hardly tell its keys apart
            p.normal_(1 if "LayerNorm.weight" in name else 0, 0.5)
        for m in out:
            m.gpool.linear.weight.uniform_(-1, 1)
        for m in out[0].modules():
            if isinstance(m, torch.nn.BatchNorm1d):
                m.weight.uniform_(-1, 1)
                m.bias.uniform_(-0.5, 0.5)
                m.running_mean.uniform_(-0.5, 0.5)
                m.running_var.uniform_(0.2, 2)
    return out


def batch(ids):
    order = sorted(range(len(ids)), key=lambda i: -len(ids[i]))
    tokens = torch.zeros(len(ids), len(ids[order[0]]), dtype=torch.long)
    for row, i in enumerate(order):
        tokens[row, :len(ids[i])] = torch.tensor(ids[i])
    return order, tokens, [len(ids[i]) for i in order]


def sentence_vectors(bert, ids):
    order, tokens, lengths = batch(ids)
    with torch.no_grad():
        hidden, pooled = bert.double().eval()(tokens)
    mask = (tokens != 0).double()[:, :, None]
    out = {"pooler": pooled, "cls": hidden[:, 0], "mean": (hidden * mask).sum(1) / mask.sum(1)}
    place = np.argsort(order)
    return {k: v.numpy()[place] for k, v in out.items()}


def old_names(bert, vocab):
    state = {}
    for name, v in bert.state_dict().items():
        state["bert." + name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")] = v.float().clone()
    state["bert.embeddings.position_ids"] = torch.arange(POSITIONS)[None]
    state["cls.predictions.bias"] = torch.zeros(vocab)
    return state


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--out", required=True, metavar="DIR")
    p.add_argument("--seed", type=int, default=7)
    opts = p.parse_args()
    torch.manual_seed(opts.seed)
    torch.set_num_threads(1)
    at = lambda name: os.path.join(opts.out, name)
    os.makedirs(at("bert"), exist_ok=True)
    features, caps, _ = base.write_data(at("data"), np.random.default_rng(opts.seed))
    os.remove(at("data/vocab.json"))
    words = pieces()
    for name in ("data/vocab.txt", "bert/vocab.txt"):
        with open(at(name), "w", encoding="utf-8") as f:
            f.writelines(w + "\n" for w in words)
    ids = [encode(text, {w: i for i, w in enumerate(words)}) for text, _ in caps]
    nets = modules(len(words))
    options = dict(data_path="data/f30k", data_name="f30k", margin=0.2, num_epochs=25, batch_size=128, word_dim=300, embed_size=EMBED,
                   grad_clip=2.0, num_layers=1, learning_rate=0.0005, lr_update=15, workers=10, log_step=200, val_step=500,
                   logger_name="runs/runX", model_name="runs/runX", max_violation=True, img_dim=base.FEAT, no_imgnorm=False, no_txtnorm=False,
                   precomp_enc_type="basic", backbone_source="detector", vse_mean_warmup_epochs=1, vocab_size=len(words), num_attention_heads=HEADS)
    state = [{"module." + k: v for k, v in m.state_dict().items()} for m in nets]       # wrapped for data parallelism
    torch.save({"epoch": 3, "model": state, "best_rsum": 123.25, "opt": argparse.Namespace(**options), "Eiters": 3402}, at("checkpoint.pth"))
    torch.save(old_names(nets[1].bert, len(words)), at("bert/pytorch_model.bin"))
    with open(at("bert/config.json"), "w", encoding="utf-8") as f:
        json.dump({"hidden_act": "gelu", "layer_norm_eps": 1e-12, "num_attention_heads": HEADS}, f)
    fixture = base.Fixture(nets, options, lambda m, x, tokens, lengths: (m[0](x, torch.full((len(x),), x.size(1))), m[1](tokens, lengths)))
    np.save(at("scores_f32.npy"), base.scores(fixture, features, ids, torch.float32))
    exact = base.scores(fixture, features, ids, torch.float64)
    np.save(at("scores.npy"), exact)
    with open(at("expected.json"), "w", encoding="utf-8") as f:
        json.dump(base.expected(exact), f, indent=1)
        f.write("\n")
    for name, v in sentence_vectors(nets[1].bert, ids).items():
        np.save(at("vectors_%s.npy" % name), v)
    print("%s: %d pieces, captions of %d to %d, scores %.3f ... %.3f" % (opts.out, len(words), min(map(len, ids)), max(map(len, ids)), exact.min(), exact.max()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
