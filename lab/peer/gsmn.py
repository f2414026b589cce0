"""GSMN (Liu et al., 2020)."""
import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from .base import Lengths, l2_eps, norms, single


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

    def outer(self, match):
        """[..., blocks] through the linear layers of all kernels: [..., kernels, hidden / kernels]"""
        w = torch.stack([conv.weight for conv in self.conv_weights])
        return torch.matmul(match, w.flatten(0, 1).t()).unflatten(-1, (self.kernels, -1))

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

    def nodes(self, h):
        return self.out_2(self.out_1(h).tanh()).squeeze(-1)

    def judge(self, h, n):
        return self.nodes(h.view(n * h.size(1), -1)).view(n, -1).mean(dim=1, keepdim=True)


def word_matching(images, captions, lengths, width, lam):
    """Cosines of blocks, of all captions: those of regions with their contexts [n, captions, regions, blocks], and those of
    words with theirs [n, words, blocks]; images [n, regions, d], captions [captions, longest, d]"""
    mask, device = lengths.mask(images.device), images.device
    (n, r, d), c = images.shape, len(captions)
    a = torch.matmul(images.reshape(n * r, d), captions.flatten(0, 1).t()).view(n, r, c, -1)
    a = F.leaky_relu(a.to(single(a)), 0.1) * mask
    norm = (a.pow(2).sum(1, keepdim=True) + ~mask).sqrt()   # padding has one that has a gradient
    by_region = (a / (norm + 1e-8) * lam).masked_fill(~mask, float("-inf")).softmax(3)
    ctx = torch.bmm(by_region.to(captions.dtype).permute(2, 0, 1, 3).reshape(c, n * r, -1), captions).view(c, n, r, d)
    regions = block_cosines(images, ctx, width).transpose(0, 1)
    by_word = (a / (a.pow(2).sum(3, keepdim=True).sqrt() + 1e-8) * lam).softmax(1)
    by_word = by_word.to(images.dtype).flatten(2).index_select(2, lengths.words(device))
    words = captions.flatten(0, 1).index_select(0, lengths.words(device))
    return regions, block_cosines(words, torch.bmm(by_word.transpose(1, 2), images), width)


def block_cosines(x, y, width, eps=1e-8):
    x, y = x.to(y.dtype).unflatten(-1, (-1, width)), y.unflatten(-1, (-1, width))
    return (x * y).sum(-1, dtype=single(x)) / (norms(x) * norms(y)).squeeze(-1).clamp(min=eps)


class ImageGraph(GraphHead):
    def __init__(self, blocks=16, hidden=32, kernels=8):
        super().__init__(hidden)
        self.graph_convolution_1 = GaussianConv(blocks, hidden, kernels)

    def all_captions(self, match, boxes):
        """Scores [n, captions] of the cosines of regions; every neighbour of a region has the same match"""
        n, r = boxes.size(0), boxes.size(1)
        conv = self.graph_convolution_1
        share = conv.kernel_weights(self.polar(boxes)).view(n, 1, r, r, -1).sum(3)
        return self.nodes((conv.outer(match) * share.unsqueeze(4)).flatten(3)).mean(2)

    def polar(self, boxes):
        r = boxes.size(1)
        centre = boxes[:, :, :2] + 0.5 * (boxes[:, :, 2:] - boxes[:, :, :2])
        d = centre.view(-1, r, 1, 2) - centre.view(-1, 1, r, 2)
        return torch.stack((torch.sqrt(d[..., 0] ** 2 + d[..., 1] ** 2), torch.atan2(d[..., 0], d[..., 1])), -1)

    def forward(self, images, captions, boxes, lengths, width, lam):
        n, r, polar = images.size(0), images.size(1), self.polar(boxes)
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


def adjacencies(depends, lengths):
    """[captions, longest, longest]"""
    out = torch.zeros(len(lengths), max(lengths), max(lengths))
    for a, pairs, n in zip(out, depends, lengths):
        a[:n, :n] = torch.from_numpy(adjacency(pairs, n))
    return out


class TextGraph(GraphHead):
    def __init__(self, blocks=16, hidden=32, kernels=8):
        super().__init__(hidden)
        self.graph_convolution_3 = ScalarConv(blocks, hidden, kernels)

    def all_captions(self, match, captions, adjacent, lengths, lam):
        """Scores [n, captions] of the cosines of words [n, words, blocks]; adjacent [captions, longest, longest]"""
        device, mask = captions.device, lengths.mask(captions.device)
        intra = torch.bmm(captions, captions.transpose(1, 2)) * lam
        intra = intra.masked_fill(~mask[:, None, :], float("-inf")).softmax(2)
        w = adjacent * intra                                # of words with words, the same for every image
        w = w / ((w.pow(2).sum(2, keepdim=True) + ~mask.unsqueeze(2)).sqrt() + 1e-8)
        conv = self.graph_convolution_3
        w = w.unsqueeze(3) * conv.params.view(-1)
        total = w.sum(2, keepdim=True)
        share = (w / torch.where(total == 0, torch.ones_like(total), total) * adjacent.unsqueeze(3)).sum(2)
        share = share.flatten(0, 1).index_select(0, lengths.words(device))
        bias = torch.stack([c.bias for c in conv.conv_weights])
        h = self.nodes((conv.outer(match) * share.unsqueeze(2) + bias).flatten(2))
        return lengths.sums(h.to(single(h))) / lengths.on(device)

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
