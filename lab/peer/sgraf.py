"""SAF and SGR (Diao et al., 2021)."""
import torch
import torch.nn.functional as F
from torch import nn

from .base import FEAT, REGIONS, VOCAB, Lengths, l1_eps, l2_eps, mean_of_directions, packed_states, word_table, xlinear, single, unit
from .scan import attend_words


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

    def of_words(self, words, lengths):
        """The global vectors [n, d] of all captions, from their words [words, d]"""
        total = torch.zeros(len(lengths), words.size(1), dtype=words.dtype, device=words.device)
        raw = total.index_add(0, lengths.owners(words.device), words) / lengths.on(words.device).unsqueeze(1)
        glo = self.embedding_global(raw).index_select(0, lengths.owners(words.device))
        logits = self.embedding_common(self.embedding_local(words).mul(glo)).squeeze(1)[lengths.places(words.device)]
        w = torch.softmax(logits.masked_fill(~lengths.mask(words.device), float("-inf")), dim=1)
        own = words.index_select(0, lengths.places(words.device).flatten()).view(*w.shape, -1)
        return unit((w.unsqueeze(2) * own).sum(dim=1))

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

    def forward(self, x, padding=None):
        edge = torch.bmm(self.graph_query_w(x), self.graph_key_w(x).permute(0, 2, 1))
        edge = torch.softmax(edge if padding is None else edge.masked_fill(padding, float("-inf")), dim=-1)
        return torch.relu(self.sim_graph_w(torch.bmm(edge.to(x.dtype), x)))


class Filtration(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.attn_sim_w = xlinear(d, 1)
        self.bn = nn.BatchNorm1d(1)

    def of_pairs(self, x, there):
        """The same for nodes [n, captions, nodes, d], of which those that are there count: each caption is a batch for itself"""
        z = self.attn_sim_w(x).squeeze(3)
        z = z.to(single(z))
        if self.training:
            count = there.sum(1) * x.size(0)
            mean = (z * there).sum((0, 2)) / count
            var = (((z - mean[:, None]) * there) ** 2).sum((0, 2)) / count
            with torch.no_grad():                           # as if the captions came one after the other
                keep = 1 - self.bn.momentum
                share = self.bn.momentum * keep ** torch.arange(len(count) - 1, -1, -1, device=z.device, dtype=z.dtype)
                for kept, new in ((self.bn.running_mean, mean), (self.bn.running_var, var * count / (count - 1))):
                    kept.mul_(keep ** len(count)).add_((share * new).sum())
                self.bn.num_batches_tracked.add_(len(count))
        else:
            mean, var = (t.expand(z.size(1)) for t in (self.bn.running_mean, self.bn.running_var))
        z = (z - mean[:, None]) / (var + self.bn.eps).sqrt()[:, None] * self.bn.weight + self.bn.bias
        a = l1_eps(torch.sigmoid(z) * there, -1)
        return unit(torch.matmul(a.unsqueeze(2).to(x.dtype), x).squeeze(2))

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
    together = False                                        # one caption at a time, as the reference does

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

    def all_captions(self, images, captions, lengths):
        """The same scores, the words of all captions side by side, and the nodes of all pairs padded to one length"""
        lengths, device = Lengths.of(lengths), captions.device
        n, c = len(images), len(captions)
        words = captions.flatten(0, 1).index_select(0, lengths.words(device))
        img_glo, cap_glo = self.v_global_w(images, torch.mean(images, 1)), self.t_global_w.of_words(words, lengths)
        ctx = unit(attend_words(words, images, lengths, self.smooth))
        away = ctx - words.to(ctx.dtype)
        loc = unit(self.sim_tranloc_w(away * away))
        away = img_glo[:, None] - cap_glo
        glo = unit(self.sim_tranglo_w(away * away))
        place = torch.cat([torch.arange(c, device=device)[:, None], c + lengths.places(device)], 1)
        nodes = torch.cat([glo, loc], 1).index_select(1, place.flatten()).view(n, c, place.size(1), -1)
        there = F.pad(lengths.mask(device), (1, 0), value=True)
        if self.module == "SGR":
            nodes, padding = nodes.flatten(0, 1), ~there.repeat(n, 1).unsqueeze(1)
            for step in self.SGR_module:
                nodes = step(nodes, padding)
            vec = nodes[:, 0, :].view(n, c, -1)
        else:
            vec = self.SAF_module.of_pairs(nodes, there)
        return torch.sigmoid(self.sim_eval_w(vec)).squeeze(2)

    def forward(self, images, captions, lengths):
        if self.together:
            return self.all_captions(images, captions, lengths)
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
