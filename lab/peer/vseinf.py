"""VSE-infinity (Chen et al., 2021) with a BiGRU or BERT."""
import math

import torch
import torch.nn.functional as F
from torch import nn

from .base import FEAT, VOCAB, Lengths, l2_eps, mean_of_directions, packed_states, word_table, xlinear
from .bert import Bert


class GPO(nn.Module):
    """Generalised pooling: sorted features weighted by coefficients that depend on the length only."""

    def __init__(self, d_pe=32, d_hidden=32):
        super().__init__()
        self.d_pe = d_pe
        self.gru = nn.GRU(d_pe, d_hidden, 1, batch_first=True, bidirectional=True)
        self.linear = nn.Linear(d_hidden, 1, bias=False)
        self._tables = {}

    def table(self, length, device="cpu"):
        if (length, device) not in self._tables:
            pos = torch.arange(length, dtype=torch.float64).unsqueeze(1)
            div = torch.exp(torch.arange(0, self.d_pe, 2, dtype=torch.float64) * -(math.log(10000.0) / self.d_pe))
            pe = torch.zeros(length, self.d_pe, dtype=torch.float64)
            pe[:, 0::2] = torch.sin(pos * div)
            pe[:, 1::2] = torch.cos(pos * div)
            self._tables[length, device] = pe.to(device, self.linear.weight.dtype)
        return self._tables[length, device]

    def weights(self, lengths, device):
        pe = self.table(max(lengths), device).unsqueeze(0).repeat(len(lengths), 1, 1)
        mask = lengths.mask(device).unsqueeze(-1)
        pe = pe.masked_fill(mask == 0, 0)
        out = mean_of_directions(packed_states(self.gru, pe, lengths))
        scores = self.linear(out)
        scores = scores.masked_fill(mask == 0, -10000.0)
        return torch.softmax(scores / 0.1, 1), mask

    def forward(self, features, lengths):
        lengths = Lengths.of(lengths)
        w, mask = self.weights(lengths, features.device)
        x = features[:, :max(lengths), :]
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
        x = mean_of_directions(packed_states(self.rnn, self.embed(tokens), lengths))
        x, _ = self.gpool(x, lengths)
        return l2_eps(x, -1)


class PooledBertText(nn.Module):
    def __init__(self, embed=1024, sdpa=False):
        super().__init__()
        self.bert = Bert(sdpa=sdpa)
        self.linear = nn.Linear(768, embed)
        self.gpool = GPO()

    def forward(self, tokens, lengths):
        x = self.linear(self.bert(tokens)[0])
        x, _ = self.gpool(x, lengths)
        return l2_eps(x, -1)
