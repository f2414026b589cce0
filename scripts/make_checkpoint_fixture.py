#!/usr/bin/env python3
"""Write a tiny checkpoint, data folder and the scores PyTorch computes from them: the fixture of the tests that read
the reference repositories' .pth.tar files.

    make_checkpoint_fixture.py --network vsepp --out testdata/torch/vsepp        write it
    make_checkpoint_fixture.py --network vsepp --out testdata/torch/vsepp --check  recompute the scores of one that exists

Everything is made up here: words, captions, features and weights (seeded).  OUT then holds

    checkpoint.pth.tar          torch's zip format (1.6 and later), tensors on the CPU
    checkpoint_legacy.pth.tar   torch's format before 1.6, tensors tagged cuda:0 as the published checkpoints are
                                both: {epoch, model: [image state dict, text state dict], best_rsum, opt: argparse.Namespace, Eiters}
    data/test_ims_bbx.npy, test_ims_size.npy, test_caps.json   of GSMN: boxes, sizes, dependencies
    data/test_ims.npy           float32 [N, R, D] region features, one row per image
    data/test_caps.txt          5 N captions; data/test_ids.txt  N image ids; data/vocab.json  SCAN's vocabulary format
    scores.npy                  float64 [N, 5 N]: every operation in float64
    scores_f32.npy              float64 [N, 5 N]: embeddings in float32, their products summed in float64, as the references evaluate
    scores_compat_float32.npy   GSMN: float64 scores with the boxes of its repository's evaluation where they are stored as float32, and
                                with _float64 as float64; scores_compat_folds_float32.npy and _float64.npy in five folds
    expected.json               recalls of scores.npy and the ranks they come from

The networks are those of torch_peer.py, whose arithmetic --verify compares with the golden cases.  To add one, write a
function like vsepp below and list it in NETWORKS.  Needs torch and numpy; nltk, if installed, checks the words.
"""
import argparse
import json
import os
import sys

import numpy as np
import torch

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lab"))
from peer.evaluation import recalls  # noqa: E402
from peer.gsmn import ImageGraph, TextGraph  # noqa: E402
from peer.sgraf import RegionWords, SgrafSimilarity, WordStates  # noqa: E402
from peer.vseinf import PooledGruText, PooledImage  # noqa: E402
from peer.vsepp import FlatImage, LastStateText  # noqa: E402
from peer.vsrn import VsrnImage  # noqa: E402

IMAGES, PER_IMAGE, REGIONS, FEAT = 6, 5, 36, 8
SPECIAL = ["<pad>", "<start>", "<end>", "<unk>"]
WORDS = {
    "kind": "fox heron robot kite wagon lantern turtle drummer".split(),
    "look": "red striped wooden tiny glowing rusty".split(),
    "act": "leaps hums rolls drifts rests spins".split(),
    "where": "beside under across behind near".split(),
    "place": "river bridge orchard tower meadow harbour".split(),
    "small": "a the and two , . ; who can't".split(),
}


# -------------------------------------------------------------------------------------------------------------- data
def captions(rng):
    """Five captions per image: (text, tokens).  Among them: capitals, commas, a contraction, words outside the vocabulary,
    one caption of such words alone, and one of a single word."""
    pick = lambda key: WORDS[key][int(rng.integers(len(WORDS[key])))]
    out = []
    for i in range(IMAGES * PER_IMAGE):
        t = ["a", pick("look"), pick("kind"), pick("act"), pick("where"), "the", pick("place")]
        if i % 3 == 1:
            t += [",", "and", "two", pick("kind"), pick("act")]
        if i % 7 == 2:
            t[2] = "zeppelin"
        if i % 11 == 5:
            t = ["the", pick("kind"), "ca", "n't", pick("act")]
        if i == 13:
            t = ["zyx", "wvut"]
        if i == 17:
            t = [pick("kind")]
        elif i % 2 == 0:
            t.append(".")
        text = " ".join(t).replace(" .", ".").replace(" ,", ",").replace("ca n't", "can't")
        out.append((text[0].upper() + text[1:] if i % 4 else text, t))
    try:
        import nltk
        split = lambda s: nltk.tokenize.TreebankWordTokenizer().tokenize(s)     # one sentence each, so no Punkt
    except ImportError:
        split = None
    for text, t in out if split else ():
        if split(text.lower()) != t:
            raise SystemExit("caption %r: nltk splits it into %s, not %s" % (text, split(text.lower()), t))
    return out


def vocabulary():
    words = SPECIAL + sorted({w for group in WORDS.values() for w in group if w != "can't"} | {"ca", "n't"})
    return {"word2idx": {w: i for i, w in enumerate(words)}, "idx2word": {str(i): w for i, w in enumerate(words)}, "idx": len(words)}


def write_data(folder, rng):
    os.makedirs(folder, exist_ok=True)
    caps, vocab = captions(rng), vocabulary()
    features = np.maximum(rng.normal(0.2, 0.6, (IMAGES, REGIONS, FEAT)), 0).astype(np.float32)  # non-negative and sparse
    np.save(os.path.join(folder, "test_ims.npy"), features)
    with open(os.path.join(folder, "test_caps.txt"), "w", encoding="utf-8") as f:
        f.writelines(text + "\n" for text, _ in caps)
    with open(os.path.join(folder, "test_ids.txt"), "w", encoding="utf-8") as f:
        f.writelines("%d\n" % (100 + 7 * i) for i in range(IMAGES))
    with open(os.path.join(folder, "vocab.json"), "w", encoding="utf-8") as f:
        json.dump(vocab, f, ensure_ascii=False)
    return features, caps, vocab


def write_graph_data(folder, rng, caps):
    """GSMN's further files: pixel boxes, sizes as an object array of dicts, and dependency pairs with the root's first"""
    sizes = np.array([{"image_w": int(rng.integers(200, 500)), "image_h": int(rng.integers(200, 500))} for _ in range(IMAGES)], dtype=object)
    boxes = np.zeros((IMAGES, REGIONS, 4), dtype=np.float32)
    for i, s in enumerate(sizes):
        wh = np.array([s["image_w"], s["image_h"]])
        a, b = rng.random((REGIONS, 2)), rng.random((REGIONS, 2))
        boxes[i] = np.concatenate([np.minimum(a, b) * wh, np.maximum(a, b) * wh], 1)
    trees = []
    for _, tokens in caps:
        root = int(rng.integers(1, len(tokens) + 1))
        rest = [t for t in range(1, len(tokens) + 1) if t != root]
        trees.append([[0, root]] + [[int(rng.choice([root] + rest[:k])), t] for k, t in enumerate(rest)])
    np.save(os.path.join(folder, "test_ims_bbx.npy"), boxes)
    np.save(os.path.join(folder, "test_ims_size.npy"), sizes, allow_pickle=True)
    with open(os.path.join(folder, "test_caps.json"), "w", encoding="utf-8") as f:
        f.write("[" + ",\n".join(json.dumps(t, separators=(",", ":")) for t in trees) + "]\n")


def read_graph_data(folder):
    at = lambda name: os.path.join(folder, name)
    return {"boxes": np.load(at("test_ims_bbx.npy")), "sizes": np.load(at("test_ims_size.npy"), allow_pickle=True),
            "trees": json.load(open(at("test_caps.json"), encoding="utf-8"))}


def token_ids(caps, vocab):
    w = vocab["word2idx"]
    return [[w["<start>"]] + [w.get(t, w["<unk>"]) for t in tokens] + [w["<end>"]] for _, tokens in caps]


# ---------------------------------------------------------------------------------------------------------- networks
class Fixture:
    """modules in the order of the checkpoint's "model" list, the reference's own options, and the embedding function:
    embed(modules, features [N,R,D], tokens [M,L], lengths) -> image [N,E] and caption [M,E] embeddings.  A network that scores
    pairs has pairs(modules, features, tokens, lengths) -> scores [N,M] instead; one that looks at boxes and dependencies too has graph,
    and pairs takes them as a further argument."""

    def __init__(self, modules, options, embed=None, pairs=None, graph=False):
        self.modules, self.options, self.embed, self.pairs, self.graph, self.data = modules, options, embed, pairs, graph, None


def vsepp(vocab_size):
    """fartashf/vsepp, train.py: the names and defaults of its options; sizes are this fixture's."""
    embed, word = 16, 6
    modules = [FlatImage(REGIONS, FEAT, embed), LastStateText(vocab_size, word, embed)]
    with torch.no_grad():
        modules[1].embed.weight.mul_(10)                    # so that the words matter more than the biases
        modules[0].fc.bias.uniform_(-0.5, 0.5)
    options = dict(data_path="data", data_name="f30k_precomp", vocab_path="./vocab/", margin=0.2, num_epochs=30, batch_size=128,
                   word_dim=word, embed_size=embed, grad_clip=2.0, crop_size=224, num_layers=1, learning_rate=0.0002, lr_update=15,
                   workers=10, log_step=10, val_step=500, logger_name="runs/runX", resume="", max_violation=True,
                   img_dim=REGIONS * FEAT, finetune=False, cnn_type="vgg19", use_restval=False, measure="cosine", use_abs=False,
                   no_imgnorm=False, reset_train=False, vocab_size=vocab_size)
    return Fixture(modules, options, lambda m, x, tokens, lengths: (m[0](x), m[1](tokens, lengths)))


def vsrn(vocab_size, name="f30k_precomp"):
    """KunpengLi1994/VSRN, train.py: its checkpoint leaves the captioning branch out.  The batch norms get statistics and gains as
    after some training; as drawn, the blocks would be the identity."""
    embed, word = 16, 6
    modules = [VsrnImage(FEAT, embed, name == "f30k_precomp"), LastStateText(vocab_size, word, embed)]
    with torch.no_grad():
        modules[1].embed.weight.mul_(10)
        for m in modules[0].modules():
            if isinstance(m, torch.nn.BatchNorm1d):
                m.weight.uniform_(-1, 1)
                m.bias.uniform_(-0.5, 0.5)
                m.running_mean.uniform_(-0.5, 0.5)
                m.running_var.uniform_(0.2, 2)
                m.num_batches_tracked.fill_(3402)
    options = dict(data_path="/data", data_name=name, vocab_path="./vocab/", margin=0.2, num_epochs=30, batch_size=128,
                   word_dim=word, embed_size=embed, grad_clip=2.0, crop_size=224, num_layers=1, learning_rate=0.0002, lr_update=15,
                   workers=10, log_step=10, val_step=500, logger_name="runs/runX", resume="", max_violation=True,
                   img_dim=FEAT, finetune=False, cnn_type="vgg19", use_restval=False, measure="cosine", use_abs=False,
                   no_imgnorm=False, reset_train=False, dim_vid=embed, dim_hidden=512, bidirectional=0, input_dropout_p=0.2,
                   rnn_type="gru", rnn_dropout_p=0.5, dim_word=300, max_len=60, vocab_size=vocab_size)
    return Fixture(modules, options, lambda m, x, tokens, lengths: (m[0](x)[0], m[1](tokens, lengths)))


def vseinf(vocab_size):
    """woodfrog/vse_infty, branch bigru, lib/arguments.py: its table of word vectors has one more row, <mask>.  The batch norms get
    statistics and gains as after some training, and the scores of positions weights that tell them apart."""
    embed, word = 16, 6
    modules = [PooledImage(FEAT, embed), PooledGruText(vocab_size + 1, word, embed)]
    with torch.no_grad():
        modules[1].embed.weight.mul_(10)
        for m in modules:
            m.gpool.linear.weight.uniform_(-1, 1)
        for m in modules[0].modules():
            if isinstance(m, torch.nn.BatchNorm1d):
                m.weight.uniform_(-1, 1)
                m.bias.uniform_(-0.5, 0.5)
                m.running_mean.uniform_(-0.5, 0.5)
                m.running_var.uniform_(0.2, 2)
                m.num_batches_tracked.fill_(3402)
    options = dict(data_path="data/f30k", data_name="f30k", margin=0.2, num_epochs=25, batch_size=128, word_dim=word, embed_size=embed,
                   grad_clip=2.0, num_layers=1, learning_rate=0.0005, lr_update=15, workers=10, log_step=200, val_step=500,
                   logger_name="runs/runX", model_name="runs/runX", max_violation=True, img_dim=FEAT, no_imgnorm=False, no_txtnorm=False,
                   precomp_enc_type="basic", backbone_source="detector", vse_mean_warmup_epochs=1, vocab_size=vocab_size + 1)
    embed_all = lambda m, x, tokens, lengths: (m[0](x, torch.full((len(x),), x.size(1), dtype=torch.long)), m[1](tokens, lengths))
    return Fixture(modules, options, embed_all)


def sgraf(vocab_size, module):
    """Paranioar/SGRAF, opts.py.  Batch norms as after some training."""
    embed, word, sim, steps = 16, 6, 5, 3
    modules = [RegionWords(FEAT, embed), WordStates(vocab_size, word, embed),
               SgrafSimilarity(embed, sim, module, steps, REGIONS)]
    with torch.no_grad():
        modules[1].embed.weight.mul_(10)
        for m in modules[2].modules():
            if isinstance(m, torch.nn.Linear):
                m.bias.uniform_(-0.5, 0.5)
            if isinstance(m, torch.nn.BatchNorm1d):
                m.weight.uniform_(-1, 1)
                m.bias.uniform_(-0.5, 0.5)
                m.running_mean.uniform_(-0.5, 0.5)
                m.running_var.uniform_(0.2, 2)
                m.num_batches_tracked.fill_(3402)
        modules[2].sim_eval_w.weight.mul_(8)                # so that the scores differ
    options = dict(data_path="./data", data_name="f30k_precomp", vocab_path="./data/vocab/", model_name="./runs/checkpoint",
                   logger_name="./runs/log", num_epochs=40, lr_update=30, learning_rate=0.0002, workers=10, log_step=10, val_step=1000,
                   batch_size=128, img_dim=FEAT, word_dim=word, embed_size=embed, sim_dim=sim, num_layers=1, bi_gru=True, no_imgnorm=False,
                   no_txtnorm=False, module_name=module, sgr_step=steps, grad_clip=2.0, margin=0.2, max_violation=True,
                   vocab_size=vocab_size)
    return Fixture(modules, options, pairs=lambda m, x, tokens, lengths: m[2](m[0](x), m[1](tokens, lengths), lengths))


def pixels(data):
    """width and height of every picture, twice: [N, 1, 4]"""
    return np.array([[[d["image_w"], d["image_h"]] * 2] for d in data["sizes"]], dtype=np.float32)


def stored_boxes(data, captions, dtype, batch):
    """the boxes that evaluation.py of CrossmodalGroup/GSMN keeps under every caption, [captions, R, 4]: it goes through the captions
    twice, batch by batch; each access divides the boxes of the image by the size of its picture, in place, and ends, as in data.py,
    with torch.Tensor, which shares the memory of a float32 array and copies a float64 one"""
    boxes, size = data["boxes"].astype(dtype), pixels(data)
    kept = np.zeros((captions, *boxes.shape[1:]), dtype=np.float32)
    for _ in range(2):
        for first in range(0, captions, batch):
            items = []
            for c in range(first, min(first + batch, captions)):
                boxes[c // PER_IMAGE] /= size[c // PER_IMAGE]
                items.append(torch.Tensor(boxes[c // PER_IMAGE]))
            kept[first:first + batch] = torch.stack(items).numpy()
    return kept


def compat_scores(fixture, features, ids):
    """scores of a network with boxes as its repository evaluates it, with boxes of float32 and of float64: image i has the boxes kept
    under caption i, in five folds those under its first caption"""
    data, out = fixture.data, {}
    for dtype in ("float32", "float64"):
        kept = stored_boxes(data, len(ids), dtype, fixture.options["batch_size"])
        for name, boxes in (("scores_compat", kept[:len(features)]), ("scores_compat_folds", kept[::PER_IMAGE])):
            fixture.data = dict(data, shares=np.ascontiguousarray(boxes))
            out["%s_%s.npy" % (name, dtype)] = scores(fixture, features, ids, torch.float64)
    fixture.data = data
    return out


def gsmn(vocab_size):
    """CrossmodalGroup/GSMN, train.py."""
    embed, word = 32, 6
    modules = [RegionWords(FEAT, embed), WordStates(vocab_size, word, embed, rnn_name="rnn", p=0), ImageGraph(), TextGraph()]
    with torch.no_grad():
        modules[1].embed.weight.mul_(10)
        modules[0].fc.bias.uniform_(-0.5, 0.5)
        for m in modules[2:]:
            m.out_1.weight_g.mul_(1.5)                      # so that lengths are not those of the directions
            m.out_2.weight_g.mul_(3)
    options = dict(data_path="./data", data_name="f30k_precomp", vocab_path="./vocab/", model_name="./runs/checkpoint", logger_name="./runs/log",
                   margin=0.2, num_epochs=30, batch_size=8, word_dim=word, embed_size=embed, grad_clip=2.0, num_layers=1, learning_rate=0.0002,
                   lr_update=15, workers=10, log_step=100, val_step=15000, resume="", max_violation=True, img_dim=FEAT, no_imgnorm=False,
                   no_txtnorm=False, bi_gru=True, lambda_softmax=20.0, is_sparse=True, num_block=16, hid_dim=32, out_dim=1, vocab_size=vocab_size)

    def pairs(m, x, tokens, lengths, data):
        v, c, width = m[0](x), m[1](tokens, lengths), embed // 16
        if "shares" in data:
            boxes = torch.from_numpy(data["shares"]).to(x.dtype)
        else:
            boxes = torch.from_numpy(data["boxes"]).to(x.dtype) / torch.from_numpy(pixels(data)).to(x.dtype)
        return m[2](v, c, boxes, lengths, width, 20.0) + m[3](v, c, data["trees"], lengths, width, 20.0, True)

    return Fixture(modules, options, pairs=pairs, graph=True)


NETWORKS = {"gsmn": gsmn, "saf": lambda vocab_size: sgraf(vocab_size, "SAF"), "sgr": lambda vocab_size: sgraf(vocab_size, "SGR"), "vsepp": vsepp, "vsrn": vsrn, "vsrn-coco": lambda vocab_size: vsrn(vocab_size, "coco_precomp")}


# ------------------------------------------------------------------------------------------------------------ scores
def scores(fixture, features, ids, dtype):
    """S [N, M]; captions go through in one batch sorted by length, as the references' loaders sort it"""
    order = sorted(range(len(ids)), key=lambda i: -len(ids[i]))
    lengths = [len(ids[i]) for i in order]
    tokens = torch.zeros(len(ids), lengths[0], dtype=torch.long)
    for row, i in enumerate(order):
        tokens[row, :len(ids[i])] = torch.tensor(ids[i])
    modules = [m.to(dtype).eval() for m in fixture.modules]
    if fixture.pairs:
        with torch.no_grad():
            more = ()
            if fixture.graph:
                more = (dict(fixture.data, trees=[fixture.data["trees"][i] for i in order]),)
            s = fixture.pairs(modules, torch.from_numpy(features).to(dtype), tokens, lengths, *more).double().numpy()
        out = np.empty_like(s)
        out[:, order] = s
        return out
    with torch.no_grad():
        images, sorted_captions = fixture.embed(modules, torch.from_numpy(features).to(dtype), tokens, lengths)
    caps = torch.empty_like(sorted_captions)
    caps[torch.tensor(order)] = sorted_captions
    return images.double().numpy() @ caps.double().numpy().T


def expected(s):
    i2t, t2i, ri, rt = recalls(s, PER_IMAGE, kind="stable")
    keys = ("r1", "r5", "r10", "medr", "meanr")
    total = float(sum(i2t[:3]) + sum(t2i[:3]))
    return {"i2t": dict(zip(keys, map(float, i2t))), "t2i": dict(zip(keys, map(float, t2i))), "rsum": total, "m_recall": total / 6,
            "i2t_ranks": [int(r) for r in ri], "t2i_ranks": [int(r) for r in rt]}


# ------------------------------------------------------------------------------------------------------- checkpoints
def save(path, fixture, legacy):
    state = {"epoch": 3, "model": [m.state_dict() for m in fixture.modules], "best_rsum": 123.25,
             "opt": argparse.Namespace(**fixture.options), "Eiters": 3402}
    if not legacy:
        torch.save(state, path)
        return
    real = torch.serialization.location_tag
    torch.serialization.location_tag = lambda storage: "cuda:0"
    try:
        torch.save(state, path, _use_new_zipfile_serialization=False)
    finally:
        torch.serialization.location_tag = real


def load(path, fixture):
    state = torch.load(path, map_location="cpu", weights_only=False)    # written by this script, so Namespace is harmless
    for m, values in zip(fixture.modules, state["model"]):
        m.load_state_dict(values)
    return state


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--network", choices=sorted(NETWORKS), required=True)
    p.add_argument("--out", required=True, metavar="DIR")
    p.add_argument("--seed", type=int, default=7)
    p.add_argument("--check", action="store_true", help="write nothing: load both checkpoints and compare their scores with scores.npy")
    opts = p.parse_args()
    torch.manual_seed(opts.seed)
    torch.set_num_threads(1)
    at = lambda name: os.path.join(opts.out, name)
    paths = (at("checkpoint.pth.tar"), at("checkpoint_legacy.pth.tar"))
    if opts.check:
        features, vocab = np.load(at("data/test_ims.npy")), json.load(open(at("data/vocab.json"), encoding="utf-8"))
        texts = open(at("data/test_caps.txt"), encoding="utf-8").read().splitlines()
        caps = captions(np.random.default_rng(opts.seed))
        if texts != [text for text, _ in caps]:
            raise SystemExit("the captions are not those of this script and seed")
        for path in paths:
            fixture = NETWORKS[opts.network](vocab["idx"])
            if fixture.graph:
                fixture.data = read_graph_data(at("data"))
            load(path, fixture)
            for name, dtype, limit in (("scores_f32.npy", torch.float32, 1e-5), ("scores.npy", torch.float64, 1e-9)):
                worst = float(np.abs(scores(fixture, features, token_ids(caps, vocab), dtype) - np.load(at(name))).max())
                print("%s %s: largest difference %.3g" % (path, name, worst))
                if not worst <= limit:
                    raise SystemExit("more than %g" % limit)
            for name, want in compat_scores(fixture, features, token_ids(caps, vocab)).items() if fixture.graph else ():
                worst = float(np.abs(want - np.load(at(name))).max())
                print("%s %s: largest difference %.3g" % (path, name, worst))
                if not worst <= 1e-9:
                    raise SystemExit("more than 1e-9")
        return 0
    os.makedirs(opts.out, exist_ok=True)
    rng = np.random.default_rng(opts.seed)
    features, caps, vocab = write_data(at("data"), rng)
    fixture = NETWORKS[opts.network](vocab["idx"])
    if fixture.graph:
        write_graph_data(at("data"), rng, caps)
        fixture.data = read_graph_data(at("data"))
    ids = token_ids(caps, vocab)
    for path in paths:
        save(path, fixture, legacy=path is paths[1])
    np.save(at("scores_f32.npy"), scores(fixture, features, ids, torch.float32))
    exact = scores(fixture, features, ids, torch.float64)
    np.save(at("scores.npy"), exact)
    for name, values in compat_scores(fixture, features, ids).items() if fixture.graph else ():
        np.save(at(name), values)
    with open(at("expected.json"), "w", encoding="utf-8") as f:
        json.dump(expected(exact), f, indent=1)
        f.write("\n")
    print("%s: scores %s, %.3f ... %.3f" % (opts.out, exact.shape, exact.min(), exact.max()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
