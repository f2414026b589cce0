"""CHAN (Pan et al., 2023) with the BiGRU of its Flickr30K model: every word takes its most similar region."""
import torch
from torch import nn

from .base import FEAT, VOCAB, Lengths, l2_eps, xlinear
from .sgraf import WordStates


class RegionAttention(nn.Module):
    """Self-attention of the regions of an image, padding included, after a layer norm; added to its input."""

    def __init__(self, embed, heads):
        super().__init__()
        self.ln = nn.LayerNorm(embed)
        self.attn = nn.MultiheadAttention(embed, heads, batch_first=True)

    def forward(self, x):
        y = self.ln(x)
        return x + self.attn(y, y, y, need_weights=False)[0]


class AttendedImage(nn.Module):
    def __init__(self, feat=FEAT, embed=1024, heads=8):
        super().__init__()
        self.fc = xlinear(feat, embed)
        self.feedforward = RegionAttention(embed, heads)

    def forward(self, images):
        return l2_eps(self.feedforward(self.fc(images)), -1)


class WordStatesChan(WordStates):
    def __init__(self, vocab=VOCAB + 1, word=300, embed=1024):
        super().__init__(vocab, word, embed, rnn_name="rnn", p=0)
        nn.init.xavier_uniform_(self.embed.weight)
        self.fc = nn.Linear(embed, embed)                   # the reference has it in its checkpoints and never computes it


class HardAssignment(nn.Module):
    """Scores [images, captions]: log of the sum over words of exp(s / beta), s the cosine with the most similar region."""

    def __init__(self, beta=0.1):
        super().__init__()
        self.beta = beta

    def forward(self, images, captions, lengths, image_lengths):
        lengths, regions = Lengths.of(lengths), Lengths.of(image_lengths)
        n, r, d = images.shape
        words = captions.flatten(0, 1).index_select(0, lengths.words(captions.device))
        s = torch.matmul(images.reshape(n * r, d), words.t().to(images.dtype)).view(n, r, -1)
        if min(regions) < r:
            s = s.masked_fill(~regions.mask(s.device).unsqueeze(-1), -1)
        u = s.max(dim=1)[0].to(torch.promote_types(s.dtype, torch.float32))
        return torch.log(lengths.sums(torch.exp(u / self.beta)))
