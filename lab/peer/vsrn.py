"""VSRN (Li et al., 2019) with its captioning branch."""
import torch
import torch.nn.functional as F
from torch import nn

from .base import FEAT, VOCAB, l2_plain, rnn_input, xlinear


class RegionReasoning(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.g = nn.Conv1d(c, c, 1)
        self.W = nn.Sequential(nn.Conv1d(c, c, 1), nn.BatchNorm1d(c))
        self.theta = nn.Conv1d(c, c, 1)
        self.phi = nn.Conv1d(c, c, 1)
        nn.init.zeros_(self.W[1].weight)
        nn.init.zeros_(self.W[1].bias)

    def last(self, v):
        """The same over [B, N, C], where convolutions of width 1 are linear layers"""
        def layer(conv, x):
            return F.linear(x, conv.weight[:, :, 0], conv.bias)
        rel = torch.matmul(layer(self.theta, v), layer(self.phi, v).transpose(1, 2)) / v.size(1)
        y = layer(self.W[0], torch.matmul(rel, layer(self.g, v)))
        return self.W[1](y.flatten(0, 1)).view_as(y) + v

    def forward(self, v):                                   # [B, C, N]
        g = self.g(v).permute(0, 2, 1)
        theta = self.theta(v).permute(0, 2, 1)
        rel = torch.matmul(theta, self.phi(v))
        rel = rel / rel.size(-1)
        y = torch.matmul(rel, g).permute(0, 2, 1).contiguous()
        return self.W(y) + v


class VsrnImage(nn.Module):
    together = False

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
        v = f if self.together else f.permute(0, 2, 1)
        for block in (self.Rs_GCN_1, self.Rs_GCN_2, self.Rs_GCN_3, self.Rs_GCN_4):
            v = block.last(v) if self.together else block(v)
        g = l2_plain(v if self.together else v.permute(0, 2, 1), 1)     # region axis, as released
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
