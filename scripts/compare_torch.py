#!/usr/bin/env python3
"""Time one training step of vsetrain and of the PyTorch peer (torch_peer.py), alternately, and print their ratios.

Each round runs, for every dtype, the peer and then vsetrain in processes of their own with the same network, loss, batch size,
threads and number of steps.  A figure is the median over rounds of the medians of each run, followed by the range over
rounds where it is wider than 2 %; "best" is the shortest step of all.  The machine must do nothing else: PyTorch's thread
pools wait for one another at every operation, and a neighbour on one core makes its steps ten times longer, vsetrain's less.
A run that was disturbed is pointed out at the end.

    python3 scripts/compare_torch.py --network vsepp --loss lseh --threads 2 --rounds 3

The interpreter needs torch and numpy; VSETRAIN names the binary (default: bin/vsetrain, else the one in PATH).
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
NETWORKS = ("vsepp", "vsrn", "vsrn-nocap", "saf", "sgr", "scan", "vseinf-bigru", "vseinf-bert", "gsmn", "chan")


def say(*a):
    print(*a, file=sys.stderr, flush=True)


def find_vsetrain(path):
    for p in (path, os.environ.get("VSETRAIN"), os.path.join(HERE, "..", "bin", "vsetrain"), shutil.which("vsetrain")):
        if p and os.access(p, os.X_OK) and not os.path.isdir(p):
            return os.path.abspath(p)
        if p and p == path:
            raise SystemExit("%s is no program: build vsetrain first" % p)
    raise SystemExit("vsetrain not found: build it (make build), put it into PATH or name it with --vsetrain or VSETRAIN")


def json_line(what, command):
    """The last line of standard output that is a JSON object."""
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for line in reversed(run.stdout.splitlines()):
        if line.startswith("{"):
            try:
                out = json.loads(line)
            except ValueError:
                break
            if run.returncode == 0:
                return out
    raise SystemExit("%s failed (exit %d): %s\n%s" % (what, run.returncode, " ".join(command), (run.stderr or run.stdout).strip()[-2000:]))


def step_median(what, out):
    try:
        v = float(out["step_ms"]["median"])
    except (KeyError, TypeError, ValueError):
        raise SystemExit("%s printed no step_ms.median: %s" % (what, json.dumps(out)[:500]))
    if not v > 0:
        raise SystemExit("%s measured a step of %r ms" % (what, v))
    return v


def config(opts, dtype):
    """The configuration of vsetrain bench (JSON is YAML) that is the peer's network, loss and batch."""
    network, _, variant = opts.network.partition("-")
    text = {"vsepp": "gru", "vsrn": "gru", "vseinf": variant}.get(network, "bigru")
    model = {"network": network, "text_encoder": text, "embed_dim": 2048 if network == "vsrn" else 1024}
    if network == "vsrn":
        model["vsrn"] = {"caption": variant != "nocap"}
    if network == "chan":
        model["chan"] = {"image_encoder": "selfattention", "coding": "vha", "pooling": "lse", "beta": 0.1}
    return {"version": 1, "model": model, "loss": {"name": opts.loss, "margin": 0.185 if opts.loss == "lseh" else 0.2},
            "optim": {"name": "adamw" if network in ("vseinf", "chan") else "adam"}, "train": {"batch": opts.batch},
            "device": {"kind": opts.device, "threads": opts.threads, "precision": dtype}}


def peer_command(opts, dtype):
    loss = "luwm-vec" if opts.loss == "luwm" and opts.vectorised_luwm else opts.loss
    c = [sys.executable, os.path.join(HERE, "torch_peer.py"), "--network", opts.network, "--loss", loss, "--batch", str(opts.batch),
         "--device", opts.device, "--dtype", dtype, "--threads", str(opts.threads), "--steps", str(opts.steps),
         "--warmup", str(opts.warmup), "--seed", str(opts.seed)]
    # On a GPU the figure is that of the fastest way: eager, recorded or compiled.
    graph = opts.device == "cuda" and opts.loss != "luwm"
    return c + (["--compile"] if opts.compile else []) + (["--graph"] if graph else [])


def ours_command(opts, binary, path):
    return [binary, "bench", "--config", path, "--steps", str(opts.steps), "--warmup", str(opts.warmup), "--json"]


def measure(opts, binary):
    rows = {}
    with tempfile.TemporaryDirectory(prefix="compare-torch-") as folder:
        for r in range(opts.rounds):
            for dtype in opts.dtypes:
                path = os.path.join(folder, "bench-%s.yaml" % dtype)
                with open(path, "w", encoding="utf-8") as f:
                    json.dump(config(opts, dtype), f)
                for who, command in (("PyTorch", peer_command(opts, dtype)), ("vsetrain", ours_command(opts, binary, path))):
                    if who == "PyTorch" and dtype not in opts.peer_dtypes:
                        continue
                    out = json_line(who, command)
                    say("round %d of %d  %-8s %-5s %9.1f ms" % (r + 1, opts.rounds, who, dtype, step_median(who, out)))
                    rows.setdefault((who, dtype), []).append(out)
    return rows


def number(row, *keys):
    """Values of one key over the rounds, None when a program does not report it."""
    values = []
    for out in row:
        for k in keys:
            out = out.get(k) if isinstance(out, dict) else None
        if not isinstance(out, (int, float)):
            return None
        values.append(float(out))
    return values


def figure(values, digits=1):
    if values is None:
        return "-"
    m, lo, hi = statistics.median(values), min(values), max(values)
    text = "%.*f" % (digits, m)
    return text if hi - lo <= 0.02 * abs(m) else "%s (%.*f to %.*f)" % (text, digits, lo, digits, hi)


def best(row):
    v = number(row, "step_ms", "min")
    return min(v) if v else None


def disturbed(rows, load, threads):
    """Reasons not to believe the figures."""
    why = ["load average %.1f before the start" % load] if load > 0.25 * threads else []
    for (who, dtype), row in sorted(rows.items()):
        med, low = statistics.median(number(row, "step_ms", "median")), best(row)
        if low and med > 1.25 * low:
            why.append("%s %s: median step %.0f ms, best %.0f ms" % (who, dtype, med, low))
    return why


def table(rows, dtypes):
    head = ("program", "dtype", "step ms", "best", "captions/s", "GFLOP/s", "data wait ms", "tokens per caption")
    lines = [head]
    for dtype in dtypes:
        for who in ("PyTorch", "vsetrain"):
            row = rows.get((who, dtype))
            if not row:
                continue
            version = row[0].get("torch") if who == "PyTorch" else row[0].get("version")
            lines.append((who + (" " + str(version) if version else ""), dtype, figure(number(row, "step_ms", "median")),
                          "%.1f" % best(row) if best(row) else "-", figure(number(row, "captions_per_s")), figure(number(row, "gflops")),
                          figure(number(row, "data_wait_ms"), 2), figure(number(row, "mean_tokens"), 2)))
    return markdown(lines)


def ratios(rows, dtypes):
    med = lambda who, d: statistics.median(number(rows[who, d], "step_ms", "median"))
    rate = lambda who, d: number(rows[who, d], "gflops")
    lines = [("vsetrain against PyTorch", "step time", "best step", "useful GFLOP/s")]
    pairs = [p for p in [(d, d) for d in dtypes] + [(d, dtypes[0]) for d in dtypes[1:]] if ("PyTorch", p[1]) in rows]
    for ours, theirs in pairs:
        a, b = rate("vsetrain", ours), rate("PyTorch", theirs)
        low, high = best(rows["vsetrain", ours]), best(rows["PyTorch", theirs])
        lines.append(("%s against %s" % (ours, theirs), "%.2f times as fast" % (med("PyTorch", theirs) / med("vsetrain", ours)),
                      "%.2f times" % (high / low) if low and high else "-",
                      "%.2f times" % (statistics.median(a) / statistics.median(b)) if a and b else "-"))
    return markdown(lines)


def markdown(lines):
    widths = [max(len(str(x[i])) for x in lines) for i in range(len(lines[0]))]
    out = ["| " + " | ".join(str(v).ljust(w) for v, w in zip(x, widths)) + " |" for x in lines]
    return "\n".join([out[0], "|" + "|".join("-" * (w + 2) for w in widths) + "|"] + out[1:])


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--network", choices=NETWORKS, default="vsepp")
    p.add_argument("--loss", choices=("lsh", "lmh", "lseh", "luwm"), default="lseh")
    p.add_argument("--batch", type=int, default=0, help="default 128 (GSMN 64)")
    p.add_argument("--threads", type=int, default=0, help="CPU threads of both (default: the processors this process may use)")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--steps", type=int, default=10, help="timed steps of each run")
    p.add_argument("--warmup", type=int, default=2)
    p.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    p.add_argument("--dtypes", default="fp32,bf16", help="comma list of fp32, tf32 (cuda) and bf16; ratios are also taken against the first")
    p.add_argument("--peer-dtypes", help="those of them that PyTorch runs (default: all); the slow networks take minutes each")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--compile", action="store_true", help="torch.compile the peer's modules")
    p.add_argument("--vectorised-luwm", action="store_true", help="the peer's LUWM without the reference's Python loop")
    p.add_argument("--vsetrain", metavar="PATH")
    p.add_argument("--verify", metavar="DIR", help="first check the peer against the golden cases in DIR (testdata/golden)")
    p.add_argument("--json", metavar="FILE", help="also write every run's own line")
    opts = p.parse_args()
    opts.dtypes = opts.dtypes.split(",")
    opts.peer_dtypes = opts.peer_dtypes.split(",") if opts.peer_dtypes else opts.dtypes
    opts.batch = opts.batch or (64 if opts.network == "gsmn" else 128)
    opts.threads = opts.threads or (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count())
    if opts.rounds < 1 or opts.steps < 1 or opts.warmup < 0 or not set(opts.dtypes) <= {"fp32", "tf32", "bf16"}:
        p.error("--rounds and --steps must be at least 1, --warmup at least 0, --dtypes of fp32, tf32, bf16")
    if not set(opts.peer_dtypes) <= set(opts.dtypes):
        p.error("--peer-dtypes must be among --dtypes")
    binary = find_vsetrain(opts.vsetrain)
    if opts.verify:
        out = json_line("the peer's check", [sys.executable, os.path.join(HERE, "torch_peer.py"), "--verify", opts.verify])
        say("peer verified: %d checks" % out["checks"])
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    rows = measure(opts, binary)
    if opts.json:
        with open(opts.json, "w", encoding="utf-8") as f:
            for (who, dtype), runs in sorted(rows.items()):
                for r, out in enumerate(runs):
                    f.write(json.dumps({"program": who, "dtype": dtype, "round": r, "result": out}) + "\n")
    print("%s, %s, batch %d, %s, %d threads, %d rounds of %d steps\n" % (opts.network, opts.loss, opts.batch, opts.device,
                                                                        opts.threads, opts.rounds, opts.steps))
    print(table(rows, opts.dtypes) + "\n")
    print(ratios(rows, opts.dtypes))
    why = disturbed(rows, load, opts.threads)
    if why:
        print("\nThe machine was not idle, so these ratios prove nothing: " + "; ".join(why))
    return 0


if __name__ == "__main__":
    sys.exit(main())
