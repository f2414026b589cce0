"""SCAN (Lee et al., 2018): stacked cross attention, one caption against all images at a time."""
import torch
import torch.nn.functional as F
from torch import nn

from .base import Lengths, l1_eps, l2_eps, norms, single


def attend(queries, sources, norm, smooth):
    """Contexts of queries [n, q, d] over sources [n, s, d], and the attention [n, q, s]; norm runs along the queries."""
    a = torch.bmm(sources, torch.transpose(queries, 1, 2))
    if norm.startswith("clipped"):
        a = F.leaky_relu(a, 0.1)
    if norm.endswith("l2norm"):
        a = l2_eps(a, 2)
    elif norm.endswith("l1norm"):
        a = l1_eps(a, 2)
    elif norm == "softmax":
        a = F.softmax(a, dim=2)
    weights = F.softmax(torch.transpose(a, 1, 2).contiguous() * smooth, dim=2)
    return torch.bmm(weights.to(sources.dtype), sources), weights


def attend_words(words, sources, lengths, smooth, norm="clipped_l2norm"):
    """Contexts [n, words, d] of the words [words, d] of all captions over sources [n, s, d]; norm runs along the words of a
    caption, as in attend."""
    n, s, d = sources.shape
    a = torch.matmul(sources.reshape(n * s, d), words.t()).view(n, s, -1)
    if norm.startswith("clipped"):
        a = F.leaky_relu(a, 0.1)
    if norm.endswith("l2norm"):
        a = a.to(single(a))
        a = a / (lengths.sums(a * a).sqrt() + 1e-8).index_select(2, lengths.owners(a.device))
    weights = F.softmax(a * smooth, dim=1)
    return torch.bmm(weights.to(sources.dtype).transpose(1, 2), sources)


def cosine(x, y, eps=1e-8):
    norms = torch.norm(x, 2, -1) * torch.norm(y, 2, -1)
    return (x * y).sum(-1) / norms.clamp(min=eps)


class ScanSimilarity(nn.Module):
    """Scores of every image with every caption; the defaults are those of the published t2i LogSumExp model of Flickr30K."""

    together = False                                        # one caption at a time, as the reference does

    def __init__(self, cross="t2i", aggregate="LogSumExp", norm="clipped_l2norm", smooth=9.0, smooth_lse=6.0):
        super().__init__()
        self.cross, self.aggregate, self.norm, self.smooth, self.smooth_lse = cross, aggregate, norm, smooth, smooth_lse

    def pool(self, local):
        if self.aggregate == "LogSumExp":
            return torch.log(torch.exp(local * self.smooth_lse).sum(1, keepdim=True)) / self.smooth_lse
        if self.aggregate == "Max":
            return local.max(dim=1, keepdim=True)[0]
        return local.sum(dim=1, keepdim=True) if self.aggregate == "Sum" else local.mean(dim=1, keepdim=True)

    def local(self, images, caption):
        """Similarities [n, q] of the queries with their contexts, and the attention; caption [n, words, d]."""
        queries, sources = (caption, images) if self.cross == "t2i" else (images, caption)
        context, weights = attend(queries, sources, self.norm, self.smooth)
        return cosine(queries, context), weights

    def all_captions(self, images, captions, lengths):
        """The same scores, the words of all captions side by side"""
        lengths = Lengths.of(lengths)
        words = captions.flatten(0, 1).index_select(0, lengths.words(captions.device))
        ctx = attend_words(words, images, lengths, self.smooth, self.norm)
        words = words.to(ctx.dtype)
        local = (words * ctx).sum(-1, dtype=single(ctx)) / (norms(words) * norms(ctx)).squeeze(-1).clamp(min=1e-8)
        if self.aggregate == "LogSumExp":
            return torch.log(lengths.sums(torch.exp(local * self.smooth_lse))) / self.smooth_lse
        total = lengths.sums(local)
        return total if self.aggregate == "Sum" else total / lengths.on(local.device)

    def forward(self, images, captions, lengths):
        if self.together and self.cross == "t2i" and self.aggregate != "Max" and self.norm in ("l2norm", "clipped_l2norm", "clipped"):
            return self.all_captions(images, captions, lengths)
        n = images.size(0)
        columns = []
        for i in range(captions.size(0)):
            caption = captions[i, :lengths[i], :].unsqueeze(0).contiguous().repeat(n, 1, 1)
            columns.append(self.pool(self.local(images, caption)[0]))
        return torch.cat(columns, 1)
