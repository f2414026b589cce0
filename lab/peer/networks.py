"""Every network at full size: its modules, the scores of a batch, its optimiser."""
import warnings

import torch

from .vsepp import FlatImage, LastStateText
from .vsrn import CaptionModel, VsrnImage
from .scan import ScanSimilarity
from .sgraf import RegionWords, SgrafSimilarity, WordStates
from .chan import AttendedImage, HardAssignment, WordStatesChan
from .vseinf import PooledBertText, PooledGruText, PooledImage
from .gsmn import ImageGraph, TextGraph, word_matching


class Net:
    """A network at full size: modules, score matrix of a batch, parameter groups."""

    def __init__(self, name, opts):
        self.name = name
        self.max_len = 60
        self.sparse = opts.gsmn_mode == "sparse"
        self.lam = 20.0
        m = {}
        if name == "vsepp":
            m = {"img": FlatImage(), "txt": LastStateText()}
        elif name in ("vsrn", "vsrn-nocap"):
            m = {"img": VsrnImage(), "txt": LastStateText(embed=2048)}
            if name == "vsrn":
                m["cap"] = CaptionModel(max_len=self.max_len)
        elif name in ("saf", "sgr"):
            m = {"img": RegionWords(), "txt": WordStates(), "sim": SgrafSimilarity(module=name.upper())}
        elif name == "scan":
            m = {"img": RegionWords(), "txt": WordStates(rnn_name="rnn", p=0), "sim": ScanSimilarity()}
        elif name == "chan":
            m = {"img": AttendedImage(), "txt": WordStatesChan(), "sim": HardAssignment()}
        elif name == "vseinf-bigru":
            m = {"img": PooledImage(), "txt": PooledGruText()}
        elif name == "vseinf-bert":
            m = {"img": PooledImage(), "txt": PooledBertText(sdpa=opts.attention == "sdpa")}
        elif name == "gsmn":
            m = {"img": RegionWords(), "txt": WordStates(rnn_name="rnn", p=0), "i2t": ImageGraph(), "t2i": TextGraph()}
        self.modules = m
        for x in m.values():
            x.together = opts.together
        self.together = opts.together
        self.duplicate = opts.vsrn_duplicate and name == "vsrn"

    def to(self, device):
        for m in self.modules.values():
            m.to(device)
        return self

    def compile(self):
        self.forward = torch.compile(self.forward, dynamic=False)

    def mode(self, train):
        for k, m in self.modules.items():
            m.train(train or k == "cap")                    # VSRN's captioning modules never leave train mode

    def parameters(self):
        order = ["txt", "img", "sim", "cap", "i2t", "t2i"]
        ps = [p for k in order if k in self.modules for p in self.modules[k].parameters()]
        if self.duplicate:
            ps += list(self.modules["cap"].parameters())
        return ps

    def count(self):
        return sum(p.numel() for m in self.modules.values() for p in m.parameters())

    def optimizer(self, recorded=False):
        """The optimiser of the references; on a GPU in one kernel, and so that its steps may be recorded in a CUDA graph"""
        kw = {"foreach": False} if self.duplicate else {}
        if self.parameters()[0].is_cuda and not self.duplicate:
            kw = {"fused": True, "capturable": recorded}
        if self.name == "vseinf-bert":
            bert = list(self.modules["txt"].bert.parameters())
            ids = {id(p) for p in bert}
            rest = [p for p in self.modules["txt"].parameters() if id(p) not in ids]
            lr = 5e-4
            return torch.optim.AdamW([{"params": rest, "lr": lr}, {"params": bert, "lr": lr * 0.1},
                                      {"params": self.modules["img"].parameters(), "lr": lr}], lr=lr, weight_decay=1e-4, **kw)
        if self.name in ("vseinf-bigru", "chan"):
            return torch.optim.AdamW(self.parameters(), lr=5e-4, **kw)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.optim.Adam(self.parameters(), lr=2e-4, **kw)

    def embed(self, b):
        """(image side, text side)"""
        r = self.modules
        if self.name in ("vsrn", "vsrn-nocap"):
            txt = r["txt"](b["tokens"], b["lengths"])
            img, g = r["img"](b["images"])
            return img, txt, g
        if self.name.startswith("vseinf"):
            return r["img"](b["images"], b["image_lengths"]), r["txt"](b["tokens"], b["lengths"]), None
        return r["img"](b["images"]), r["txt"](b["tokens"], b["lengths"]), None

    def pair_scores(self, img, txt, lengths, boxes=None, depends=None, adjacent=None, image_lengths=None):
        m = self.modules
        if self.name == "chan":
            return m["sim"](img, txt, lengths, image_lengths)
        if self.name in ("saf", "sgr", "scan"):
            return m["sim"](img, txt, lengths)
        if self.name == "gsmn":
            width = img.size(-1) // 16
            if adjacent is not None:
                regions, words = word_matching(img, txt, lengths, width, self.lam)
                return m["i2t"].all_captions(regions, boxes) + m["t2i"].all_captions(words, txt, adjacent, lengths, self.lam)
            return (m["i2t"](img, txt, boxes, lengths, width, self.lam)
                    + m["t2i"](img, txt, depends, lengths, width, self.lam, self.sparse))
        return img.mm(txt.t())

    def forward(self, b):
        img, txt, g = self.embed(b)
        extra = None
        if "cap" in self.modules:
            extra = CaptionModel.loss(self.modules["cap"](g, b["labels"]), b["labels"], b["masks"])
        return self.pair_scores(img, txt, b["lengths"], b.get("boxes"), b.get("depends"), b.get("adjacent"),
                                b.get("image_lengths")), extra
