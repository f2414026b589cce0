"""One training step, timed."""
import contextlib
import json
import math
import os
import random
import resource
import signal
import statistics
import time
import traceback

import numpy as np
import torch
from torch.nn.utils import clip_grad_norm_

from .base import log, sync
from .losses import retrieval_loss
from .networks import Net
from .flops import forward_gflop, gemm_peaks, nominal_gflop
from .synth import Synth, placed, to_device
from .loader import loader_source

CLIP = 2.0


def autocast(device, dtype):
    if dtype == "bf16":
        return torch.autocast(device_type=device.type, dtype=torch.bfloat16)
    return contextlib.nullcontext()


def train_step(net, opt, params, b, opts, device, mark=lambda: None):
    """One step; the loss stays on the device.  mark is called between its phases."""
    with autocast(device, opts.dtype):
        scores, extra = net.forward(b)
    opt.zero_grad()
    loss = retrieval_loss(opts.loss, scores.float(), b)
    value = loss.detach()
    if extra is not None:
        loss = loss + extra.float()
    mark()
    loss.backward()
    mark()
    clip_grad_norm_(params, CLIP)
    opt.step()
    mark()
    return value


def phased_step(net, opt, params, batch, opts, device, split):
    """One step from a batch on the host to its loss there, and the seconds of its phases if split."""
    marks = []

    def mark():
        if split:
            sync(device)
            marks.append(time.perf_counter())

    mark()
    b = to_device(batch, device)
    mark()
    value = train_step(net, opt, params, b, opts, device, mark).item()
    return value, [y - x for x, y in zip(marks, marks[1:])]


class Recorded:
    """Steps as CUDA graphs, one for each batch of the pool, as its lengths are part of what is recorded.  A training would
    pad its batches to a few shapes; that each has a graph of its own favours PyTorch."""

    def __init__(self, step, pool, net, opt, device):
        self.at, self.graphs = 0, []
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):                       # libraries choose their kernels and take their memory here
            for b in pool * 2:
                step(b)
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        memory = None
        for b in pool:
            opt.zero_grad(set_to_none=True)                 # gradients are allocated in the memory of the graph
            g = torch.cuda.CUDAGraph()
            with torch.cuda.graph(g, pool=memory, stream=side):     # cuDNN has its memory of this stream already
                loss = step(b)
            memory = g.pool()
            self.graphs.append((g, loss))

    def __call__(self, _):
        g, loss = self.graphs[self.at % len(self.graphs)]
        self.at += 1
        g.replay()
        return loss


def free_running(step, pool, opts):
    """Milliseconds of steps that follow each other, from one result to the next, and their losses.  The host waits before the
    first and after the last."""
    for i in range(opts.warmup):
        step(pool[i % len(pool)])
    torch.cuda.synchronize()
    marks, losses = [torch.cuda.Event(enable_timing=True) for _ in range(opts.steps + 1)], []
    marks[0].record()
    for i in range(opts.steps):
        losses.append(step(pool[i % len(pool)]).clone())    # the next replay of the graph writes there again
        marks[i + 1].record()
    torch.cuda.synchronize()
    return [a.elapsed_time(b) / 1000 for a, b in zip(marks, marks[1:])], [x.item() for x in losses]


@contextlib.contextmanager
def limited(seconds):
    """Ends what it surrounds after so many seconds, as far as it returns to Python."""
    def stop(*_):
        raise TimeoutError("took longer than its limit of %d s" % seconds)
    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def resident(opts, device):
    """Times steps whose features lie on the GPU: eagerly, and as a CUDA graph or compiled if that is asked for.  Prints what it
    has after each of these, and returns the last."""
    net = Net(opts.network, opts).to(device)
    net.mode(True)
    params = net.parameters()
    opt = net.optimizer(recorded=True)
    synth = Synth(opts.network, opts.batch, opts.seed)
    pool = [placed(synth.make(), device, opts.together) for _ in range(1 if opts.compile else min(opts.pool, 4))]

    def step(b):
        return train_step(net, opt, params, b, opts, device)

    out = common(opts, device)
    lengths = [n for b in pool for n in b["lengths"]]
    gflop = 3 * statistics.mean(forward_gflop(opts.network, b["lengths"], b.get("image_lengths")) for b in pool)
    out.update({"parameters": net.count(), "steps": opts.steps, "warmup": opts.warmup, "features": "resident",
                "gflop_per_step": round(gflop, 1), "mean_tokens": round(statistics.mean(lengths), 2), "longest_tokens": max(lengths),
                "pairs": "all" if opts.together else "loop", "attention": opts.attention, "batches": len(pool)})
    ways = ["eager"] + ["compile"] * opts.compile + ["graph"] * opts.graph
    for way in ways:
        try:
            with limited(opts.limit):
                if way == "compile":
                    net.compile()
                run = step
                if way == "graph":
                    run = Recorded(step, pool, net, opt, device)
                t, losses = free_running(run, pool, opts)
        except Exception as e:                              # what this version of PyTorch cannot do is no end of the rest
            out["not_run"] = "%s: %s" % (way, (str(e).strip() or type(e).__name__).splitlines()[0][:150])
            log(traceback.format_exc())
            if way != "graph" or not torch.backends.cudnn.enabled:
                break
            torch.backends.cudnn.enabled = False            # is it the GRU of cuDNN that cannot be recorded?
            ways.append(way)
            continue
        name = "compile" if opts.compile and way == "graph" else way        # compiled, then recorded: the faster of both
        med = ms(statistics.median(t))
        if name not in out.get("ways", ()):
            out.setdefault("ways", []).append(name)
        out[name + "_ms"] = min(med, out.get(name + "_ms", med))
        if med <= out.get("step_ms", {"median": med})["median"]:
            out.update({"fastest": name, "captions_per_s": round(opts.batch / statistics.median(t), 2),
                        "gflops": round(gflop / statistics.median(t), 1), "cudnn": torch.backends.cudnn.enabled,
                        "step_ms": {"min": ms(min(t)), "median": med, "p90": ms(quantile(t, 0.9)), "max": ms(max(t))},
                        "loss_first": round(losses[0], 5), "loss_last": round(losses[-1], 5)})
        out["peak_memory_mb"], out["peak_memory_kind"] = peak_memory_mb(device)
        if way != ways[-1]:
            print(json.dumps(out), flush=True)              # a limit from outside leaves this
    return out


def loss_only(opts, batch, device, repeats=5):
    """forward + backward of the retrieval loss alone on a plausible score matrix"""
    n = opts.batch
    s = (torch.rand(n, n, device=device) * 0.4 + torch.eye(n, device=device) * 0.15).requires_grad_(True)
    times = []
    for _ in range(repeats + 1):
        s.grad = None
        sync(device)
        t0 = time.perf_counter()
        retrieval_loss(opts.loss, s, batch).backward()
        sync(device)
        times.append(time.perf_counter() - t0)
    return statistics.median(times[1:])


def quantile(xs, q):
    xs = sorted(xs)
    return xs[min(len(xs) - 1, int(math.ceil(q * len(xs))) - 1)]


def ms(x):
    return round(1000 * x, 2)


def peak_memory_mb(device):
    if device.type == "cuda":
        return round(torch.cuda.max_memory_allocated(device) / 2 ** 20, 1), "cuda max allocated"
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1), "process max RSS"


def configure(opts):
    if opts.threads > 0:
        torch.set_num_threads(opts.threads)
    device = torch.device(opts.device)
    tf32 = opts.dtype == "tf32"
    if tf32 and device.type != "cuda":
        raise SystemExit("tf32 needs a CUDA device")
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(opts.seed)
    random.seed(opts.seed)
    np.random.seed(opts.seed)
    return device


def common(opts, device):
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    return {"network": opts.network, "loss": opts.loss, "device": device.type, "device_name": name, "dtype": opts.dtype,
            "torch": torch.__version__, "threads": torch.get_num_threads(), "omp_wait": os.environ.get("OMP_WAIT_POLICY"),
            "malloc_keeps_memory": os.environ.get("MALLOC_MMAP_MAX_") == "0",
            "batch": opts.batch, "seed": opts.seed}


def bench(opts):
    device = configure(opts)
    if device.type == "cuda" and not (opts.split or opts.with_loader):
        out = resident(opts, device)
        out["gemm_peak_gflops"] = gemm_peaks(device, opts.gemm_seconds) if opts.gemm_seconds else None
        return out
    net = Net(opts.network, opts).to(device)
    if opts.compile:
        net.compile()
    net.mode(True)
    params = net.parameters()
    optimizer = net.optimizer()
    total = opts.warmup + opts.steps
    split = device.type != "cuda" or opts.split
    rows = []
    with contextlib.ExitStack() as stack:
        workers = loader_rows = None
        if opts.with_loader:
            loader, workers, loader_rows = stack.enter_context(loader_source(opts, total))
            stream = iter(loader)
        else:
            synth = Synth(opts.network, opts.batch, opts.seed)
            pool = [synth.make() for _ in range(min(total, opts.pool))]
            if opts.compile:                                # TorchDynamo cannot make Lengths
                pool = [placed(b, device, opts.together) for b in pool]
            if device.type == "cuda":
                pool = [{k: (v.pin_memory() if torch.is_tensor(v) else v) for k, v in b.items()} for b in pool]
            stream = (pool[i % len(pool)] for i in range(total))
        for i in range(total):
            sync(device)
            t0 = time.perf_counter()
            batch = next(stream)
            t1 = time.perf_counter()
            value, phases = phased_step(net, optimizer, params, batch, opts, device, split)
            sync(device)
            t2 = time.perf_counter()
            log("step %d %s loss %.4f  %.1f ms%s" % (i, "warm" if i < opts.warmup else "    ", value, 1000 * (t2 - t1),
                                                     "" if not opts.with_loader else "  wait %.1f ms" % (1000 * (t1 - t0))))
            if i >= opts.warmup:
                il = batch.get("image_lengths")
                il = None if il is None else list(map(int, il))
                rows.append({"t": t2 - t1, "wait": t1 - t0, "value": value, "phases": phases,
                             "tokens": sum(batch["lengths"]), "longest": max(batch["lengths"]),
                             "gf": 3 * forward_gflop(opts.network, batch["lengths"], il),
                             "gfx": 3 * forward_gflop(opts.network, batch["lengths"], il, executed=True)})
        if opts.with_loader:
            del stream
        only = loss_only(opts, to_device(batch, device), device)
    t = [r["t"] for r in rows]
    med = statistics.median(t)
    memory, kind = peak_memory_mb(device)
    gf = statistics.mean(r["gf"] for r in rows)
    gfx = statistics.mean(r["gfx"] for r in rows)
    rate = statistics.median(r["gf"] / r["t"] for r in rows)
    peaks = gemm_peaks(device, opts.gemm_seconds)
    peak = peaks.get(opts.dtype)
    out = common(opts, device)
    out.update({
        "steps": opts.steps, "warmup": opts.warmup, "compiled": bool(opts.compile), "parameters": net.count(),
        "step_ms": {"min": ms(min(t)), "median": ms(med), "p90": ms(quantile(t, 0.9)), "max": ms(max(t))},
        "captions_per_s": round(opts.batch / statistics.median(r["t"] + (r["wait"] if opts.with_loader else 0) for r in rows), 2),
        "data_wait_ms": ms(statistics.median(r["wait"] for r in rows)) if opts.with_loader else None,
        "phases_ms": dict(zip(("copy", "forward", "backward", "update"),
                              (ms(statistics.median(r["phases"][k] for r in rows)) for k in range(4)))) if split else None,
        "loss_only_ms": ms(only), "peak_memory_mb": memory, "peak_memory_kind": kind,
        "gflop_per_step": round(gf, 1), "gflop_executed_per_step": round(gfx, 1),
        "gflop_nominal_20_words": round(nominal_gflop(opts.network, opts.batch), 1),
        "gflops": round(rate, 1), "gemm_peak_gflops": peaks,
        "fraction_of_gemm_peak": round(rate / peak, 4) if peak else None,
        "mean_tokens": round(statistics.mean(r["tokens"] for r in rows) / opts.batch, 2),
        "longest_tokens": max(r["longest"] for r in rows),
        "loss_first": round(rows[0]["value"], 5), "loss_last": round(rows[-1]["value"], 5),
        "loader_workers": workers, "loader_rows": loader_rows,
    })
    if opts.network == "gsmn":
        out["gsmn_mode"] = opts.gsmn_mode
    if opts.network == "vseinf-bert":
        out["attention"] = opts.attention
    if opts.network == "vsrn":
        out["vsrn_duplicate"] = bool(opts.vsrn_duplicate)
    return out
