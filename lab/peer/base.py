"""Sizes, initial values, norms and packed GRUs that the networks share."""
import math
import sys

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

VOCAB = 8481            # f30k_precomp vocabulary
BERT_VOCAB = 30522
REGIONS, FEAT = 36, 2048


def sync(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def log(*a):
    print(*a, file=sys.stderr, flush=True)


def l2_plain(x, dim):
    return x / x.pow(2).sum(dim=dim, keepdim=True).sqrt()


def l2_eps(x, dim, eps=1e-8):
    return torch.div(x, torch.pow(x, 2).sum(dim=dim, keepdim=True).sqrt() + eps)


def single(x):
    """x in float32 or float64: sums and norms of bfloat16 are taken there, without a copy of what they read"""
    return x.dtype if x.dtype == torch.float64 else torch.float32


def norms(x):
    """Lengths [..., 1] of the last axis"""
    with torch.autocast(x.device.type, enabled=False):
        return torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=single(x))


def unit(x, eps=1e-8):
    """l2_eps of the last axis in the dtype of x, where l2_eps makes float32 of bfloat16"""
    return x / (norms(x) + eps).to(x.dtype)


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


def positive_part(x):
    """max(x, 0) with slope 1 at 0.  clamp(min=0) has it from PyTorch 0.4.1 to 2.13, and slope 0 before and since."""
    return torch.where(x < 0, torch.zeros_like(x), x)


class Lengths(list):
    """Lengths of the captions of a batch, or of its images, on the host, and what follows from them on a device.  That is
    made once for a batch, as a copy in every step makes the host wait and cannot be recorded in a CUDA graph."""

    def __init__(self, lengths):
        super().__init__(int(n) for n in (lengths.tolist() if torch.is_tensor(lengths) else lengths))
        self.made = {}

    @staticmethod
    def of(lengths):
        return lengths if isinstance(lengths, Lengths) else Lengths(lengths)

    def once(self, what, device, make):
        key = what, str(device)
        if key not in self.made:
            self.made[key] = make().to(device)
        return self.made[key]

    def on(self, device):
        return self.once("lengths", device, lambda: torch.tensor(list(self)))

    def mask(self, device):
        """[n, longest]: whether there is a word"""
        return self.once("mask", device, lambda: torch.arange(max(self))[None, :] < torch.tensor(list(self))[:, None])

    def words(self, device):
        """[words]: the place of every word in [n, longest]"""
        return self.once("words", device, lambda: self.mask("cpu").flatten().nonzero()[:, 0])

    def owners(self, device):
        """[words]: whose word it is"""
        return self.once("owners", device, lambda: torch.repeat_interleave(torch.arange(len(self)), torch.tensor(list(self))))

    def places(self, device):
        """[n, longest]: the place of every word among all words, 0 for padding"""
        return self.once("places", device, lambda: ((self.mask("cpu").flatten().cumsum(0) - 1) * self.mask("cpu").flatten())
                         .view(len(self), -1))

    def sums(self, x):
        """Sums over the words of each caption: [..., words] -> [..., n], in the precision of x"""
        one = self.once("one %s" % x.dtype, x.device, lambda: torch.nn.functional.one_hot(self.owners("cpu")).to(x.dtype))
        with torch.autocast(x.device.type, enabled=False):
            return x @ one

    def sorted(self, device):
        """The order of falling lengths, and the way back"""
        order = torch.tensor(list(self)).argsort(descending=True, stable=True)
        return self.once("order", device, lambda: order), self.once("back", device, lambda: order.argsort())


def packed_states(rnn, x, lengths):
    """States of all steps.  The references sort captions by length; others are sorted here and put back."""
    lengths = Lengths.of(lengths)
    ordered = torch.tensor(sorted(lengths, reverse=True))
    falling = list(lengths) == ordered.tolist()
    if not falling:
        order, back = lengths.sorted(x.device)
        x = x.index_select(0, order)
    out, _ = rnn(pack_padded_sequence(rnn_input(rnn, x), ordered, batch_first=True))
    out = pad_packed_sequence(out, batch_first=True)[0]
    return out if falling else out.index_select(0, back)


def mean_of_directions(out):
    h = out.size(2) // 2
    return (out[:, :, :h] + out[:, :, h:]) / 2
