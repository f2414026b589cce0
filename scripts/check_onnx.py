#!/usr/bin/env python3
"""Compare the encoders that `vsetrain export --onnx` wrote with the program itself.

usage: check_onnx.py DIR --run RUN --data DATA [--split test] [--vsetrain vsetrain] [--tolerance 1e-5]

The ONNX models embed the images and captions of a split with ONNX Runtime, in batches of several sizes whose captions
have different lengths; `vsetrain embed` embeds the same. Every component must agree. Captions are compared that are plain
words of ASCII letters with or without a full stop, which need no more than the tokeniser below. Needs onnxruntime and
numpy; where the package onnx is there too, its checker looks at the models.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime

# words that word_tokenize cuts in two
CUT = re.compile(r"\b(cannot|gimme|gonna|gotta|lemme|wanna)\b", re.IGNORECASE)


def session(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def embed(program, arguments, folder, of):
    out = os.path.join(folder, of + ".npy")
    done = subprocess.run([program, "embed", *arguments, "--of", of, "--out", out], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{program} embed: {done.stderr.strip()}")
    return np.load(out)


def images(folder, how, features, batch):
    s = session(os.path.join(folder, how["file"]))
    return np.concatenate([s.run([how["output"]], {how["input"]: features[i:i + batch]})[0]
                           for i in range(0, len(features), batch)])


def captions(folder, how, pad, ids, batch):
    s, out = session(os.path.join(folder, how["file"])), []
    for i in range(0, len(ids), batch):
        part = ids[i:i + batch]
        lengths = np.array([len(x) for x in part], np.int64)
        words = np.full((len(part), lengths.max()), pad, np.int64)
        for row, x in zip(words, part):
            row[:len(x)] = x
        out.append(s.run([how["output"]], {how["ids"]: words, how["lengths"]: lengths})[0])
    return np.concatenate(out)


def encoder(folder, how):
    """The function from a plain caption to its ids."""
    path = os.path.join(folder, how["vocabulary"])
    with open(path, encoding="utf-8") as f:
        if not path.endswith(".json"):
            pieces = {line.rstrip("\n"): i for i, line in enumerate(f)}
        else:
            pieces = None
            words = json.load(f)["word2idx"]

    def word_pieces(word):
        out, at = [], 0
        while at < len(word):
            for end in range(len(word), at, -1):
                piece = ("##" if at else "") + word[at:end]
                if piece in pieces:
                    out.append(pieces[piece])
                    break
            else:
                return [how["unknown_id"]]
            at = end
        return out

    def encode(caption):
        out = [how["start_id"]]
        for word in re.findall(r"[a-z]+|\.", caption.lower()):
            out += word_pieces(word) if pieces is not None else [words.get(word, how["unknown_id"])]
        return out + [how["end_id"]]

    return encode


def worst(name, got, want, tolerance):
    difference = float(np.abs(got.astype(np.float64) - want).max()) if got.shape == want.shape else float("inf")
    print(f"{name}: largest difference {difference:.2e}")
    return difference <= tolerance  # false for NaN too


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("dir")
    p.add_argument("--run", required=True, help="run directory or checkpoint that was exported")
    p.add_argument("--data", required=True, help="data set to embed")
    p.add_argument("--split", default="test")
    p.add_argument("--vsetrain", default="vsetrain", help="the program")
    p.add_argument("--tolerance", type=float, default=1e-5)
    o = p.parse_args()

    with open(os.path.join(o.dir, "preprocessing.json"), encoding="utf-8") as f:
        how = json.load(f)
    good = True
    try:
        import onnx
        for part in ("image", "caption"):
            onnx.checker.check_model(os.path.join(o.dir, how[part]["file"]), full_check=True)
        print("onnx.checker: both models are valid")
    except ImportError:
        print("onnx.checker: not run, the package onnx is missing")

    with open(os.path.join(o.data, o.split + "_caps.txt"), encoding="utf-8") as f:
        texts = [line.strip() for line in f]
    plain = [i for i, t in enumerate(texts) if re.fullmatch(r"[A-Za-z ]+\.?", t) and not CUT.search(t)]
    encode = encoder(o.dir, how["tokenisation"])
    ids = [encode(texts[i]) for i in plain]
    if not ids:
        sys.exit(f"{o.data}: split {o.split} has no caption of plain words")
    print(f"{len(ids)} of {len(texts)} captions are compared, of {min(map(len, ids))} to {max(map(len, ids))} ids")
    features = np.load(os.path.join(o.data, o.split + "_ims.npy")).astype(np.float32)
    if features.ndim == 2:
        features = features[:, None]
    with tempfile.TemporaryDirectory() as folder:
        arguments = [o.run, "--data", o.data, "--split", o.split]
        want = embed(o.vsetrain, arguments, folder, "images")
        features = features[::len(features) // len(want)]
        for batch in (1, 3, 64):
            good &= worst(f"images, batches of {batch}", images(o.dir, how["image"], features, batch), want, o.tolerance)
        want = embed(o.vsetrain, arguments, folder, "captions")[plain]
        for batch in (1, 5, 128):
            got = captions(o.dir, how["caption"], how["tokenisation"]["pad_id"], ids, batch)
            good &= worst(f"captions, batches of {batch}", got, want, o.tolerance)
    if not good:
        sys.exit(f"FAILED: a difference of more than {o.tolerance:g}")


if __name__ == "__main__":
    main()
