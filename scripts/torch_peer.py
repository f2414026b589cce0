#!/usr/bin/env python3
"""PyTorch peer of vsetrain: one training step of each visual-semantic embedding network, timed.

The layers are those of the papers at full size.  On the CPU the work is arranged the way the public reference
repositories arrange it: packed GRUs, one Python iteration per caption in SGRAF, SCAN and GSMN, a Python loop over
decoder time steps in VSRN's captioning branch, a Python loop over anchors for LUWM, Adam/AdamW over plain
parameter lists, gradient clipping at 2.0 and one host read of the loss per step.

On a GPU it is arranged for speed: features and all that follows from lengths and ids lie there, the host waits
before the first and after the last of the timed steps only, the pairs of all captions are scored at once, BERT's
attention is that of scaled_dot_product_attention and the optimiser one kernel.  --graph also times the step as a
CUDA graph, --compile with torch.compile; step_ms is that of the fastest, eager_ms, graph_ms and compile_ms are
those of each.  --pairs loop and --attention eager are as on the CPU.  The code is our own.

    torch_peer.py --network saf --steps 10                 one JSON line on stdout
    torch_peer.py --network vseinf-bert --dtype bf16 --device cuda --graph
    torch_peer.py --network sgr --eval-pairs               scoring 1000 images x 5000 captions
    torch_peer.py --semantics --captions train_caps.txt    TF-IDF + truncated SVD
    torch_peer.py --gemm                                   matrix-product peak only
    torch_peer.py --verify testdata/golden                 float64 check of these modules against golden JSON

Needs torch (1.13 ... 2.11 and later) and numpy; --semantics also uses scikit-learn, scipy and nltk if present.
"""
import os
import sys


def _early_threads(argv):
    """BLAS libraries read their thread count when they are loaded, so set it before numpy/torch."""
    n = None
    for i, a in enumerate(argv):
        if a == "--threads" and i + 1 < len(argv):
            n = argv[i + 1]
        elif a.startswith("--threads="):
            n = a.split("=", 1)[1]
    if n and n.isdigit() and int(n) > 0:
        for k in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            os.environ[k] = n


_early_threads(sys.argv[1:])

import argparse
import json

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lab"))

from peer.flops import gemm_peaks
from peer.timing import bench, configure
from peer.evaluation import eval_pairs
from peer.semantics import semantics
from peer.verify import verify

NETWORKS = ("vsepp", "vsrn", "vsrn-nocap", "saf", "sgr", "scan", "vseinf-bigru", "vseinf-bert", "gsmn", "chan")
LOSSES = ("lmh", "lsh", "lseh", "lseh-loop", "luwm", "luwm-vec")


def settle_environment(opts):
    """Give a CPU run on Linux its best process settings (unless the caller chose them) by restarting once.

    - glibc hands every large tensor back to the kernel and pays for fresh pages each time: keep the memory instead
      (measured: 10-30 % shorter steps).
    - A torch build without MKL (Linux distributions) runs its own OpenMP pool next to the pool of OpenBLAS; both spin
      while they wait and take each other's cores (measured: up to 2.8x longer float32 steps): let them sleep.  Not for
      bf16, whose products go through oneDNN in the OpenMP pool and gain from spinning."""
    if opts.device != "cpu" or opts.plain_env or not sys.platform.startswith("linux") or os.environ.get("TORCH_PEER_SETTLED"):
        return
    env = dict(os.environ, TORCH_PEER_SETTLED="1")
    if not any(k.startswith("MALLOC_") for k in env):
        env.update(MALLOC_MMAP_MAX_="0", MALLOC_TRIM_THRESHOLD_="100000000000")
    if opts.dtype != "bf16" and not torch.backends.mkl.is_available() and "OMP_WAIT_POLICY" not in env:
        env["OMP_WAIT_POLICY"] = "PASSIVE"
        env.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable] + sys.argv, env)


def main(argv=None):
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--network", choices=NETWORKS)
    p.add_argument("--loss", choices=LOSSES, default="lmh")
    p.add_argument("--batch", type=int, default=0, help="default 128 (GSMN 64)")
    p.add_argument("--steps", type=int, default=10)
    p.add_argument("--warmup", type=int, default=2)
    p.add_argument("--pool", type=int, default=8, help="number of distinct synthetic batches to cycle through")
    p.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    p.add_argument("--dtype", choices=("fp32", "tf32", "bf16"), default="fp32", help="bf16 = autocast with float32 parameters")
    p.add_argument("--threads", type=int, default=0, help="CPU threads of torch and BLAS (0: library default)")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--plain-env", action="store_true", help="do not restart with tuned malloc / OpenMP settings on CPU")
    p.add_argument("--graph", action="store_true", help="also time the step as a CUDA graph")
    p.add_argument("--compile", action="store_true", help="torch.compile, for batches of one shape (torch 2); with --graph recorded then")
    p.add_argument("--limit", type=int, default=100, help="seconds for each of eager, --graph and --compile on CUDA")
    p.add_argument("--pairs", choices=("loop", "all"), help="one caption after the other as the references score pairs, or all at once;"
                   " VSRN's layers channels first or last (default: loop on the CPU, all on CUDA)")
    p.add_argument("--split", action="store_true", help="phase times on CUDA too: features are sent, and every step is waited for")
    p.add_argument("--attention", choices=("eager", "sdpa"), help="BERT's (default: eager on the CPU, sdpa on CUDA)")
    p.add_argument("--gsmn-mode", choices=("sparse", "dense"), default="sparse")
    p.add_argument("--vsrn-duplicate", action="store_true", help="list the captioning parameters twice, as the reference does")
    p.add_argument("--with-loader", action="store_true", help="read batches through a reference-like DataLoader")
    p.add_argument("--workers", type=int, default=-1, help="loader workers (-1: as the reference, at most the CPU count)")
    p.add_argument("--loader-rows", type=int, default=2000, help="image rows in the temporary feature file")
    p.add_argument("--tmp", default=None, help="folder for the temporary feature file")
    p.add_argument("--eval-pairs", action="store_true")
    p.add_argument("--shard", type=int, default=0, help="default 100 (GSMN 50)")
    p.add_argument("--eval-shards", type=int, default=3)
    p.add_argument("--eval-batches", type=int, default=2)
    p.add_argument("--semantics", action="store_true")
    p.add_argument("--captions", help="caption file for --semantics (default: synthetic text)")
    p.add_argument("--svd", default="paper,arpack", help="comma list of paper, arpack, quick")
    p.add_argument("--gemm", action="store_true")
    p.add_argument("--gemm-seconds", type=float, default=1.0)
    p.add_argument("--verify", metavar="DIR", help="compare these modules with the golden JSON files in DIR")
    p.add_argument("--verify-dtype", choices=("fp64", "fp32"), default="fp64")
    opts = p.parse_args(argv)
    if argv is None and not opts.verify:
        settle_environment(opts)
    cuda = opts.device == "cuda"
    if opts.graph and (not cuda or opts.loss.startswith("luwm") or opts.with_loader or opts.split):
        p.error("--graph needs --device cuda, a loss without indices of its own (not LUWM), and neither --with-loader nor --split")
    opts.together = (opts.pairs or ("all" if cuda else "loop")) == "all" and opts.gsmn_mode == "sparse"
    opts.attention = opts.attention or ("sdpa" if cuda else "eager")
    if not opts.batch:
        opts.batch = 64 if opts.network == "gsmn" else 128
    if opts.verify:
        out = verify(opts)
    elif opts.semantics:
        out = semantics(opts)
    elif opts.gemm:
        device = configure(opts)
        out = {"mode": "gemm", "device": device.type, "torch": torch.__version__, "threads": torch.get_num_threads(),
               "gemm_peak_gflops": gemm_peaks(device, opts.gemm_seconds)}
    elif not opts.network:
        p.error("--network is required")
    elif opts.eval_pairs:
        out = eval_pairs(opts)
    else:
        out = bench(opts)
    print(json.dumps(out), flush=True)
    return 0 if out.get("pass", True) else 1


if __name__ == "__main__":
    sys.exit(main())
