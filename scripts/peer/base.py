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


def packed_states(rnn, x, lengths):
    """States of all steps.  The references sort captions by length; others are sorted here and put back."""
    lengths = torch.as_tensor(lengths).cpu()
    falling = not bool((lengths[1:] > lengths[:-1]).any())
    packed = pack_padded_sequence(rnn_input(rnn, x), lengths, batch_first=True, enforce_sorted=falling)
    out, _ = rnn(packed)
    return pad_packed_sequence(out, batch_first=True)[0]


def mean_of_directions(out):
    h = out.size(2) // 2
    return (out[:, :, :h] + out[:, :, h:]) / 2
