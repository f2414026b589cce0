"""LSH and LMH, LSEH with its margins, LUWM."""
import numpy as np
import torch

from .base import positive_part


def hinge_parts(scores, margin, max_violation=True):
    """margin: number or [n, n] matrix.  Returns (loss, caption part, image part, cost matrices)."""
    n = scores.size(0)
    diag = scores.diag().view(n, 1)
    eye = torch.eye(n, dtype=torch.bool, device=scores.device)
    cost_s = positive_part(margin + scores - diag.expand_as(scores)).masked_fill(eye, 0)
    cost_im = positive_part(margin + scores - diag.t().expand_as(scores)).masked_fill(eye, 0)
    full = (cost_s, cost_im)
    if max_violation:
        s, im = cost_s.max(1)[0].sum(), cost_im.max(0)[0].sum()
    else:
        s, im = cost_s.sum(), cost_im.sum()
    return s + im, s, im, full


def semantic_similarity(vectors, kind="rowmax"):
    if kind == "cosine":
        norm = vectors.norm(2, dim=1, keepdim=True)
        unit = torch.where(norm > 0, vectors / torch.where(norm > 0, norm, torch.ones_like(norm)), torch.zeros_like(vectors))
        return unit.mm(unit.t())
    gram = vectors.mm(vectors.t())
    top = gram.max(1)[0]
    return gram / torch.where(top == 0, torch.ones_like(top), top).unsqueeze(1)


def semantic_margin(vectors, caption_ids, image_ids, alpha=0.185, lam=0.025, divisor=5, kind="rowmax", loop=False):
    """margin matrix of LSEH.  divisor None: compare image ids with image ids.  loop: the reference's double loop."""
    caption_ids, image_ids = np.asarray(caption_ids), np.asarray(image_ids)
    other = image_ids if divisor is None else caption_ids // divisor
    if loop:
        keep = torch.ones(len(image_ids), len(other))
        for i in range(len(image_ids)):
            for j in range(len(other)):
                if image_ids[i] == other[j]:
                    keep[i, j] = 0
    else:
        keep = torch.from_numpy((image_ids[:, None] != other[None, :]).astype(np.float32))
    return margins(vectors, keep.to(device=vectors.device, dtype=vectors.dtype), alpha, lam, kind)


def margins(vectors, keep, alpha=0.185, lam=0.025, kind="rowmax"):
    """margin matrix of LSEH where keep is 1: the caption is not one of the image"""
    m = (semantic_similarity(vectors, kind) * lam + alpha) * keep
    return m.masked_fill(torch.eye(m.size(0), dtype=torch.bool, device=m.device), 0)


LUWM_POS, LUWM_NEG, LUWM_EPS = (0.5, -0.7, 0.2), (0.03, -0.4, 0.9), 1e-5


def _poly(c, x):
    return positive_part(c[2] * torch.pow(x, 2) + c[1] * x + c[0])


def luwm_loop(scores, margin=0.2, a=LUWM_POS, b=LUWM_NEG, eps=LUWM_EPS):
    """one Python iteration per anchor and direction, as the reference does it"""
    n = scores.size(0)
    label = torch.arange(n, device=scores.device)
    terms = []
    for mat in (scores, scores.t()):
        for i in range(n):
            pos = mat[i][i]
            pos = pos[pos < 1 - eps]
            if len(pos) < 1:
                continue
            neg = mat[i][label != label[i]]
            neg = neg[neg + margin > min(pos)]
            if len(neg) < 1:
                continue
            terms.append(_poly(a, pos) + _poly(b, max(neg)))
    if not terms:
        return scores.sum() * 0.0
    return (sum(terms) / n).sum()


def luwm_vec(scores, margin=0.2, a=LUWM_POS, b=LUWM_NEG, eps=LUWM_EPS):
    n = scores.size(0)
    p = scores.diag()
    off = scores.masked_fill(torch.eye(n, dtype=torch.bool, device=scores.device), float("-inf"))
    total = scores.new_zeros(())
    for mat in (off, off.t()):
        v = mat.max(1)[0]
        keep = (p < 1 - eps) & (v + margin > p)
        total = total + (_poly(a, p[keep]) + _poly(b, v[keep])).sum()
    return total / n


def retrieval_loss(kind, scores, batch):
    if kind in ("lmh", "lsh"):
        return hinge_parts(scores, 0.2, kind == "lmh")[0]
    if kind == "lseh" and "keep" in batch:                  # it lies on the device
        return hinge_parts(scores, margins(batch["svd"], batch["keep"]))[0]
    if kind in ("lseh", "lseh-loop"):
        m = semantic_margin(batch["svd"], batch["caption_ids"], batch["image_ids"], loop=kind == "lseh-loop")
        return hinge_parts(scores, m)[0]
    return luwm_loop(scores) if kind == "luwm" else luwm_vec(scores)
