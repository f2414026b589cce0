"""GSMN (Liu et al., 2020)."""
import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from .base import l2_eps


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
