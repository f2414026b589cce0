"""Write the small files of testdata/files.zip, and data/text/testdata/vocabularies.pkls, that PyTorch, NumPy and CPython produce.

The Go tests read them and need no Python. Every number follows a formula that the tests repeat, so that
there is nothing to keep in step. Run from the top of the repository:

    python scripts/make_torch_fixtures.py

Made with PyTorch 2.x and NumPy 2.x; the files do not depend on random numbers.
"""

import argparse
import collections
import glob
import os
import pickle
import random
import shutil
import struct
import sys
import tempfile
import types
import zipfile

import numpy as np
import torch


ARCHIVE = os.path.join("testdata", "files.zip")
OUT = tempfile.mkdtemp()


def folder(package):
    path = os.path.join(OUT, package)
    os.makedirs(path, exist_ok=True)
    return path


def pack():
    """Replaces the files of the archive that were made; others stay. The same files give the same bytes."""
    files = {}
    if os.path.exists(ARCHIVE):
        with zipfile.ZipFile(ARCHIVE) as z:
            files = {name: z.read(name) for name in z.namelist()}
    for path in glob.glob(os.path.join(OUT, "*", "*")):
        with open(path, "rb") as f:
            files[os.path.relpath(path, OUT).replace(os.sep, "/")] = f.read()
    with zipfile.ZipFile(ARCHIVE, "w") as z:
        for name in sorted(files):
            z.writestr(zipfile.ZipInfo(name), files[name])
    shutil.rmtree(OUT)


class Vocabulary(object):
    """The class VSE++ pickles; its module must be __main__."""

    def __init__(self):
        self.word2idx = {}
        self.idx2word = {}
        self.idx = 0

    def add_word(self, word):
        if word not in self.word2idx:
            self.word2idx[word] = self.idx
            self.idx2word[self.idx] = word
            self.idx += 1


def pickles():
    out = folder("pickle")
    plain = {
        "none": None,
        "bools": [True, False],
        "ints": [0, 255, 256, 65535, 65536, -1, -129, 2**31, -2**63, 2**63, 2**70, -2**70],
        "floats": [0.5, -1e300, float("inf")],
        "text": "naïve ‘word’ 日本 \\u0041 \n\r\0",
        "bytes": b"\x00\xff",
        "empty bytes": b"",
        "tuples": ((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)),
        "set": {7},
        "frozen": frozenset([8]),
        "ordered": collections.OrderedDict([("z", 1), ("a", 2)]),
        3: "int key",
        "long": "x" * 300,
        "namespace": argparse.Namespace(margin=0.2, data_name="f8k"),
        "np": [np.float32(2.5), np.float64(-0.1), np.int64(-3), np.uint8(200), np.bool_(True)],
        "array": np.arange(6, dtype=np.float32).reshape(2, 3),
    }
    plain["again"] = plain["ordered"]
    for protocol in range(5):
        with open(os.path.join(out, f"plain_p{protocol}.pkl"), "wb") as f:
            pickle.dump(plain, f, protocol=protocol)
    numbers = []  # each with its value as a float
    for code in "? i1 u1 i2 u2 i4 u4 i8 u8 f2 f4 f8 g".split():
        for value in (0, 1) if code == "?" else (0, 1, 100) if code[0] == "u" else (0, 1, -100, 0.5) if code[0] in "fg" else (0, -100, 100):
            one = np.dtype(code).type(value)
            numbers += [(float(one), one), (float(one), np.array(one)), (float(one), np.array([one], dtype=np.dtype(code).newbyteorder(">")))]
    other = [np.str_("t2i"), np.str_(""), np.bytes_(b"t2i"), np.array("é\U0001f600"), np.array("ab", dtype=">U2"), np.complex64(1), np.datetime64("2020-01-01")]
    for protocol in (2, 4, 5):
        with open(os.path.join(out, f"scalars_p{protocol}.pkl"), "wb") as f:
            pickle.dump((numbers, other), f, protocol=protocol)
    vocab = Vocabulary()
    for word in ["<pad>", "<start>", "<end>", "<unk>", "dog", "café"]:
        vocab.add_word(word)
    Vocabulary.__module__ = "__main__"
    sys.modules["__main__"].Vocabulary = Vocabulary
    for protocol in (0, 2, 4):
        with open(os.path.join(out, f"vocab_p{protocol}.pkl"), "wb") as f:
            pickle.dump(vocab, f, protocol=protocol)


def vocabularies():
    """Pickles of one vocabulary in many forms, each behind its length in four bytes."""
    words = "<pad> <start> <end> <unk> dog runs . the".split()
    rng = random.Random(50)
    forms = [dict, collections.OrderedDict, collections.Counter, lambda d: collections.defaultdict(int, d)]
    with open(os.path.join("data", "text", "testdata", "vocabularies.pkls"), "wb") as f:
        for i in range(60):
            number = rng.choice([int, int, np.int64, np.int32, np.uint16])
            text = rng.choice([str, str, str.encode])
            form = rng.choice(forms)
            to_id = form({text(w): number(k) for k, w in enumerate(words)})
            to_word = rng.choice([rng.choice(forms)({number(k): text(w) for k, w in enumerate(words)}), [text(w) for w in words]])
            module, name = rng.choice(["__main__", "vocab", "build_vocab", "lib.vocab", "a.b.c"]), rng.choice(["Vocabulary", "Vocab", "words"])
            for k in range(module.count(".") + 1):
                sys.modules.setdefault(module.rsplit(".", k)[0], types.ModuleType(module))
            kind = rng.choice(["plain", "slots", "state", "dict", "bare", "list"])
            members = {"word2idx": to_id, "idx2word": to_word, "idx": number(len(words))}
            namespace = {"__module__": module, "__qualname__": name}
            if kind == "slots":
                namespace["__slots__"] = list(members)
                namespace["__getstate__"] = lambda self: (None, {k: getattr(self, k) for k in self.__slots__})
            if kind == "state":
                namespace["__getstate__"] = lambda self: dict(self.__dict__, version=2)
                namespace["__setstate__"] = lambda self, state: self.__dict__.update(state)
            cls = type(name, (dict,) if kind == "dict" else (object,), namespace)
            setattr(sys.modules[module], name, cls)
            value = cls()
            if kind == "dict":
                value.update(members)
            elif kind == "bare":
                value = rng.choice([members, to_id])
            elif kind == "list":
                value = rng.choice([list, tuple])(map(text, words))
            else:
                for k, v in members.items():
                    setattr(value, k, v)
            b = pickle.dumps(value, protocol=i % 6)
            f.write(struct.pack("<I", len(b)) + b)


def arrays():
    out = folder("npy")
    ramp = (np.arange(24).reshape(2, 3, 4) - 5) / 4
    for name, dtype in [("f4", "<f4"), ("f2", "<f2"), ("f8", "<f8"), ("big", ">f4")]:
        np.save(os.path.join(out, name), ramp.astype(dtype))
    for name, dtype in [("i4", "<i4"), ("i8", "<i8"), ("u1", "|u1")]:
        np.save(os.path.join(out, name), np.arange(6).reshape(3, 2).astype(dtype))
    np.save(os.path.join(out, "fortran"), np.asfortranarray(ramp.astype("<f4")))
    with open(os.path.join(out, "version2.npy"), "wb") as f:
        np.lib.format.write_array(f, ramp.astype("<f4"), version=(2, 0))
    sizes = np.array([{"image_w": 640 + i, "image_h": np.int64(480 - i)} for i in range(3)], dtype=object)
    np.save(os.path.join(out, "sizes"), sizes, allow_pickle=True)
    with open(os.path.join(out, "sizes_p2.npy"), "wb") as f:
        np.lib.format.write_array_header_1_0(f, np.lib.format.header_data_from_array_1_0(sizes))
        pickle.dump(sizes, f, protocol=2)


def ramp(*shape, dtype=torch.float32, shift=0.0):
    """The tensor with elements (i - 3) / 8 + shift, i counting in C order."""
    n = int(np.prod(shape))
    return ((torch.arange(n, dtype=torch.float64) - 3) / 8 + shift).to(dtype).reshape(shape)


def checkpoints():
    out = folder("torchfile")
    image = collections.OrderedDict([("fc.weight", ramp(4, 3)), ("fc.bias", ramp(4, shift=1))])
    text = collections.OrderedDict(
        [("embed.weight", ramp(5, 2)), ("rnn.weight_ih_l0", ramp(12, 2)), ("rnn.bias_ih_l0", ramp(12))]
    )
    image._metadata = collections.OrderedDict([("", {"version": 1})])
    checkpoint = {
        "epoch": 7,
        "model": [image, text],
        "best_rsum": np.float64(387.25),
        "opt": argparse.Namespace(margin=0.2, embed_size=4, data_name="f8k_precomp", no_imgnorm=False, resume=""),
        "Eiters": 1234,
    }
    base = ramp(3, 4)
    shared = {
        "base": base,
        "transposed": base.t(),
        "row": base[1],
        "column": base[:, 2],
        "expanded": ramp(1, 3).expand(2, 3),
        "parameter": torch.nn.Parameter(ramp(2)),
        "scalar": torch.tensor(2.5),
        "empty": torch.zeros(0, 3),
        "size": torch.Size([2, 3]),
        "dtype": torch.float16,
        "device": torch.device("cpu"),
    }
    by_type = {
        str(dtype).split(".")[1]: torch.arange(5).to(dtype)
        for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64, torch.int32,
                      torch.int16, torch.int8, torch.uint8, torch.bool)
    }
    unsigned = {"uint16": torch.tensor([1, 65535], dtype=torch.uint16)}  # rebuilt by version 3, from untyped storages
    for name, value in [("checkpoint", checkpoint), ("shared", shared), ("types", by_type), ("unsigned", unsigned)]:
        torch.save(value, os.path.join(out, name + "_zip.pth"))
        torch.save(value, os.path.join(out, name + "_legacy.pth"), _use_new_zipfile_serialization=False)


if __name__ == "__main__":
    pickles()
    vocabularies()
    arrays()
    checkpoints()
    pack()
