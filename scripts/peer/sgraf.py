"""SAF and SGR (Diao et al., 2021)."""
import torch
import torch.nn.functional as F
from torch import nn

from .base import FEAT, REGIONS, VOCAB, l1_eps, l2_eps, mean_of_directions, packed_states, word_table, xlinear


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
