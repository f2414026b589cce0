#!/usr/bin/env python3
"""Time the steps and evaluations that take longest on CPUs, of two builds of vsetrain in turn and of PyTorch.

    bench_table.py [--old BINARY] [--new BINARY] [--peer] [--rounds 2] [--only scan,chan] [--set device.threads=2]
    bench_table.py --growth [--only vsepp]

Every round times each row with the old build, the new one and, with --peer, scripts/torch_peer.py (needs torch), one
after the other, so that ratios hold on a machine whose clock drifts; the table has the medians of the rounds, and the
share of the product peak that bench measured in the same process.  Nothing else may run beside it.

--growth prints how the time and memory of a step grow with the batch, the regions, the words of a caption and the
vocabulary: one of them is changed at a time, at batch 64.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))

# Row, network of the peer, configuration, batch, precision.
STEPS = [
    ("SCAN, batch 128", "scan", "scan/f30k-benchmark-ti-lse", 128, "fp32"),
    ("SCAN, batch 128", "scan", "scan/f30k-benchmark-ti-lse", 128, "bf16"),
    ("CHAN BiGRU, batch 128", "chan", "chan/f30k-benchmark-bigru", 128, "fp32"),
    ("CHAN BiGRU, batch 128", "chan", "chan/f30k-benchmark-bigru", 128, "bf16"),
    ("VSRN, batch 128", "vsrn", "vsrn/f30k-lseh", 128, "fp32"),
    ("VSE++, batch 32", "vsepp", "vsepp/f30k-lseh", 32, "fp32"),
    ("SGR, batch 256", "sgr", "sgr/f30k-lseh", 256, "fp32"),
]
# Row, configuration: the score matrix of 60 images and 300 captions, by a network of full size.
SCORES = [("SGR, 18,000 pairs", "sgr/f30k-lseh"), ("SCAN, 18,000 pairs", "scan/f30k-benchmark-ti-lse")]

# Configuration, what is changed, the flag of bench, its values.
GROWTH = [
    (config, name, flag, values) for config, batches in (
        ("vsepp/f30k-lseh", (32, 128, 512)), ("vseinf/f30k-lseh-bigru", (32, 128, 512)), ("sgr/f30k-lseh", (32, 64, 128)),
        ("scan/f30k-benchmark-ti-lse", (32, 64, 128)))
    for name, flag, values in (("batch", "", batches), ("regions", "--regions", (36, 72, 144)),
                               ("words", "--lengths", (10, 20, 40)), ("vocabulary", "--vocab-size", (8481, 33924)))]


def run(command):
    """Standard output of a command, and the seconds that it took."""
    start = time.monotonic()
    p = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if p.returncode:
        raise SystemExit("%s: exit %d\n%s" % (" ".join(command), p.returncode, p.stderr.strip()[-1500:]))
    return p.stdout, time.monotonic() - start


def settings(pairs):
    return [x for p in pairs for x in ("--set", p)]


def ours_step(binary, config, batch, precision, sets, flags=()):
    out, _ = run([binary, "bench", "--config", config, "--steps", "3", "--warmup", "1", "--json", *flags]
                 + settings(["train.batch=%d" % batch, "device.kind=cpu", "device.precision=" + precision] + sets))
    r = json.loads(out)
    return {"ms": r["step_ms"]["median"], "share": r["fraction_of_gemm_peak"], "mb": r["peak_memory_mb"]}


def peer_step(network, batch, precision):
    loss = ["--loss", "lseh"] if network in ("vsrn", "vsepp", "sgr") else []
    out, _ = run([sys.executable, os.path.join(HERE, "torch_peer.py"), "--network", network, "--batch", str(batch), "--dtype",
                  precision, "--steps", "3", "--warmup", "1", "--gemm-seconds", "0.1"] + loss)
    r = json.loads(out.splitlines()[-1])
    return {"ms": r["step_ms"]["median"], "mb": r["peak_memory_mb"]}


def ours_scores(binary, config, folder):
    """Milliseconds of eval; the network has taken one step."""
    data, trained = os.path.join(folder, "data"), os.path.join(folder, config.partition("/")[0])
    if not os.path.exists(data):
        run([binary, "data", "synth", data, "--train", "20", "--dev", "4", "--test", "60", "--regions", "36", "--dim", "64"])
    if not os.path.exists(trained):
        run([binary, "train", "--config", config, "--run", trained] + settings(
            ["data.dir=" + data, "loss.name=lmh", "train.max_steps=1", "train.batch=4", "train.val_step=0", "device.kind=cpu",
             "run.tensorboard=false"]))
    return {"ms": 1000 * run([binary, "eval", trained, "--device", "cpu"])[1]}


def growth(binary, names, sets):
    """Prints a row for each network and what is changed: milliseconds and MB for each value."""
    print("| network | changed | values | ms | MB |")
    print("|---|---|---|---|---|")
    for config, name, flag, values in GROWTH:
        if names and not config.startswith(names):
            continue
        rows = [ours_step(binary, config, v if name == "batch" else 64, "fp32", sets, () if name == "batch" else (flag, str(v)))
                for v in values]
        print("| %s | %s | %s | %s | %s |" % (config.partition("/")[0], name, ", ".join(map(str, values)), *(
            ", ".join("%.0f" % r[k] for r in rows) for k in ("ms", "mb"))), flush=True)


def median(rows, key):
    values = [r[key] for r in rows if r.get(key)]
    return statistics.median(values) if values else None


def text(value, form="%.0f"):
    return "-" if value is None else form % value


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--old", help="a build to compare with")
    p.add_argument("--new", default=os.path.join(HERE, "..", "bin", "vsetrain"))
    p.add_argument("--peer", action="store_true", help="time PyTorch too")
    p.add_argument("--growth", action="store_true", help="time what a step grows with instead")
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--only", default="", help="rows whose configuration begins with one of these names, with commas between")
    p.add_argument("--set", action="append", default=[], metavar="key=value", help="a setting of the steps")
    o = p.parse_args()
    builds = [b for b in (o.old, o.new) if b]
    for b in builds:
        if not os.access(b, os.X_OK):
            p.error("%s is no program: make build makes bin/vsetrain" % b)
    load = os.getloadavg()[0]
    if load > 0.5:
        print("bench_table: load average %.1f: something else runs, and the figures are not to be believed" % load, file=sys.stderr)
    names = tuple(n for n in o.only.split(",") if n)
    if o.growth:
        growth(o.new, names, o.set)
        return
    rows = [r for r in STEPS if r[2].startswith(names)] if names else STEPS
    scores = [r for r in SCORES if r[1].startswith(names)] if names else SCORES
    seen = {}
    with tempfile.TemporaryDirectory(prefix="bench-table-") as folder:
        for i in range(o.rounds):
            for name, network, config, batch, precision in rows:
                key = (name, precision)
                for who, b in zip(("old", "new") if o.old else ("new",), builds):
                    seen.setdefault((key, who), []).append(ours_step(b, config, batch, precision, o.set))
                if o.peer:
                    seen.setdefault((key, "peer"), []).append(peer_step(network, batch, precision))
                print("round %d of %d: %s, %s" % (i + 1, o.rounds, name, precision), file=sys.stderr)
            for name, config in scores:
                for who, b in zip(("old", "new") if o.old else ("new",), builds):
                    own = os.path.join(folder, who)
                    os.makedirs(own, exist_ok=True)
                    seen.setdefault(((name, "fp32"), who), []).append(ours_scores(b, config, own))
                print("round %d of %d: %s" % (i + 1, o.rounds, name), file=sys.stderr)
    print("| | precision | old, ms | new, ms | old / new | PyTorch, ms | PyTorch / new | % of the peak | MB |")
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|")
    for key in [(r[0], r[4]) for r in rows] + [(r[0], "fp32") for r in scores]:
        old, new, peer = (median(seen.get((key, who), []), "ms") for who in ("old", "new", "peer"))
        share = median(seen[key, "new"], "share")
        print("| %s | %s | %s | %s | %s | %s | %s | %s | %s |" % (
            key + (text(old), text(new), text(old and old / new, "%.2f"), text(peer), text(peer and peer / new, "%.2f"),
                   text(share and 100 * share), text(median(seen[key, "new"], "mb")))))


if __name__ == "__main__":
    main()
