"""VSE++ (Faghri et al., 2018)."""
import torch
from torch import nn

from .base import FEAT, REGIONS, VOCAB, Lengths, l2_plain, packed_states, word_table, xlinear


class FlatImage(nn.Module):
    def __init__(self, regions=REGIONS, feat=FEAT, embed=1024):
        super().__init__()
        self.fc = xlinear(regions * feat, embed)

    def forward(self, images):
        return l2_plain(self.fc(images.reshape(images.size(0), -1)), 1)


class LastStateText(nn.Module):
    """VSE++ and VSRN sentence encoder: GRU, output at the last valid step."""

    def __init__(self, vocab=VOCAB, word=300, embed=1024):
        super().__init__()
        self.embed = word_table(vocab, word)
        self.rnn = nn.GRU(word, embed, 1, batch_first=True)

    def forward(self, tokens, lengths):
        out = packed_states(self.rnn, self.embed(tokens), lengths)
        at = Lengths.of(lengths).on(out.device).view(-1, 1, 1).expand(out.size(0), 1, out.size(2)) - 1
        return l2_plain(torch.gather(out, 1, at).squeeze(1), 1)
