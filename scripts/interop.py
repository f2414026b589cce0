#!/usr/bin/env python3
"""Trains a tiny network, and compares what PyTorch, TensorBoard and MLflow read of it with what vsetrain says. A package
that is missing is left out. What NumPy, FAISS, ONNX Runtime and safetensors read is compared by check_*.py.

usage: interop.py [PROGRAM]      bin/vsetrain unless given
"""
import contextlib
import importlib.metadata
import json
import os
import socket
import subprocess
import sys
import tempfile
import time

program = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "bin/vsetrain")


def vsetrain(*arguments):
    done = subprocess.run([program, *arguments], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"vsetrain {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def largest(a, b):
    import numpy as np
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if a.shape != b.shape:
        raise ValueError(f"shapes {a.shape} and {b.shape}")
    return float(abs(a - b).max())


def metrics():
    return [json.loads(line) for line in open("run/metrics.jsonl")]


def torch():
    """the exported checkpoint, read back by vsetrain: the same recalls"""
    import torch as t
    t.load("export.pth.tar", weights_only=False)
    vsetrain("eval", "export.pth.tar", "--data", "world", "--vocab", "run/vocab.json", "--json", "again.json")
    return abs(json.load(open("again.json"))["m_recall"] - json.load(open("test.json"))["m_recall"]), 0


def tensorboard():
    """every M-Recall of the event file, beside metrics.jsonl"""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    events = EventAccumulator("run", size_guidance={"scalars": 0})
    events.Reload()
    tag = next(t for t in events.Tags()["scalars"] if "m_recall" in t)
    wanted = [(r["step"], r["m_recall"]) for r in metrics() if r["kind"] == "val"]
    return largest([(e.step, e.value) for e in events.Scalars(tag)], wanted), 1e-5


def mlflow():
    """every M-Recall that a tracking server has, beside metrics.jsonl"""
    from mlflow.tracking import MlflowClient
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    server = subprocess.Popen([sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port),
                               "--backend-store-uri", "sqlite:///mlflow.db", "--workers", "1"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            if server.poll() is not None:
                raise RuntimeError(f"mlflow server ended with {server.returncode}")
            time.sleep(0.5)
        vsetrain("track", "run", "--mlflow", url)
        client = MlflowClient(url)
        run = json.load(open("run/mlflow.json"))["run"]["run_id"]
        name = next(n for n in client.get_run(run).data.metrics if "m_recall" in n)
        history = client.get_metric_history(run, name)
        wanted = [(r["step"], r["m_recall"]) for r in metrics() if r["kind"] == "val"]
        return largest(sorted((m.step, m.value) for m in history), wanted), 1e-9
    finally:
        server.terminate()
        server.wait()


def main():
    world = "world --train 200 --dev 20 --test 40 --regions 6 --dim 32"
    vsetrain("data", "synth", *world.split())
    vsetrain("precompute-svd", "--data", "world", "--k", "20")
    vsetrain("train", "--config", "demo", "--set", "data.dir=world", "--set", "model.embed_dim=32", "--set",
             "model.word_dim=16", "--set", "train.epochs=2", "--run", "run")
    vsetrain("eval", "run", "--json", "test.json")
    vsetrain("export", "run", "--out", "export.pth.tar")
    print("| package | version | what it read | largest difference | allowed |\n|---|---|---|---|---|")
    failed = 0
    for check, package in (torch, "torch"), (tensorboard, "tensorboard"), (mlflow, "mlflow"):
        try:
            version = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            print(f"| {package} | – | left out: it is not installed | | |")
            continue
        try:
            difference, allowed = check()
        except Exception as e:  # a package that refuses a file is what this program looks for
            print(f"| {package} | {version} | {check.__doc__} | failed: {type(e).__name__}: {e} | |")
            failed += 1
            continue
        print(f"| {package} | {version} | {check.__doc__} | {difference:.1e} | {allowed:.0e} |")
        failed += difference > allowed
    if failed:
        sys.exit(f"interop: {failed} failed")


with tempfile.TemporaryDirectory() as work, contextlib.chdir(work):
    main()
