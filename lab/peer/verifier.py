"""Comparison of modules with golden cases."""
import torch
from torch import nn

from .bert import BertSelf


def T(x):
    if isinstance(x, dict):
        return torch.tensor(x["data"], dtype=torch.float64).reshape(x["shape"])
    return torch.tensor(x, dtype=torch.float64)


def TI(x):
    return T(x).long()


def X(x):
    """an input of the modules, in the dtype under test"""
    return T(x).to(torch.get_default_dtype())


class Verifier:
    """norm-wise comparison: |difference| <= atol + rtol * max|expected|"""

    def __init__(self, double=True):
        self.atol, self.rtol, self.grad_rtol, self.zero_rtol = (1e-12, 1e-9, 1e-9, 1e-13) if double else (1e-5, 2e-4, 2e-3, 1e-5)
        self.checks, self.failures, self.worst, self.cases, self.skipped = 0, [], 0.0, 0, []
        self.where = self.worst_at = ""

    def case(self, where):
        self.cases += 1
        self.where = where

    def same(self, tag, got, want, extra=0.0):
        got = got.detach().to(torch.float64) if torch.is_tensor(got) else torch.tensor(got, dtype=torch.float64)
        want = T(want) if not torch.is_tensor(want) else want
        self.checks += 1
        if tuple(got.shape) != tuple(want.shape):
            self.failures.append("%s %s: shape %s, expected %s" % (self.where, tag, list(got.shape), list(want.shape)))
            return
        if want.numel() == 0:
            return
        diff = (got - want).abs().max().item()
        allowed = self.atol + extra + (self.grad_rtol if "grad" in tag else self.rtol) * want.abs().max().item()
        bad = not diff <= allowed                           # also true for NaN
        if bad:
            self.failures.append("%s %s: difference %.3g, allowed %.3g" % (self.where, tag, diff, allowed))
        elif diff / allowed > self.worst:
            self.worst, self.worst_at = diff / allowed, self.where + " " + tag

    def equal(self, tag, got, want):
        self.checks += 1
        if got != want:
            self.failures.append("%s %s: %r, expected %r" % (self.where, tag, got, want))

    def grads(self, tag, module, want):
        own = dict(module.named_parameters())
        want = {k: T(w) for k, w in want.items()}
        scale = max(w.abs().max().item() for w in want.values())
        for k, w in want.items():
            g = own[k].grad
            # gradients that vanish identically (a bias in front of batch norm) are rounding noise of the others
            extra = self.zero_rtol * scale if w.abs().max().item() < 1e-9 * scale else 0.0
            self.same("%s grad %s" % (tag, k), torch.zeros_like(own[k]) if g is None else g, w, extra)

    def stats(self, module, want):
        own = dict(module.named_buffers())
        for k, w in want.items():
            self.same("running " + k, own[k], w)


def fill(module, *dicts, may_miss=()):
    """copy golden parameters into a module; nothing may be left over or missing"""
    own = {}
    own.update(dict(module.named_parameters()))
    own.update({k: v for k, v in module.named_buffers() if not k.endswith("num_batches_tracked")})
    given = {}
    for d in dicts:
        given.update(d)
    left = set(given) - set(own)
    missing = {k for k in set(own) - set(given) if not any(k.startswith(m) for m in may_miss)}
    if left or missing:
        raise ValueError("parameter names differ: unknown %s, missing %s" % (sorted(left), sorted(missing)))
    with torch.no_grad():
        for k, v in given.items():
            own[k].copy_(T(v).reshape(own[k].shape))
    for m in module.modules():
        if isinstance(m, nn.Dropout):
            m.p = 0.0
        if isinstance(m, BertSelf):
            m.p = 0.0
    return module


def leaf(x):
    return X(x).requires_grad_(True)
