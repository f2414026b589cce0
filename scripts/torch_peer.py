#!/usr/bin/env python3
"""PyTorch peer of vsetrain: one training step of each visual-semantic embedding network, timed.

The layers are those of the papers at full size, and the work is arranged the way the public reference
repositories arrange it: packed GRUs, one Python iteration per caption in SGRAF and GSMN, a Python loop over
decoder time steps in VSRN's captioning branch, a Python loop over anchors for LUWM, Adam/AdamW over plain
parameter lists, gradient clipping at 2.0 and one host read of the loss per step.  The code is our own.

    torch_peer.py --network saf --steps 10                 one JSON line on stdout
    torch_peer.py --network vseinf-bert --dtype bf16 --device cuda
    torch_peer.py --network sgr --eval-pairs               scoring 1000 images x 5000 captions
    torch_peer.py --semantics --captions train_caps.txt    TF-IDF + truncated SVD
    torch_peer.py --gemm                                   matrix-product peak only
    torch_peer.py --verify testdata/golden                 float64 check of these modules against golden JSON

Needs torch (1.13 ... 2.11 and later) and numpy; --semantics also uses scikit-learn, scipy and nltk if present.
"""
import os
import sys


def _early_threads(argv):
    """BLAS libraries read their thread count when they are loaded, so set it before numpy/torch."""
    n = None
    for i, a in enumerate(argv):
        if a == "--threads" and i + 1 < len(argv):
            n = argv[i + 1]
        elif a.startswith("--threads="):
            n = a.split("=", 1)[1]
    if n and n.isdigit() and int(n) > 0:
        for k in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            os.environ[k] = n


_early_threads(sys.argv[1:])

import argparse
import contextlib
import glob
import json
import math
import random
import re
import resource
import statistics
import tempfile
import time
import warnings

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import clip_grad_norm_
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

def settle_environment(opts):
    """Give a CPU run on Linux its best process settings (unless the caller chose them) by restarting once.

    - glibc hands every large tensor back to the kernel and pays for fresh pages each time: keep the memory instead
      (measured: 10-30 % shorter steps).
    - A torch build without MKL (Linux distributions) runs its own OpenMP pool next to the pool of OpenBLAS; both spin
      while they wait and take each other's cores (measured: up to 2.8x longer float32 steps): let them sleep.  Not for
      bf16, whose products go through oneDNN in the OpenMP pool and gain from spinning."""
    if opts.device != "cpu" or opts.plain_env or not sys.platform.startswith("linux") or os.environ.get("TORCH_PEER_SETTLED"):
        return
    env = dict(os.environ, TORCH_PEER_SETTLED="1")
    if not any(k.startswith("MALLOC_") for k in env):
        env.update(MALLOC_MMAP_MAX_="0", MALLOC_TRIM_THRESHOLD_="100000000000")
    if opts.dtype != "bf16" and not torch.backends.mkl.is_available() and "OMP_WAIT_POLICY" not in env:
        env["OMP_WAIT_POLICY"] = "PASSIVE"
        env.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable] + sys.argv, env)


NETWORKS = ("vsepp", "vsrn", "vsrn-nocap", "saf", "sgr", "vseinf-bigru", "vseinf-bert", "gsmn")
LOSSES = ("lmh", "lsh", "lseh", "lseh-loop", "luwm", "luwm-vec")
VOCAB = 8481            # f30k_precomp vocabulary
BERT_VOCAB = 30522
REGIONS, FEAT = 36, 2048
CLIP = 2.0

# Number of Flickr30K training captions per token count (start and end token included), measured on the 145,000
# public training captions with a Treebank-style tokeniser; the 440 captions longer than 40 are put at 40.  Mean 15.4.
LENGTH_HIST = {
    4: 11, 5: 47, 6: 255, 7: 1005, 8: 3256, 9: 7173, 10: 10087, 11: 11988, 12: 13518, 13: 14053, 14: 13222,
    15: 11758, 16: 10344, 17: 9097, 18: 7406, 19: 6072, 20: 4864, 21: 4025, 22: 3250, 23: 2544, 24: 2173, 25: 1616,
    26: 1299, 27: 1076, 28: 920, 29: 716, 30: 594, 31: 440, 32: 360, 33: 337, 34: 253, 35: 207, 36: 154, 37: 164,
    38: 118, 39: 88, 40: 529,
}


def log(*a):
    print(*a, file=sys.stderr, flush=True)


# ----------------------------------------------------------------------------------------------------- primitives
def l2_plain(x, dim):
    return x / x.pow(2).sum(dim=dim, keepdim=True).sqrt()


def l2_eps(x, dim, eps=1e-8):
    return torch.div(x, torch.pow(x, 2).sum(dim=dim, keepdim=True).sqrt() + eps)


def l1_eps(x, dim, eps=1e-8):
    return torch.div(x, torch.abs(x).sum(dim=dim, keepdim=True) + eps)


def xavier_uniform_zero_bias(linear):
    r = math.sqrt(6.0) / math.sqrt(linear.in_features + linear.out_features)
    with torch.no_grad():
        linear.weight.uniform_(-r, r)
        if linear.bias is not None:
            linear.bias.zero_()
    return linear


def xlinear(i, o):
    return xavier_uniform_zero_bias(nn.Linear(i, o))


def word_table(v, w):
    e = nn.Embedding(v, w)
    with torch.no_grad():
        e.weight.uniform_(-0.1, 0.1)
    return e


def rnn_input(rnn, x):
    """CPU autocast does not cover nn.GRU in every torch version: feed it the dtype of its weights there."""
    w = rnn.weight_hh_l0.dtype
    return x.to(w) if x.device.type == "cpu" and x.dtype != w else x


def packed_states(rnn, x, lengths, enforce_sorted=True):
    packed = pack_padded_sequence(rnn_input(rnn, x), lengths, batch_first=True, enforce_sorted=enforce_sorted)
    out, _ = rnn(packed)
    return pad_packed_sequence(out, batch_first=True)[0]


def mean_of_directions(out):
    h = out.size(2) // 2
    return (out[:, :, :h] + out[:, :, h:]) / 2


# ---------------------------------------------------------------------------------------------------------- VSE++
class FlatImage(nn.Module):
    def __init__(self, regions=REGIONS, feat=FEAT, embed=1024):
        super().__init__()
        self.fc = xlinear(regions * feat, embed)

    def forward(self, images):
        return l2_plain(self.fc(images.reshape(images.size(0), -1)), 1)


class LastStateText(nn.Module):
    """VSE++ and VSRN sentence encoder: GRU, output at the last valid step."""

    def __init__(self, vocab=VOCAB, word=300, embed=1024):
        super().__init__()
        self.embed = word_table(vocab, word)
        self.rnn = nn.GRU(word, embed, 1, batch_first=True)

    def forward(self, tokens, lengths):
        out = packed_states(self.rnn, self.embed(tokens), lengths)
        at = torch.as_tensor(lengths, dtype=torch.long).view(-1, 1, 1)
        at = (at.expand(out.size(0), 1, out.size(2)) - 1).to(out.device)
        return l2_plain(torch.gather(out, 1, at).squeeze(1), 1)


# ----------------------------------------------------------------------------------------------------------- VSRN
class RegionReasoning(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.g = nn.Conv1d(c, c, 1)
        self.W = nn.Sequential(nn.Conv1d(c, c, 1), nn.BatchNorm1d(c))
        self.theta = nn.Conv1d(c, c, 1)
        self.phi = nn.Conv1d(c, c, 1)
        nn.init.zeros_(self.W[1].weight)
        nn.init.zeros_(self.W[1].bias)

    def forward(self, v):                                   # [B, C, N]
        g = self.g(v).permute(0, 2, 1)
        theta = self.theta(v).permute(0, 2, 1)
        rel = torch.matmul(theta, self.phi(v))
        rel = rel / rel.size(-1)
        y = torch.matmul(rel, g).permute(0, 2, 1).contiguous()
        return self.W(y) + v


class VsrnImage(nn.Module):
    def __init__(self, feat=FEAT, embed=2048, f30k=True):
        super().__init__()
        self.f30k = f30k
        self.fc = xlinear(feat, embed)
        self.img_rnn = nn.GRU(embed, embed, 1, batch_first=True)
        self.Rs_GCN_1 = RegionReasoning(embed)
        self.Rs_GCN_2 = RegionReasoning(embed)
        self.Rs_GCN_3 = RegionReasoning(embed)
        self.Rs_GCN_4 = RegionReasoning(embed)
        if f30k:
            self.bn = nn.BatchNorm1d(embed)

    def forward(self, images):
        f = self.fc(images)
        if not self.f30k:
            f = l2_plain(f, 1)
        v = f.permute(0, 2, 1)
        for block in (self.Rs_GCN_1, self.Rs_GCN_2, self.Rs_GCN_3, self.Rs_GCN_4):
            v = block(v)
        g = l2_plain(v.permute(0, 2, 1), 1)                 # region axis, as released
        _, h = self.img_rnn(rnn_input(self.img_rnn, g))
        h = h[0]
        if self.f30k:
            h = self.bn(h)
        return l2_plain(h, 1), g


class CaptionEncoder(nn.Module):
    def __init__(self, feat, hidden, p=0.2):
        super().__init__()
        self.vid2hid = nn.Linear(feat, hidden)
        self.drop = nn.Dropout(p)
        self.rnn = nn.GRU(hidden, hidden, 1, batch_first=True)
        nn.init.xavier_normal_(self.vid2hid.weight)

    def forward(self, g):
        x = self.drop(self.vid2hid(g))
        self.rnn.flatten_parameters()
        return self.rnn(rnn_input(self.rnn, x))


class DecoderAttention(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.linear1 = nn.Linear(2 * hidden, hidden)
        self.linear2 = nn.Linear(hidden, 1, bias=False)

    def forward(self, h, enc):
        b, n, d = enc.size()
        pair = torch.cat((enc, h.unsqueeze(1).repeat(1, n, 1)), 2).view(-1, 2 * d)
        e = self.linear2(torch.tanh(self.linear1(pair))).view(b, n)
        alpha = F.softmax(e, dim=1)
        return torch.bmm(alpha.unsqueeze(1).to(enc.dtype), enc).squeeze(1)


class CaptionDecoder(nn.Module):
    def __init__(self, vocab, max_len, hidden, word, p=0.2):
        super().__init__()
        self.max_len = max_len
        self.drop = nn.Dropout(p)
        self.embedding = nn.Embedding(vocab, word)
        self.attention = DecoderAttention(hidden)
        self.rnn = nn.GRU(hidden + word, hidden, 1, batch_first=True)
        self.out = nn.Linear(hidden, vocab)
        nn.init.xavier_normal_(self.out.weight)

    def forward(self, enc, h, labels):
        self.rnn.flatten_parameters()
        words = self.embedding(labels)
        steps = []
        for t in range(self.max_len - 1):
            ctx = self.attention(h.squeeze(0), enc)
            x = self.drop(torch.cat([words[:, t, :], ctx], dim=1)).unsqueeze(1)
            y, h = self.rnn(rnn_input(self.rnn, x), h)
            steps.append(F.log_softmax(self.out(y.squeeze(1)), dim=1).unsqueeze(1))
        return torch.cat(steps, 1)


class CaptionModel(nn.Module):
    def __init__(self, vocab=VOCAB, max_len=60, feat=2048, hidden=512, word=300, p=0.2):
        super().__init__()
        self.encoder = CaptionEncoder(feat, hidden, p)
        self.decoder = CaptionDecoder(vocab, max_len, hidden, word, p)

    def forward(self, g, labels):
        enc, h = self.encoder(g)
        return self.decoder(enc, h, labels)

    @staticmethod
    def loss(logp, labels, masks):
        n = logp.size(0)
        target = labels[:, 1:][:, :logp.size(1)].contiguous().view(-1)
        mask = masks[:, 1:][:, :logp.size(1)].contiguous().view(-1)
        nll = F.nll_loss(logp.contiguous().view(-1, logp.size(2)), target, reduction="none")
        return torch.sum(nll * mask.to(nll.dtype)) / n


# ---------------------------------------------------------------------------------------------------------- SGRAF
class RegionWords(nn.Module):
    """Image encoder of SGRAF and GSMN: one linear map per region, unit length."""

    def __init__(self, feat=FEAT, embed=1024):
        super().__init__()
        self.fc = xlinear(feat, embed)

    def forward(self, images):
        return l2_eps(self.fc(images), -1)


class WordStates(nn.Module):
    """Text encoder of SGRAF (rnn_name cap_rnn, dropout 0.4) and GSMN (rnn_name rnn, no dropout)."""

    def __init__(self, vocab=VOCAB, word=300, embed=1024, rnn_name="cap_rnn", p=0.4):
        super().__init__()
        self.embed = word_table(vocab, word)
        self.drop = nn.Dropout(p) if p else None
        self.rnn_name = rnn_name
        setattr(self, rnn_name, nn.GRU(word, embed, 1, batch_first=True, bidirectional=True))

    def forward(self, tokens, lengths):
        x = self.embed(tokens)
        if self.drop is not None:
            x = self.drop(x)
        return l2_eps(mean_of_directions(packed_states(getattr(self, self.rnn_name), x, lengths)), -1)


class SelfAttentionPool(nn.Module):
    """Global vector from local ones; regions != None adds the two batch norms of the visual version."""

    def __init__(self, embed, regions=None, p=0.4):
        super().__init__()
        def branch(bn):
            return nn.Sequential(*([xlinear(embed, embed)] + ([nn.BatchNorm1d(bn)] if bn else [])
                                   + [nn.Tanh(), nn.Dropout(p)]))
        self.embedding_local = branch(regions)
        self.embedding_global = branch(embed if regions else None)
        self.embedding_common = nn.Sequential(xlinear(embed, 1))

    def forward(self, local, raw):
        loc = self.embedding_local(local)
        glo = self.embedding_global(raw).unsqueeze(1).repeat(1, loc.size(1), 1)
        w = torch.softmax(self.embedding_common(loc.mul(glo)).squeeze(2), dim=1)
        return l2_eps((w.unsqueeze(2) * local).sum(dim=1), -1)


class GraphStep(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.graph_query_w = xlinear(d, d)
        self.graph_key_w = xlinear(d, d)
        self.sim_graph_w = xlinear(d, d)

    def forward(self, x):
        edge = torch.softmax(torch.bmm(self.graph_query_w(x), self.graph_key_w(x).permute(0, 2, 1)), dim=-1)
        return torch.relu(self.sim_graph_w(torch.bmm(edge.to(x.dtype), x)))


class Filtration(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.attn_sim_w = xlinear(d, 1)
        self.bn = nn.BatchNorm1d(1)

    def forward(self, x):
        a = l1_eps(torch.sigmoid(self.bn(self.attn_sim_w(x).permute(0, 2, 1))), -1)
        return l2_eps(torch.matmul(a, x.to(a.dtype)).squeeze(1), -1)


def cross_attention(words, regions, smooth):
    """context vector of every word over the regions; words [n, L, d], regions [n, R, d]"""
    a = torch.bmm(regions, torch.transpose(words, 1, 2))
    a = l2_eps(F.leaky_relu(a, 0.1), 2)
    a = torch.transpose(a, 1, 2).contiguous()
    a = F.softmax(a * smooth, dim=2)
    at = torch.transpose(a, 1, 2).contiguous()
    ctx = torch.bmm(torch.transpose(regions, 1, 2), at.to(regions.dtype))
    return l2_eps(torch.transpose(ctx, 1, 2), -1)


class SgrafSimilarity(nn.Module):
    def __init__(self, embed=1024, sim=256, module="SAF", steps=3, regions=REGIONS, smooth=9.0):
        super().__init__()
        self.module, self.smooth = module, smooth
        self.v_global_w = SelfAttentionPool(embed, regions)
        self.t_global_w = SelfAttentionPool(embed)
        self.sim_tranloc_w = xlinear(embed, sim)
        self.sim_tranglo_w = xlinear(embed, sim)
        self.sim_eval_w = xlinear(sim, 1)
        if module == "SGR":
            self.SGR_module = nn.ModuleList([GraphStep(sim) for _ in range(steps)])
        else:
            self.SAF_module = Filtration(sim)

    def forward(self, images, captions, lengths):
        n = images.size(0)
        img_glo = self.v_global_w(images, torch.mean(images, 1))
        columns = []
        for i in range(captions.size(0)):                   # one caption at a time, all images at once
            cap = captions[i, :lengths[i], :].unsqueeze(0)
            cap_all = cap.repeat(n, 1, 1)
            cap_glo = self.t_global_w(cap, torch.mean(cap, 1))
            ctx = cross_attention(cap_all, images, self.smooth)
            loc = l2_eps(self.sim_tranloc_w(torch.pow(torch.sub(ctx, cap_all), 2)), -1)
            glo = l2_eps(self.sim_tranglo_w(torch.pow(torch.sub(img_glo, cap_glo), 2)), -1)
            nodes = torch.cat([glo.unsqueeze(1), loc], 1)
            if self.module == "SGR":
                for step in self.SGR_module:
                    nodes = step(nodes)
                vec = nodes[:, 0, :]
            else:
                vec = self.SAF_module(nodes)
            columns.append(torch.sigmoid(self.sim_eval_w(vec)))
        return torch.cat(columns, 1)


# --------------------------------------------------------------------------------------------------- VSE-infinity
class GPO(nn.Module):
    """Generalised pooling: sorted features weighted by coefficients that depend on the length only."""

    def __init__(self, d_pe=32, d_hidden=32):
        super().__init__()
        self.d_pe = d_pe
        self.gru = nn.GRU(d_pe, d_hidden, 1, batch_first=True, bidirectional=True)
        self.linear = nn.Linear(d_hidden, 1, bias=False)
        self._tables = {}

    def table(self, length):
        if length not in self._tables:
            pos = torch.arange(length, dtype=torch.float64).unsqueeze(1)
            div = torch.exp(torch.arange(0, self.d_pe, 2, dtype=torch.float64) * -(math.log(10000.0) / self.d_pe))
            pe = torch.zeros(length, self.d_pe, dtype=torch.float64)
            pe[:, 0::2] = torch.sin(pos * div)
            pe[:, 1::2] = torch.cos(pos * div)
            self._tables[length] = pe.to(self.linear.weight.dtype)
        return self._tables[length]

    def weights(self, lengths, device):
        n, k = lengths.size(0), int(lengths.max())
        pe = self.table(k).unsqueeze(0).repeat(n, 1, 1).to(device)
        mask = (torch.arange(k).expand(n, k).to(device) < lengths.long().unsqueeze(1)).unsqueeze(-1)
        pe = pe.masked_fill(mask == 0, 0)
        self.gru.flatten_parameters()
        out = mean_of_directions(packed_states(self.gru, pe, lengths.cpu().long(), enforce_sorted=False))
        scores = self.linear(out)
        scores = scores.masked_fill(mask == 0, -10000.0)
        return torch.softmax(scores / 0.1, 1), mask

    def forward(self, features, lengths):
        w, mask = self.weights(lengths, features.device)
        x = features[:, :int(lengths.max()), :]
        x = x.masked_fill(mask == 0, -10000.0).sort(dim=1, descending=True)[0]
        x = x.masked_fill(mask == 0, 0)
        return (x * w).sum(1), w


class RowMLP(nn.Module):
    def __init__(self, i, h, o):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(i, h), nn.Linear(h, o)])
        self.bns = nn.ModuleList([nn.BatchNorm1d(h), nn.BatchNorm1d(o)])     # the second one exists but is unused

    def forward(self, x):
        b, n, d = x.size()
        x = F.relu(self.bns[0](self.layers[0](x.reshape(b * n, d))))
        return self.layers[1](x).view(b, n, -1)


class PooledImage(nn.Module):
    def __init__(self, feat=FEAT, embed=1024, d_pe=32, d_hidden=32):
        super().__init__()
        self.fc = xlinear(feat, embed)
        self.mlp = RowMLP(feat, embed // 2, embed)
        self.gpool = GPO(d_pe, d_hidden)

    def forward(self, images, lengths):
        x = self.fc(images)
        x = self.mlp(images) + x
        x, _ = self.gpool(x, lengths)
        return l2_eps(x, -1)


class PooledGruText(nn.Module):
    def __init__(self, vocab=VOCAB + 1, word=300, embed=1024, d_pe=32, d_hidden=32):
        super().__init__()
        self.embed = word_table(vocab, word)
        self.rnn = nn.GRU(word, embed, 1, batch_first=True, bidirectional=True)
        self.gpool = GPO(d_pe, d_hidden)

    def forward(self, tokens, lengths):
        self.rnn.flatten_parameters()
        x = mean_of_directions(packed_states(self.rnn, self.embed(tokens), lengths))
        at = torch.as_tensor(lengths).to(x.device)
        x, _ = self.gpool(x, at)
        return l2_eps(x, -1)


class BertEmbeddings(nn.Module):
    def __init__(self, v, d, positions, p):
        super().__init__()
        self.word_embeddings = nn.Embedding(v, d)
        self.position_embeddings = nn.Embedding(positions, d)
        self.token_type_embeddings = nn.Embedding(2, d)
        self.LayerNorm = nn.LayerNorm(d, eps=1e-12)
        self.dropout = nn.Dropout(p)

    def forward(self, ids):
        pos = torch.arange(ids.size(1), device=ids.device).unsqueeze(0)
        x = self.word_embeddings(ids) + self.position_embeddings(pos) + self.token_type_embeddings(torch.zeros_like(ids))
        return self.dropout(self.LayerNorm(x))


class BertSelf(nn.Module):
    def __init__(self, d, heads, p, sdpa):
        super().__init__()
        self.query, self.key, self.value = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
        self.heads, self.p, self.sdpa = heads, p, sdpa
        self.dropout = nn.Dropout(p)

    def forward(self, x, add):
        b, n, d = x.shape
        q, k, v = (f(x).view(b, n, self.heads, d // self.heads).permute(0, 2, 1, 3) for f in (self.query, self.key, self.value))
        if self.sdpa:
            c = F.scaled_dot_product_attention(q, k, v, attn_mask=add.to(q.dtype), dropout_p=self.p if self.training else 0.0)
        else:
            s = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(d // self.heads) + add
            c = torch.matmul(self.dropout(torch.softmax(s, -1)).to(v.dtype), v)
        return c.permute(0, 2, 1, 3).contiguous().view(b, n, d)


class BertOut(nn.Module):
    def __init__(self, i, d, p):
        super().__init__()
        self.dense = nn.Linear(i, d)
        self.LayerNorm = nn.LayerNorm(d, eps=1e-12)
        self.dropout = nn.Dropout(p)

    def forward(self, x, residual):
        return self.LayerNorm(self.dropout(self.dense(x)) + residual)


class BertAttention(nn.Module):
    def __init__(self, d, heads, p, sdpa):
        super().__init__()
        self.self = BertSelf(d, heads, p, sdpa)
        self.output = BertOut(d, d, p)

    def forward(self, x, add):
        return self.output(self.self(x, add), x)


class BertDense(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.dense = nn.Linear(i, o)

    def forward(self, x):
        return self.dense(x)


class BertLayer(nn.Module):
    def __init__(self, d, heads, ff, p, sdpa):
        super().__init__()
        self.attention = BertAttention(d, heads, p, sdpa)
        self.intermediate = BertDense(d, ff)
        self.output = BertOut(ff, d, p)

    def forward(self, x, add):
        x = self.attention(x, add)
        return self.output(F.gelu(self.intermediate(x)), x)


class BertStack(nn.Module):
    def __init__(self, *layer_args, layers):
        super().__init__()
        self.layer = nn.ModuleList([BertLayer(*layer_args) for _ in range(layers)])

    def forward(self, x, add):
        for layer in self.layer:
            x = layer(x, add)
        return x


class Bert(nn.Module):
    def __init__(self, vocab=BERT_VOCAB, d=768, heads=12, ff=3072, layers=12, positions=512, p=0.1, sdpa=False):
        super().__init__()
        self.embeddings = BertEmbeddings(vocab, d, positions, p)
        self.encoder = BertStack(d, heads, ff, p, sdpa, layers=layers)
        self.pooler = BertDense(d, d)
        for m in self.modules():
            if isinstance(m, (nn.Linear, nn.Embedding)):
                nn.init.normal_(m.weight, 0.0, 0.02)
            if isinstance(m, nn.Linear):
                nn.init.zeros_(m.bias)

    def forward(self, ids):
        mask = (ids != 0).to(self.pooler.dense.weight.dtype)
        x = self.encoder(self.embeddings(ids), (1.0 - mask)[:, None, None, :] * -10000.0)
        return x, torch.tanh(self.pooler(x[:, 0]))


class PooledBertText(nn.Module):
    def __init__(self, embed=1024, sdpa=False):
        super().__init__()
        self.bert = Bert(sdpa=sdpa)
        self.linear = nn.Linear(768, embed)
        self.gpool = GPO()

    def forward(self, tokens, lengths):
        x = self.linear(self.bert(tokens)[0])
        x, _ = self.gpool(x, torch.as_tensor(lengths).to(x.device))
        return l2_eps(x, -1)


# ----------------------------------------------------------------------------------------------------------- GSMN
class NormedLinear(nn.Module):
    """weight-normalised linear layer with the parameter names of the reference checkpoints"""

    def __init__(self, i, o):
        super().__init__()
        base = nn.Linear(i, o)
        self.weight_g = nn.Parameter(base.weight.detach().norm(dim=1, keepdim=True))
        self.weight_v = nn.Parameter(base.weight.detach().clone())
        self.bias = nn.Parameter(base.bias.detach().clone())

    def forward(self, x):
        w = self.weight_v * (self.weight_g / self.weight_v.norm(2, dim=1, keepdim=True))
        return F.linear(x, w, self.bias)


def relation(keys, queries, lam):
    """attention of every query over the keys, [n, Q, K]"""
    n, q, k = queries.size(0), queries.size(1), keys.size(1)
    a = torch.bmm(keys, torch.transpose(queries, 1, 2))
    a = l2_eps(F.leaky_relu(a, 0.1), 2)
    a = torch.transpose(a, 1, 2).contiguous().view(n * q, k)
    return torch.softmax(a * lam, dim=1).view(n, q, k)


def block_cosine(x, y, width, eps=1e-8):
    x = torch.stack(torch.split(x, width, dim=2), dim=2)
    y = torch.stack(torch.split(y, width, dim=2), dim=2)
    dot = torch.sum(x * y, -1)
    return dot / (torch.norm(x, 2, -1) * torch.norm(y, 2, -1)).clamp(min=eps)


def node_matching(keys, queries, width, lam):
    at = torch.transpose(relation(keys, queries, lam), 1, 2).to(keys.dtype)
    ctx = torch.transpose(torch.bmm(torch.transpose(keys, 1, 2), at), 1, 2)
    return block_cosine(queries, ctx, width)


class PatchConv(nn.Module):
    """weights [rows, neighbours, kernels] x neighbourhood [rows, neighbours, blocks], one small linear per kernel"""

    def __init__(self, blocks, hidden, kernels, bias):
        super().__init__()
        self.kernels, self.hidden = kernels, hidden
        self.conv_weights = nn.ModuleList([nn.Linear(blocks, hidden // kernels, bias=bias) for _ in range(kernels)])

    def convolve(self, weights, hood, n, k):
        size = hood.size(2)
        weights = weights.view(n * k, size, self.kernels)
        hood = hood.reshape(n * k, size, -1)
        mixed = torch.bmm(weights.transpose(1, 2).to(hood.dtype), hood)
        out = [conv(mixed[:, i]).unsqueeze(1) for i, conv in enumerate(self.conv_weights)]
        return torch.cat(out, dim=1).view(-1, k, self.hidden)


class GaussianConv(PatchConv):
    def __init__(self, blocks, hidden, kernels):
        super().__init__(blocks, hidden, kernels, bias=False)
        self.mean_rho = nn.Parameter(torch.rand(kernels, 1))
        self.mean_theta = nn.Parameter((torch.rand(kernels, 1) * 2 - 1) * math.pi)
        self.precision_rho = nn.Parameter(torch.rand(kernels, 1))
        self.precision_theta = nn.Parameter(torch.rand(kernels, 1))

    def kernel_weights(self, polar):
        rho = polar[..., 0].contiguous().view(-1, 1)
        theta = polar[..., 1].contiguous().view(-1, 1)
        wr = torch.exp(-0.5 * (rho - self.mean_rho.view(1, -1)) ** 2 / (1e-14 + self.precision_rho.view(1, -1) ** 2))
        first = torch.abs(theta - self.mean_theta.view(1, -1))
        second = torch.abs(2 * math.pi - first)
        wt = torch.exp(-0.5 * torch.min(first, second) ** 2 / (1e-14 + self.precision_theta.view(1, -1) ** 2))
        w = wr * wt
        w[(w != w).detach()] = 0
        return w / torch.sum(w, dim=1, keepdim=True)

    def forward(self, hood, polar):
        return self.convolve(self.kernel_weights(polar), hood, hood.size(0), hood.size(1))


class ScalarConv(PatchConv):
    def __init__(self, blocks, hidden, kernels):
        super().__init__(blocks, hidden, kernels, bias=True)
        self.params = nn.Parameter(torch.rand(kernels, 1) * 2 - 1)

    def forward(self, hood, weights):
        n, k = weights.size(0), weights.size(1)
        w = (weights.reshape(-1, 1) * self.params.view(1, -1)).view(n * k, k, -1)
        w = w / torch.sum(w, dim=1, keepdim=True)
        return self.convolve(w, hood, hood.size(0), hood.size(1))


class GraphHead(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.out_1 = NormedLinear(hidden, hidden)
        self.out_2 = NormedLinear(hidden, 1)

    def judge(self, h, n):
        h = h.view(n * h.size(1), -1)
        return self.out_2(self.out_1(h).tanh()).view(n, -1).mean(dim=1, keepdim=True)


class ImageGraph(GraphHead):
    def __init__(self, blocks=16, hidden=32, kernels=8):
        super().__init__(hidden)
        self.graph_convolution_1 = GaussianConv(blocks, hidden, kernels)

    def forward(self, images, captions, boxes, lengths, width, lam):
        n, r = images.size(0), images.size(1)
        centre = boxes[:, :, :2] + 0.5 * (boxes[:, :, 2:] - boxes[:, :, :2])
        d = centre.view(-1, r, 1, 2) - centre.view(-1, 1, r, 2)
        polar = torch.stack((torch.sqrt(d[..., 0] ** 2 + d[..., 1] ** 2), torch.atan2(d[..., 0], d[..., 1])), -1)
        columns = []
        for i in range(captions.size(0)):
            cap = captions[i, :lengths[i], :].unsqueeze(0).contiguous().repeat(n, 1, 1)
            match = node_matching(cap, images, width, lam)
            hood = match.unsqueeze(2).repeat(1, 1, r, 1)
            columns.append(self.judge(self.graph_convolution_1(hood, polar), n))   # kernel weights anew per caption
        return torch.cat(columns, 1)


def adjacency(pairs, n):
    a = np.zeros((n, n))
    for k, (x, y) in enumerate(pairs):
        if k == 0 or x >= n or y >= n:
            continue
        a[x, y] = 1
        a[y, x] = 1
    return a + np.eye(n)


class TextGraph(GraphHead):
    def __init__(self, blocks=16, hidden=32, kernels=8):
        super().__init__(hidden)
        self.graph_convolution_3 = ScalarConv(blocks, hidden, kernels)

    def forward(self, images, captions, depends, lengths, width, lam, sparse):
        n = images.size(0)
        columns = []
        for i in range(captions.size(0)):
            k = int(lengths[i])
            cap = captions[i, :k, :].unsqueeze(0).contiguous()
            intra = torch.softmax(torch.bmm(cap, cap.transpose(1, 2).contiguous()).view(k, k) * lam, dim=1)
            intra = intra.view(1, k, k, 1)
            match = node_matching(images, cap.repeat(n, 1, 1), width, lam).unsqueeze(2)
            if sparse:
                adj = torch.from_numpy(adjacency(depends[i], k)).to(device=images.device, dtype=intra.dtype).view(1, k, k, 1)
                hood = adj * match
                w = l2_eps(adj * intra, 2).repeat(n, 1, 1, 1)
            else:
                hood = match.repeat(1, 1, k, 1)
                w = intra.repeat(n, 1, 1, 1)
            columns.append(self.judge(self.graph_convolution_3(hood, w), n))
        return torch.cat(columns, 1)


# --------------------------------------------------------------------------------------------------------- losses
def hinge_parts(scores, margin, max_violation=True):
    """margin: number or [n, n] matrix.  Returns (loss, caption part, image part, cost matrices)."""
    n = scores.size(0)
    diag = scores.diag().view(n, 1)
    eye = (torch.eye(n) > 0.5).to(scores.device)
    cost_s = (margin + scores - diag.expand_as(scores)).clamp(min=0).masked_fill(eye, 0)
    cost_im = (margin + scores - diag.t().expand_as(scores)).clamp(min=0).masked_fill(eye, 0)
    full = (cost_s, cost_im)
    if max_violation:
        s, im = cost_s.max(1)[0].sum(), cost_im.max(0)[0].sum()
    else:
        s, im = cost_s.sum(), cost_im.sum()
    return s + im, s, im, full


def semantic_similarity(vectors, kind="rowmax"):
    if kind == "cosine":
        norm = vectors.norm(2, dim=1, keepdim=True)
        unit = torch.where(norm > 0, vectors / torch.where(norm > 0, norm, torch.ones_like(norm)), torch.zeros_like(vectors))
        return unit.mm(unit.t())
    gram = vectors.mm(vectors.t())
    top = gram.max(1)[0]
    return gram / torch.where(top == 0, torch.ones_like(top), top).unsqueeze(1)


def semantic_margin(vectors, caption_ids, image_ids, alpha=0.185, lam=0.025, divisor=5, kind="rowmax", loop=False):
    """margin matrix of LSEH.  divisor None: compare image ids with image ids.  loop: the reference's double loop."""
    caption_ids, image_ids = np.asarray(caption_ids), np.asarray(image_ids)
    other = image_ids if divisor is None else caption_ids // divisor
    if loop:
        keep = torch.ones(len(image_ids), len(other))
        for i in range(len(image_ids)):
            for j in range(len(other)):
                if image_ids[i] == other[j]:
                    keep[i, j] = 0
    else:
        keep = torch.from_numpy((image_ids[:, None] != other[None, :]).astype(np.float32))
    keep = keep.to(device=vectors.device, dtype=vectors.dtype)
    m = (semantic_similarity(vectors, kind) * lam + alpha) * keep
    return m.masked_fill((torch.eye(len(image_ids)) > 0.5).to(m.device), 0)


LUWM_POS, LUWM_NEG, LUWM_EPS = (0.5, -0.7, 0.2), (0.03, -0.4, 0.9), 1e-5


def _poly(c, x):
    return torch.clamp(c[2] * torch.pow(x, 2) + c[1] * x + c[0], min=0)


def luwm_loop(scores, margin=0.2, a=LUWM_POS, b=LUWM_NEG, eps=LUWM_EPS):
    """one Python iteration per anchor and direction, as the reference does it"""
    n = scores.size(0)
    label = torch.arange(n, device=scores.device)
    terms = []
    for mat in (scores, scores.t()):
        for i in range(n):
            pos = mat[i][i]
            pos = pos[pos < 1 - eps]
            if len(pos) < 1:
                continue
            neg = mat[i][label != label[i]]
            neg = neg[neg + margin > min(pos)]
            if len(neg) < 1:
                continue
            terms.append(_poly(a, pos) + _poly(b, max(neg)))
    if not terms:
        return scores.sum() * 0.0
    return (sum(terms) / n).sum()


def luwm_vec(scores, margin=0.2, a=LUWM_POS, b=LUWM_NEG, eps=LUWM_EPS):
    n = scores.size(0)
    p = scores.diag()
    off = scores.masked_fill((torch.eye(n) > 0.5).to(scores.device), float("-inf"))
    total = scores.new_zeros(())
    for mat in (off, off.t()):
        v = mat.max(1)[0]
        keep = (p < 1 - eps) & (v + margin > p)
        total = total + (_poly(a, p[keep]) + _poly(b, v[keep])).sum()
    return total / n


def retrieval_loss(kind, scores, batch):
    if kind in ("lmh", "lsh"):
        return hinge_parts(scores, 0.2, kind == "lmh")[0]
    if kind in ("lseh", "lseh-loop"):
        m = semantic_margin(batch["svd"], batch["caption_ids"], batch["image_ids"], loop=kind == "lseh-loop")
        return hinge_parts(scores, m)[0]
    return luwm_loop(scores) if kind == "luwm" else luwm_vec(scores)


# ------------------------------------------------------------------------------------------------------- networks
class Net:
    """A network at full size: modules, score matrix of a batch, parameter groups."""

    def __init__(self, name, opts):
        self.name = name
        self.max_len = 60
        self.sparse = opts.gsmn_mode == "sparse"
        self.lam = 20.0
        m = {}
        if name == "vsepp":
            m = {"img": FlatImage(), "txt": LastStateText()}
        elif name in ("vsrn", "vsrn-nocap"):
            m = {"img": VsrnImage(), "txt": LastStateText(embed=2048)}
            if name == "vsrn":
                m["cap"] = CaptionModel(max_len=self.max_len)
        elif name in ("saf", "sgr"):
            m = {"img": RegionWords(), "txt": WordStates(), "sim": SgrafSimilarity(module=name.upper())}
        elif name == "vseinf-bigru":
            m = {"img": PooledImage(), "txt": PooledGruText()}
        elif name == "vseinf-bert":
            m = {"img": PooledImage(), "txt": PooledBertText(sdpa=opts.bert_attn == "sdpa")}
        elif name == "gsmn":
            m = {"img": RegionWords(), "txt": WordStates(rnn_name="rnn", p=0), "i2t": ImageGraph(), "t2i": TextGraph()}
        self.modules = m
        self.run = dict(m)
        self.duplicate = opts.vsrn_duplicate and name == "vsrn"

    def to(self, device):
        for m in self.modules.values():
            m.to(device)
        return self

    def compile(self):
        for k, m in self.modules.items():
            self.run[k] = torch.compile(m)

    def mode(self, train):
        for k, m in self.modules.items():
            m.train(train or k == "cap")                    # VSRN's captioning modules never leave train mode

    def parameters(self):
        order = ["txt", "img", "sim", "cap", "i2t", "t2i"]
        ps = [p for k in order if k in self.modules for p in self.modules[k].parameters()]
        if self.duplicate:
            ps += list(self.modules["cap"].parameters())
        return ps

    def count(self):
        return sum(p.numel() for m in self.modules.values() for p in m.parameters())

    def optimizer(self):
        if self.name == "vseinf-bert":
            bert = list(self.modules["txt"].bert.parameters())
            ids = {id(p) for p in bert}
            rest = [p for p in self.modules["txt"].parameters() if id(p) not in ids]
            lr = 5e-4
            return torch.optim.AdamW([{"params": rest, "lr": lr}, {"params": bert, "lr": lr * 0.1},
                                      {"params": self.modules["img"].parameters(), "lr": lr}], lr=lr, weight_decay=1e-4)
        if self.name == "vseinf-bigru":
            return torch.optim.AdamW(self.parameters(), lr=5e-4)
        kw = {"foreach": False} if self.duplicate else {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.optim.Adam(self.parameters(), lr=2e-4, **kw)

    def embed(self, b):
        """(image side, text side)"""
        r = self.run
        if self.name in ("vsrn", "vsrn-nocap"):
            txt = r["txt"](b["tokens"], b["lengths"])
            img, g = r["img"](b["images"])
            return img, txt, g
        if self.name.startswith("vseinf"):
            return r["img"](b["images"], b["image_lengths"]), r["txt"](b["tokens"], b["lengths"]), None
        return r["img"](b["images"]), r["txt"](b["tokens"], b["lengths"]), None

    def pair_scores(self, img, txt, lengths, boxes=None, depends=None):
        if self.name in ("saf", "sgr"):
            return self.run["sim"](img, txt, lengths)
        if self.name == "gsmn":
            width = img.size(-1) // 16
            return (self.run["i2t"](img, txt, boxes, lengths, width, self.lam)
                    + self.run["t2i"](img, txt, depends, lengths, width, self.lam, self.sparse))
        return img.mm(txt.t())

    def forward(self, b):
        img, txt, g = self.embed(b)
        extra = None
        if "cap" in self.run:
            extra = CaptionModel.loss(self.run["cap"](g, b["labels"]), b["labels"], b["masks"])
        return self.pair_scores(img, txt, b["lengths"], b.get("boxes"), b.get("depends")), extra


# ------------------------------------------------------------------------------------------------- floating point
def forward_gflop(name, lengths, image_lengths=None, n_images=None, executed=False):
    """2*MAC of matrix products and GRUs of one forward pass, for these caption lengths.
    executed=True counts the padding that this program really computes (BERT tokens, VSE-infinity regions)."""
    b = len(lengths)
    ni = n_images or b
    s, s2 = float(sum(lengths)), float(sum(x * x for x in lengths))
    r = REGIONS

    def gru(d, h):
        return 2 * 3 * h * (d + h)                          # per time step

    if name == "vsepp":
        return (ni * 2 * 73728 * 1024 + s * gru(300, 1024) + 2 * ni * b * 1024) / 1e9
    if name in ("vsrn", "vsrn-nocap"):
        d = 2048
        f = ni * (2 * r * d * d + 4 * (4 * 2 * r * d * d + 4 * r * r * d) + r * gru(d, d))
        f += s * gru(300, d) + 2 * ni * b * d
        if name == "vsrn":
            f += ni * (2 * r * 2048 * 512 + r * gru(512, 512)
                       + 59 * (2 * r * 1024 * 512 + 2 * r * 512 + 2 * r * 512 + gru(812, 512) + 2 * 512 * VOCAB))
        return f / 1e9
    words = ni * 2 * r * 2048 * 1024 + s * 2 * gru(300, 1024)
    if name in ("saf", "sgr"):
        f = words + ni * (2 * r * 1024 ** 2 + 2 * 1024 ** 2) + s * 2 * 1024 ** 2 + b * 2 * 1024 ** 2
        f += ni * (2 * r * s * 1024 * 2 + 2 * s * 1024 * 256 + b * 2 * 1024 * 256 + b * 512)
        if name == "saf":
            f += ni * (s + b) * 256 * 4
        else:
            f += ni * 3 * (3 * 2 * (s + b) * 256 * 256 + 4 * 256 * (s2 + 2 * s + b))
        return f / 1e9
    if name == "gsmn":
        f = words + ni * (2 * (4 * r * s * 1024) + b * 2 * r * 1024 * 3 + 2 * s * 1024 * 3)
        f += ni * (b * r * (2 * 16 * 32 * 36 + 2 * 16 * 32 + 2 * 32 * 32) + s2 * 2 * 16 * 8 + s * (2 * 16 * 32 + 2 * 32 * 32))
        return (f + s2 * 2 * 1024) / 1e9
    il = image_lengths if image_lengths is not None else [r] * ni
    k = float(sum(il)) if not executed else float(max(il) * len(il))
    f = k * (2 * 2048 * 1024 + 2 * 2048 * 512 + 2 * 512 * 1024) + k * 2 * gru(32, 32) + 2 * ni * b * 1024
    if name == "vseinf-bigru":
        return (f + s * 2 * gru(300, 1024) + s * 2 * gru(32, 32)) / 1e9
    if executed:
        s, s2 = float(max(lengths) * b), float(max(lengths) ** 2 * b)
    f += 12 * (s * 4 * 2 * 768 * 768 + s2 * 4 * 768 + s * 4 * 768 * 3072) + s * 2 * 768 * 1024 + s * 2 * gru(32, 32)
    return f / 1e9


def nominal_gflop(name, batch):
    n = 22 if name == "vseinf-bert" else 20
    return 3 * forward_gflop(name, [n] * batch)


def gemm_peak(device, dtype_name, seconds=1.0):
    dtype = torch.bfloat16 if dtype_name == "bf16" else torch.float32
    old = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = dtype_name == "tf32"
    best = 0.0
    try:
        for n in ((4096, 8192) if device.type == "cuda" else (1024, 2048, 4096)):
            a = torch.randn(n, n, device=device).to(dtype)
            b = torch.randn(n, n, device=device).to(dtype)
            end, first = time.perf_counter() + seconds, True
            while first or time.perf_counter() < end:
                sync(device)
                t0 = time.perf_counter()
                for _ in range(5 if device.type == "cuda" else 1):
                    torch.mm(a, b)
                sync(device)
                dt = (time.perf_counter() - t0) / (5 if device.type == "cuda" else 1)
                if not first:
                    best = max(best, 2.0 * n ** 3 / dt / 1e9)
                first = False
    finally:
        torch.backends.cuda.matmul.allow_tf32 = old
    return round(best, 1)


def gemm_peaks(device, seconds=1.0):
    out = {}
    for d in ("fp32", "tf32", "bf16"):
        if d == "tf32" and device.type != "cuda":
            continue
        try:
            out[d] = gemm_peak(device, d, seconds)
        except Exception as e:                              # dtype not supported by this build
            out[d] = None
            log("gemm", d, "failed:", type(e).__name__)
    return out


# ------------------------------------------------------------------------------------------------------ synthetic
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
        if self.name.startswith("vseinf"):
            caps = [self.drop_words(c) for c in caps]
            keep = [np.flatnonzero(rng.random(REGIONS) > 0.20) for _ in range(b)]
            keep = [k if len(k) else np.array([0]) for k in keep]
        if self.name != "vseinf-bert":
            order = sorted(range(b), key=lambda i: -len(caps[i]))
            caps, ids = [caps[i] for i in order], ids[order]
        if self.name.startswith("vseinf"):
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


DEVICE_KEYS = ("images", "tokens", "svd", "labels", "masks", "boxes", "image_lengths")


def to_device(b, device):
    return {k: (v.to(device) if k in DEVICE_KEYS else v) for k, v in b.items()}


# --------------------------------------------------------------------------------------------------------- loader
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
        if self.name.startswith("vseinf"):
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
        if self.name.startswith("vseinf"):
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


# ---------------------------------------------------------------------------------------------------------- timing
def sync(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def autocast(device, dtype):
    if dtype == "bf16":
        return torch.autocast(device_type=device.type, dtype=torch.bfloat16)
    return contextlib.nullcontext()


def train_step(net, opt, params, batch, opts, device, split):
    marks = []

    def mark():
        if split:
            sync(device)
            marks.append(time.perf_counter())

    mark()
    net.mode(True)
    b = to_device(batch, device)
    mark()
    with autocast(device, opts.dtype):
        scores, extra = net.forward(b)
    opt.zero_grad()
    loss = retrieval_loss(opts.loss, scores.float(), b)
    value = loss.item()                                     # the references log the loss of every step
    if extra is not None:
        loss = loss + extra.float()
    mark()
    loss.backward()
    mark()
    clip_grad_norm_(params, CLIP)
    opt.step()
    mark()
    return value, [y - x for x, y in zip(marks, marks[1:])]


def loss_only(opts, batch, device, repeats=5):
    """forward + backward of the retrieval loss alone on a plausible score matrix"""
    n = opts.batch
    s = (torch.rand(n, n, device=device) * 0.4 + torch.eye(n, device=device) * 0.15).requires_grad_(True)
    times = []
    for _ in range(repeats + 1):
        s.grad = None
        sync(device)
        t0 = time.perf_counter()
        retrieval_loss(opts.loss, s, batch).backward()
        sync(device)
        times.append(time.perf_counter() - t0)
    return statistics.median(times[1:])


def quantile(xs, q):
    xs = sorted(xs)
    return xs[min(len(xs) - 1, int(math.ceil(q * len(xs))) - 1)]


def ms(x):
    return round(1000 * x, 2)


def peak_memory_mb(device):
    if device.type == "cuda":
        return round(torch.cuda.max_memory_allocated(device) / 2 ** 20, 1), "cuda max allocated"
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1), "process max RSS"


def configure(opts):
    if opts.threads > 0:
        torch.set_num_threads(opts.threads)
    device = torch.device(opts.device)
    tf32 = opts.dtype == "tf32"
    if tf32 and device.type != "cuda":
        raise SystemExit("tf32 needs a CUDA device")
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(opts.seed)
    random.seed(opts.seed)
    np.random.seed(opts.seed)
    return device


def common(opts, device):
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    return {"network": opts.network, "loss": opts.loss, "device": device.type, "device_name": name, "dtype": opts.dtype,
            "torch": torch.__version__, "threads": torch.get_num_threads(), "omp_wait": os.environ.get("OMP_WAIT_POLICY"),
            "malloc_keeps_memory": os.environ.get("MALLOC_MMAP_MAX_") == "0",
            "batch": opts.batch, "seed": opts.seed}


def bench(opts):
    device = configure(opts)
    net = Net(opts.network, opts).to(device)
    if opts.compile:
        net.compile()
    params = net.parameters()
    optimizer = net.optimizer()
    total = opts.warmup + opts.steps
    split = device.type != "cuda" or opts.split
    rows = []
    with contextlib.ExitStack() as stack:
        workers = loader_rows = None
        if opts.with_loader:
            loader, workers, loader_rows = stack.enter_context(loader_source(opts, total))
            stream = iter(loader)
        else:
            synth = Synth(opts.network, opts.batch, opts.seed)
            pool = [synth.make() for _ in range(min(total, opts.pool))]
            if device.type == "cuda":
                pool = [{k: (v.pin_memory() if torch.is_tensor(v) else v) for k, v in b.items()} for b in pool]
            stream = (pool[i % len(pool)] for i in range(total))
        for i in range(total):
            sync(device)
            t0 = time.perf_counter()
            batch = next(stream)
            t1 = time.perf_counter()
            value, phases = train_step(net, optimizer, params, batch, opts, device, split)
            sync(device)
            t2 = time.perf_counter()
            log("step %d %s loss %.4f  %.1f ms%s" % (i, "warm" if i < opts.warmup else "    ", value, 1000 * (t2 - t1),
                                                     "" if not opts.with_loader else "  wait %.1f ms" % (1000 * (t1 - t0))))
            if i >= opts.warmup:
                il = batch.get("image_lengths")
                il = None if il is None else il.tolist()
                rows.append({"t": t2 - t1, "wait": t1 - t0, "value": value, "phases": phases,
                             "tokens": sum(batch["lengths"]), "longest": max(batch["lengths"]),
                             "gf": 3 * forward_gflop(opts.network, batch["lengths"], il),
                             "gfx": 3 * forward_gflop(opts.network, batch["lengths"], il, executed=True)})
        if opts.with_loader:
            del stream
        only = loss_only(opts, to_device(batch, device), device)
    t = [r["t"] for r in rows]
    med = statistics.median(t)
    memory, kind = peak_memory_mb(device)
    gf = statistics.mean(r["gf"] for r in rows)
    gfx = statistics.mean(r["gfx"] for r in rows)
    rate = statistics.median(r["gf"] / r["t"] for r in rows)
    peaks = gemm_peaks(device, opts.gemm_seconds)
    peak = peaks.get(opts.dtype)
    out = common(opts, device)
    out.update({
        "steps": opts.steps, "warmup": opts.warmup, "compiled": bool(opts.compile), "parameters": net.count(),
        "step_ms": {"min": ms(min(t)), "median": ms(med), "p90": ms(quantile(t, 0.9)), "max": ms(max(t))},
        "captions_per_s": round(opts.batch / statistics.median(r["t"] + (r["wait"] if opts.with_loader else 0) for r in rows), 2),
        "data_wait_ms": ms(statistics.median(r["wait"] for r in rows)) if opts.with_loader else None,
        "phases_ms": dict(zip(("copy", "forward", "backward", "update"),
                              (ms(statistics.median(r["phases"][k] for r in rows)) for k in range(4)))) if split else None,
        "loss_only_ms": ms(only), "peak_memory_mb": memory, "peak_memory_kind": kind,
        "gflop_per_step": round(gf, 1), "gflop_executed_per_step": round(gfx, 1),
        "gflop_nominal_20_words": round(nominal_gflop(opts.network, opts.batch), 1),
        "gflops": round(rate, 1), "gemm_peak_gflops": peaks,
        "fraction_of_gemm_peak": round(rate / peak, 4) if peak else None,
        "mean_tokens": round(statistics.mean(r["tokens"] for r in rows) / opts.batch, 2),
        "longest_tokens": max(r["longest"] for r in rows),
        "loss_first": round(rows[0]["value"], 5), "loss_last": round(rows[-1]["value"], 5),
        "loader_workers": workers, "loader_rows": loader_rows,
    })
    if opts.network == "gsmn":
        out["gsmn_mode"] = opts.gsmn_mode
    if opts.network == "vseinf-bert":
        out["bert_attn"] = opts.bert_attn
    if opts.network == "vsrn":
        out["vsrn_duplicate"] = bool(opts.vsrn_duplicate)
    return out


# ------------------------------------------------------------------------------------------------------ evaluation
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
    pairwise = opts.network in ("saf", "sgr", "gsmn")
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


# ------------------------------------------------------------------------------------------------------- semantics
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
    golden = os.path.join(here, "..", "testdata", "golden", "semantic_text.json")
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


# ---------------------------------------------------------------------------------------------------------- verify
def T(x):
    if isinstance(x, dict):
        return torch.tensor(x["data"], dtype=torch.float64).reshape(x["shape"])
    return torch.tensor(x, dtype=torch.float64)


def TI(x):
    return T(x).long()


def X(x):
    """an input of the modules, in the dtype under test"""
    return T(x).to(torch.get_default_dtype())


class Verifier:
    """norm-wise comparison: |difference| <= atol + rtol * max|expected|"""

    def __init__(self, double=True):
        self.atol, self.rtol, self.grad_rtol, self.zero_rtol = (1e-12, 1e-9, 1e-9, 1e-13) if double else (1e-5, 2e-4, 2e-3, 1e-5)
        self.checks, self.failures, self.worst, self.cases, self.skipped = 0, [], 0.0, 0, []
        self.where = self.worst_at = ""

    def case(self, where):
        self.cases += 1
        self.where = where

    def same(self, tag, got, want, extra=0.0):
        got = got.detach().to(torch.float64) if torch.is_tensor(got) else torch.tensor(got, dtype=torch.float64)
        want = T(want) if not torch.is_tensor(want) else want
        self.checks += 1
        if tuple(got.shape) != tuple(want.shape):
            self.failures.append("%s %s: shape %s, expected %s" % (self.where, tag, list(got.shape), list(want.shape)))
            return
        if want.numel() == 0:
            return
        diff = (got - want).abs().max().item()
        allowed = self.atol + extra + (self.grad_rtol if "grad" in tag else self.rtol) * want.abs().max().item()
        bad = not diff <= allowed                           # also true for NaN
        if bad:
            self.failures.append("%s %s: difference %.3g, allowed %.3g" % (self.where, tag, diff, allowed))
        elif diff / allowed > self.worst:
            self.worst, self.worst_at = diff / allowed, self.where + " " + tag

    def equal(self, tag, got, want):
        self.checks += 1
        if got != want:
            self.failures.append("%s %s: %r, expected %r" % (self.where, tag, got, want))

    def grads(self, tag, module, want):
        own = dict(module.named_parameters())
        want = {k: T(w) for k, w in want.items()}
        scale = max(w.abs().max().item() for w in want.values())
        for k, w in want.items():
            g = own[k].grad
            # gradients that vanish identically (a bias in front of batch norm) are rounding noise of the others
            extra = self.zero_rtol * scale if w.abs().max().item() < 1e-9 * scale else 0.0
            self.same("%s grad %s" % (tag, k), torch.zeros_like(own[k]) if g is None else g, w, extra)

    def stats(self, module, want):
        own = dict(module.named_buffers())
        for k, w in want.items():
            self.same("running " + k, own[k], w)


def fill(module, *dicts, may_miss=()):
    """copy golden parameters into a module; nothing may be left over or missing"""
    own = {}
    own.update(dict(module.named_parameters()))
    own.update({k: v for k, v in module.named_buffers() if not k.endswith("num_batches_tracked")})
    given = {}
    for d in dicts:
        given.update(d)
    left = set(given) - set(own)
    missing = {k for k in set(own) - set(given) if not any(k.startswith(m) for m in may_miss)}
    if left or missing:
        raise ValueError("parameter names differ: unknown %s, missing %s" % (sorted(left), sorted(missing)))
    with torch.no_grad():
        for k, v in given.items():
            own[k].copy_(T(v).reshape(own[k].shape))
    for m in module.modules():
        if isinstance(m, nn.Dropout):
            m.p = 0.0
        if isinstance(m, BertSelf):
            m.p = 0.0
    return module


def leaf(x):
    return X(x).requires_grad_(True)


def verify_gru(v, doc):
    for c in doc["cases"]:
        v.case("gru/" + c["name"])
        cfg, e = c["config"], c["expected"]
        m = fill(nn.GRU(cfg["input_size"], cfg["hidden_size"], 1, batch_first=True, bidirectional=cfg["bidirectional"]), c["params"])
        x = leaf(c["inputs"]["x"])
        y = packed_states(m, x, c["lengths"], enforce_sorted=False)
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
    for c in doc["cases"]:
        v.case("vsrn_image/" + c["name"])
        cfg, e = c["config"], c["expected"]
        m = fill(VsrnImage(cfg["img_dim"], cfg["embed"], cfg["dataset_mode"] == "f30k"), c["params"], c["running_stats"])
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
    for c in doc["cases"]:
        v.case("sgraf/" + c["name"])
        cfg, e = c["config"], c["expected"]
        im = fill(RegionWords(cfg["img_dim"], cfg["embed"]), c["params_image"])
        tx = fill(WordStates(cfg["vocab"], cfg["word_dim"], cfg["embed"]), c["params_text"])
        sm = fill(SgrafSimilarity(cfg["embed"], cfg["sim_dim"], cfg["module"], cfg["sgr_steps"], cfg["regions"], cfg["attention_smooth"]),
                  c["params_sim"], c["running_stats"])
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
    for c in doc["cases"]:
        v.case("gsmn/" + c["name"])
        cfg, e = c["config"], c["expected"]
        if isinstance(c["params_image_graph"], dict):
            shared = (c["params_image_graph"], c["params_text_graph"])
        blocks, width = cfg["num_block"], cfg["embed"] // cfg["num_block"]
        gi = fill(ImageGraph(blocks, cfg["hid_dim"], cfg["n_kernels"]), shared[0])
        gt = fill(TextGraph(blocks, cfg["hid_dim"], cfg["n_kernels"]), shared[1])
        im, ca = leaf(c["inputs"]["images"]), leaf(c["inputs"]["captions"])
        a = gi(im, ca, X(c["bboxes"]), c["lengths"], width, cfg["lambda_softmax"])
        b = gt(im, ca, c["dependencies"], c["lengths"], width, cfg["lambda_softmax"], cfg["is_sparse"])
        s = a + b
        loss = (s * T(c["loss_weights"])).sum()
        loss.backward()
        for k, t in (("scores_image_graph", a), ("scores_text_graph", b), ("scores", s), ("loss", loss)):
            v.same(k, t, e[k])
        for i, want in enumerate(e["adjacency"]):
            v.same("adjacency %d" % i, torch.from_numpy(adjacency(c["dependencies"][i], c["lengths"][i])), want)
        if "grads_image_graph" in e:
            v.grads("image graph", gi, e["grads_image_graph"])
            v.grads("text graph", gt, e["grads_text_graph"])
            v.same("grad images", im.grad, e["grads_inputs"]["images"])
            v.same("grad captions", ca.grad, e["grads_inputs"]["captions"])


def lseh_margin_of(c, loop=False):
    divisor = c.get("caption_id_divisor") if c.get("same_image_rule") is None else None
    return semantic_margin(X(c["semantic_vectors"]), c["caption_ids"], c["image_ids"], c["alpha"], c["lam"], divisor,
                           c["similarity"], loop)


def verify_losses(v, doc):
    for c in doc["cases"]:
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
             "sgraf": verify_sgraf, "vse_infinity": verify_vse_infinity, "bert": verify_bert, "gsmn": verify_gsmn,
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


# ------------------------------------------------------------------------------------------------------------ main
def main(argv=None):
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--network", choices=NETWORKS)
    p.add_argument("--loss", choices=LOSSES, default="lmh")
    p.add_argument("--batch", type=int, default=0, help="default 128 (GSMN 64)")
    p.add_argument("--steps", type=int, default=10)
    p.add_argument("--warmup", type=int, default=2)
    p.add_argument("--pool", type=int, default=8, help="number of distinct synthetic batches to cycle through")
    p.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    p.add_argument("--dtype", choices=("fp32", "tf32", "bf16"), default="fp32", help="bf16 = autocast with float32 parameters")
    p.add_argument("--threads", type=int, default=0, help="CPU threads of torch and BLAS (0: library default)")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--plain-env", action="store_true", help="do not restart with tuned malloc / OpenMP settings on CPU")
    p.add_argument("--compile", action="store_true", help="torch.compile every module (torch 2)")
    p.add_argument("--split", action="store_true", help="phase times on CUDA too (adds synchronisation points)")
    p.add_argument("--bert-attn", choices=("eager", "sdpa"), default="eager")
    p.add_argument("--gsmn-mode", choices=("sparse", "dense"), default="sparse")
    p.add_argument("--vsrn-duplicate", action="store_true", help="list the captioning parameters twice, as the reference does")
    p.add_argument("--with-loader", action="store_true", help="read batches through a reference-like DataLoader")
    p.add_argument("--workers", type=int, default=-1, help="loader workers (-1: as the reference, at most the CPU count)")
    p.add_argument("--loader-rows", type=int, default=2000, help="image rows in the temporary feature file")
    p.add_argument("--tmp", default=None, help="folder for the temporary feature file")
    p.add_argument("--eval-pairs", action="store_true")
    p.add_argument("--shard", type=int, default=0, help="default 100 (GSMN 50)")
    p.add_argument("--eval-shards", type=int, default=3)
    p.add_argument("--eval-batches", type=int, default=2)
    p.add_argument("--semantics", action="store_true")
    p.add_argument("--captions", help="caption file for --semantics (default: synthetic text)")
    p.add_argument("--svd", default="paper,arpack", help="comma list of paper, arpack, quick")
    p.add_argument("--gemm", action="store_true")
    p.add_argument("--gemm-seconds", type=float, default=1.0)
    p.add_argument("--verify", metavar="DIR", help="compare these modules with the golden JSON files in DIR")
    p.add_argument("--verify-dtype", choices=("fp64", "fp32"), default="fp64")
    opts = p.parse_args(argv)
    if argv is None and not opts.verify:
        settle_environment(opts)
    if not opts.batch:
        opts.batch = 64 if opts.network == "gsmn" else 128
    if opts.verify:
        out = verify(opts)
    elif opts.semantics:
        out = semantics(opts)
    elif opts.gemm:
        device = configure(opts)
        out = {"mode": "gemm", "device": device.type, "torch": torch.__version__, "threads": torch.get_num_threads(),
               "gemm_peak_gflops": gemm_peaks(device, opts.gemm_seconds)}
    elif not opts.network:
        p.error("--network is required")
    elif opts.eval_pairs:
        out = eval_pairs(opts)
    else:
        out = bench(opts)
    print(json.dumps(out), flush=True)
    return 0 if out.get("pass", True) else 1


if __name__ == "__main__":
    sys.exit(main())
