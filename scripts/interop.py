#!/usr/bin/env python3
"""What Python packages read of a run of vsetrain, and how far it is from what vsetrain itself says.

usage: interop.py PROGRAM, in a folder that scripts/interop.sh has made: a data set `world` and a finished run `run`.
"""
import contextlib
import importlib.metadata
import importlib.util
import json
import os
import socket
import subprocess
import sys
import time

program = os.path.abspath(sys.argv[1])
here = os.path.dirname(os.path.abspath(__file__))


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


def numpy_():
    """recalls computed from embeddings, beside those of `eval`"""
    import numpy as np
    images, captions = np.load("images.npy"), np.load("captions.npy")
    scores = images @ captions.T
    n, k = len(images), len(captions) // len(images)
    own = scores.reshape(n, n, k)[np.arange(n), np.arange(n)]
    i2t = (scores > own.max(1)[:, None]).sum(1)
    t2i = (scores > own.reshape(1, -1)).sum(0)
    recalls = [100 * np.mean(r < at) for r in (i2t, t2i) for at in (1, 5, 10)]
    return abs(np.mean(recalls) - json.load(open("test.json"))["m_recall"]), 1e-6


def safetensors():
    """every weight of best.safetensors, beside the PyTorch export"""
    import torch
    from safetensors.numpy import load_file
    weights = load_file("run/checkpoints/best.safetensors")
    groups = torch.load("export.pth.tar", weights_only=False)["model"]
    exported = [t.numpy() for group in groups for t in group.values()]
    found = 0.0
    for t in exported:
        same = [w for w in weights.values() if w.shape == t.shape]
        found = max(found, min(largest(w, t) for w in same))
    return found, 0


def torch():
    """the exported checkpoint, read back by vsetrain: the same recalls"""
    import torch as t
    t.load("export.pth.tar", weights_only=False)
    vsetrain("eval", "export.pth.tar", "--data", "world", "--vocab", "run/vocab.json", "--json", "again.json")
    return abs(json.load(open("again.json"))["m_recall"] - json.load(open("test.json"))["m_recall"]), 0


def onnxruntime():
    """embeddings of the ONNX encoders, beside `embed`"""
    vsetrain("export", "run", "--onnx", "onnx")
    subprocess.run([sys.executable, os.path.join(here, "check_onnx.py"), "onnx", "--run", "run", "--data", "world",
                    "--vsetrain", program], check=True, stdout=subprocess.DEVNULL)
    import numpy as np
    import onnxruntime as ort
    session = ort.InferenceSession("onnx/image_encoder.onnx")
    features = np.load("world/test_ims.npy").astype(np.float32)
    return largest(session.run(None, {"regions": features})[0], np.load("images.npy")), 1e-5


def faiss():
    """the ten nearest captions of every image, beside a sort in NumPy"""
    import faiss as f
    import numpy as np
    images, captions = np.load("images.npy"), np.load("captions.npy")
    index = f.IndexFlatIP(captions.shape[1])
    index.add(captions)
    scores, _ = index.search(images, 10)
    return largest(scores, -np.sort(-(images @ captions.T), axis=1)[:, :10]), 1e-5


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
    needed = [(numpy_, ["numpy"]), (safetensors, ["safetensors", "torch"]), (torch, ["torch"]),
              (onnxruntime, ["onnxruntime"]), (faiss, ["faiss-cpu"]), (tensorboard, ["tensorboard"]),
              (mlflow, ["mlflow"])]
    vsetrain("eval", "run", "--json", "test.json")
    for of in ("images", "captions"):
        vsetrain("embed", "run", "--of", of, "--out", of + ".npy")
    vsetrain("export", "run", "--out", "export.pth.tar")
    print("| package | version | what it read | largest difference | allowed |\n|---|---|---|---|---|")
    failed = 0
    for check, packages in needed:
        try:
            versions = [importlib.metadata.version(p) for p in packages]
        except importlib.metadata.PackageNotFoundError as e:
            print(f"| {packages[0]} | – | left out: {e.name} is not installed | | |")
            continue
        try:
            difference, allowed = check()
        except Exception as e:  # a package that refuses a file is what this program looks for
            print(f"| {packages[0]} | {versions[0]} | {check.__doc__} | failed: {type(e).__name__}: {e} | |")
            failed += 1
            continue
        print(f"| {packages[0]} | {versions[0]} | {check.__doc__} | {difference:.1e} | {allowed:.0e} |")
        failed += difference > allowed
    if failed:
        sys.exit(f"interop: {failed} of {len(needed)} failed")


if __name__ == "__main__":
    main()
