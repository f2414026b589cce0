"""Floating point operations of a step, and what matrix products reach."""
import time

import torch

from .base import REGIONS, VOCAB, log, sync


def forward_gflop(name, lengths, image_lengths=None, n_images=None, executed=False):
    """2*MAC of matrix products and GRUs of one forward pass, for these caption lengths.
    executed=True counts the padding that this program really computes (BERT tokens, VSE-infinity regions)."""
    b = len(lengths)
    ni = n_images or b
    s, s2 = float(sum(lengths)), float(sum(x * x for x in lengths))
    r = REGIONS

    def gru(d, h):
        return 2 * 3 * h * (d + h)                          # per time step

    if name == "vsepp":
        return (ni * 2 * 73728 * 1024 + s * gru(300, 1024) + 2 * ni * b * 1024) / 1e9
    if name in ("vsrn", "vsrn-nocap"):
        d = 2048
        f = ni * (2 * r * d * d + 4 * (4 * 2 * r * d * d + 4 * r * r * d) + r * gru(d, d))
        f += s * gru(300, d) + 2 * ni * b * d
        if name == "vsrn":
            f += ni * (2 * r * 2048 * 512 + r * gru(512, 512)
                       + 59 * (2 * r * 1024 * 512 + 2 * r * 512 + 2 * r * 512 + gru(812, 512) + 2 * 512 * VOCAB))
        return f / 1e9
    words = ni * 2 * r * 2048 * 1024 + s * 2 * gru(300, 1024)
    if name == "chan":                                      # padding attends and is attended as the reference has it
        k = max(image_lengths or [r]) * ni
        f = k * 2 * (2048 * 1024 + 4 * 1024 ** 2) + ni * 4 * 1024 * (k / ni) ** 2
        return (f + s * 2 * gru(300, 1024) + 2 * k * s * 1024) / 1e9
    if name == "scan":
        return (words + ni * 2 * (2 * r * s * 1024 + 3 * s * 1024)) / 1e9
    if name in ("saf", "sgr"):
        f = words + ni * (2 * r * 1024 ** 2 + 2 * 1024 ** 2) + s * 2 * 1024 ** 2 + b * 2 * 1024 ** 2
        f += ni * (2 * r * s * 1024 * 2 + 2 * s * 1024 * 256 + b * 2 * 1024 * 256 + b * 512)
        if name == "saf":
            f += ni * (s + b) * 256 * 4
        else:
            f += ni * 3 * (3 * 2 * (s + b) * 256 * 256 + 4 * 256 * (s2 + 2 * s + b))
        return f / 1e9
    if name == "gsmn":
        f = words + ni * (2 * (4 * r * s * 1024) + b * 2 * r * 1024 * 3 + 2 * s * 1024 * 3)
        f += ni * (b * r * (2 * 16 * 32 * 36 + 2 * 16 * 32 + 2 * 32 * 32) + s2 * 2 * 16 * 8 + s * (2 * 16 * 32 + 2 * 32 * 32))
        return (f + s2 * 2 * 1024) / 1e9
    il = image_lengths if image_lengths is not None else [r] * ni
    k = float(sum(il)) if not executed else float(max(il) * len(il))
    f = k * (2 * 2048 * 1024 + 2 * 2048 * 512 + 2 * 512 * 1024) + k * 2 * gru(32, 32) + 2 * ni * b * 1024
    if name == "vseinf-bigru":
        return (f + s * 2 * gru(300, 1024) + s * 2 * gru(32, 32)) / 1e9
    if executed:
        s, s2 = float(max(lengths) * b), float(max(lengths) ** 2 * b)
    f += 12 * (s * 4 * 2 * 768 * 768 + s2 * 4 * 768 + s * 4 * 768 * 3072) + s * 2 * 768 * 1024 + s * 2 * gru(32, 32)
    return f / 1e9


def nominal_gflop(name, batch):
    n = 22 if name == "vseinf-bert" else 20
    return 3 * forward_gflop(name, [n] * batch)


def gemm_peak(device, dtype_name, seconds=1.0):
    dtype = torch.bfloat16 if dtype_name == "bf16" else torch.float32
    old = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = dtype_name == "tf32"
    best = 0.0
    try:
        for n in ((4096, 8192) if device.type == "cuda" else (1024, 2048, 4096)):
            a = torch.randn(n, n, device=device).to(dtype)
            b = torch.randn(n, n, device=device).to(dtype)
            end, first = time.perf_counter() + seconds, True
            while first or time.perf_counter() < end:
                sync(device)
                t0 = time.perf_counter()
                for _ in range(5 if device.type == "cuda" else 1):
                    torch.mm(a, b)
                sync(device)
                dt = (time.perf_counter() - t0) / (5 if device.type == "cuda" else 1)
                if not first:
                    best = max(best, 2.0 * n ** 3 / dt / 1e9)
                first = False
    finally:
        torch.backends.cuda.matmul.allow_tf32 = old
    return round(best, 1)


def gemm_peaks(device, seconds=1.0):
    out = {}
    for d in ("fp32", "tf32", "bf16"):
        if d == "tf32" and device.type != "cuda":
            continue
        try:
            out[d] = gemm_peak(device, d, seconds)
        except Exception as e:                              # dtype not supported by this build
            out[d] = None
            log("gemm", d, "failed:", type(e).__name__)
    return out
