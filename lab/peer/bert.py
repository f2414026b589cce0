"""BERT (Devlin et al., 2019), the encoder alone."""
import math

import torch
import torch.nn.functional as F
from torch import nn

from .base import BERT_VOCAB


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
