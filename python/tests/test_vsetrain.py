"""Tests of the Python package with the files of a run: python -m unittest, in a folder that holds them.

The folder has runs/demo, scores.npy, ranks.csv, test.json, images.npy, captions.npy and captions.safetensors, which the
program wrote (cmd/vsetrain/testdata/script/python_package.txtar).
"""

import contextlib
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import vsetrain  # noqa: E402


class Models(unittest.TestCase):
    """The answers of a network that is open are those of the commands."""

    def test_model(self):
        with vsetrain.load("runs/demo") as model:
            self.assertEqual(repr(model), "Model('runs/demo': vsepp, 12 images of test)")
            captions = Path("world/test_caps.txt").read_text().splitlines()
            encoded = model.encode(captions)
            np.testing.assert_allclose(encoded, np.load("captions.npy"), atol=1e-6)
            np.testing.assert_allclose(model.encode(captions[0]), encoded[0], atol=1e-6)
            features = np.load("world/test_ims.npy")
            images = model.encode(features)
            np.testing.assert_allclose(images, np.load("images.npy"), atol=1e-6)
            np.testing.assert_allclose(model.encode(features[3]), images[3], atol=1e-6)
            self.assertEqual(model.encode([]).shape, (0, 8))
            hits = model.search(captions[7], k=4)
            scores = np.load("scores.npy")[:, 7]
            self.assertEqual([h.image for h in hits], np.argsort(-scores)[:4].tolist())
            np.testing.assert_allclose([h.score for h in hits], np.sort(scores)[::-1][:4], atol=1e-6)
            self.assertEqual(hits[0].captions, [captions[5 * hits[0].image]])
            self.assertEqual([h.id for h in model.search(encoded[7], k=4)], [h.id for h in hits])
            self.assertEqual(model.rank(np.load("scores.npy")).m_recall, json.loads(Path("test.json").read_text())["m_recall"])
            with self.assertRaisesRegex(ValueError, "k: expected 1 to"):
                model.search("a dog", k=0)
            self.assertEqual(len(model.search("a dog", k=2)), 2)
            model.info["limits"]["max_items"] = 7  # several requests
            np.testing.assert_allclose(model.encode(captions), encoded, atol=1e-6)
        with self.assertRaisesRegex(ValueError, "closed"):
            model.search("a dog")

    def test_mistakes(self):
        with self.assertRaisesRegex(RuntimeError, "checkpoint runs/nosuch: no such file"):
            vsetrain.load("runs/nosuch")
        with vsetrain.load("runs/demo") as model:
            with self.assertRaisesRegex(ValueError, "no words"):
                model.encode([""])
            before = model.encode("a dog")
            model._process.kill()
            with self.assertRaisesRegex(RuntimeError, "ended with code .* the next question starts it again"):
                model.search("a dog")
            np.testing.assert_array_equal(model.encode("a dog"), before)
            with self.assertRaises(ValueError):
                model.search("a dog " * 300_000)  # the server ends a connection with so much on it
            np.testing.assert_array_equal(model.encode("a dog"), before)
            model.info["checkpoints"] = ["another one"]
            model._process.kill()
            for _ in range(2):
                with self.assertRaisesRegex(RuntimeError, "ended with code|have changed since"):
                    model.encode("a dog")

    def test_inputs(self):
        captions = ["a red ball", "a dog", "two men"]
        features = np.load("world/test_ims.npy")[:3]
        with vsetrain.load("runs/demo") as model:
            truth, images = model.encode(captions), model.encode(features)
            given = [tuple(captions), np.array(captions), np.array(captions, object), (c for c in captions),
                     dict.fromkeys(captions).keys(), map(str, captions)]
            with contextlib.suppress(ImportError):
                import pandas
                given.append(pandas.Series(captions, index=[4, 9, 2]))
            for x in given:
                np.testing.assert_array_equal(model.encode(x), truth, type(x).__name__)
            for x in features.tolist(), list(features), features.astype(np.float64), (f for f in features):
                np.testing.assert_allclose(model.encode(x), images, atol=1e-6)
            for x in (b"a dog", {"a dog"}, {"a dog": 1}, 7, None, Path("a dog"), [b"a dog"], [None], [1, 2], 1.5,
                      ["a dog", None], ["a dog", float("nan")], np.array("a dog"), [[1, 2], [3]], features[None]):
                with self.assertRaisesRegex(TypeError, r"expected captions \(a list of strings\) or features"):
                    model.encode(x)
            self.assertEqual(model.search("a dog", k=np.int64(2)), model.search(np.str_("a dog"), k=2))
            self.assertEqual(model.search(truth[1].tolist(), k=2), model.search(truth[1], k=np.uint8(2)))
            for x in captions, captions[:1], truth, None, b"a dog", 7, {"a dog"}:
                with self.assertRaisesRegex(TypeError, r"expected a caption \(a string\) or an embedding \[E\]"):
                    model.search(x)
            with self.assertRaisesRegex(TypeError, "integer"):
                model.search("a dog", k=2.5)


class Shared(unittest.TestCase):
    """Whoever asks gets the answer to his own question: threads, interrupts, forks and close in any order."""

    def setUp(self):
        self.draw = random.Random(7)
        self.captions = Path("world/test_caps.txt").read_text().splitlines()[:12]
        self.wrong = []

    def open(self):
        model = vsetrain.load("runs/demo")
        self.addCleanup(model.close)
        self.truth = model.encode(self.captions)
        self.hits = [model.search(c, k=3) for c in self.captions]
        return model

    def ask(self, model, draw):
        i = draw.randrange(len(self.captions))
        if draw.random() < 0.5:
            ok = np.array_equal(model.encode(self.captions[i]), self.truth[i])
        else:
            ok = model.search(self.captions[i], k=3) == self.hits[i]
        if not ok:
            self.wrong.append(i)

    @contextlib.contextmanager
    def threads(self, model, n):
        """n threads that ask all the time; what ends one, beside a model that is closed, is wrong."""
        over = threading.Event()

        def work(seed):
            draw = random.Random(seed)
            while not over.is_set():
                try:
                    self.ask(model, draw)
                except ValueError as e:
                    if "closed" not in str(e):
                        self.wrong.append(e)
                    return
                except BaseException as e:
                    self.wrong.append(e)
                    return

        all = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(n)]
        for t in all:
            t.start()
        try:
            yield
        finally:
            over.set()
            for t in all:
                t.join(20)
            self.assertFalse(any(t.is_alive() for t in all), "a thread hangs")
            self.assertEqual(self.wrong, [])

    @unittest.skipUnless(hasattr(signal, "setitimer"), "no timers here")
    def test_interrupts(self):
        class Interrupt(BaseException):
            pass

        asking = []

        def interrupt(*_):
            if asking:
                raise Interrupt

        self.addCleanup(signal.signal, signal.SIGALRM, signal.signal(signal.SIGALRM, interrupt))
        model = self.open()
        interrupted = 0
        for n in 0, 3:
            with self.threads(model, n):
                for k in range(40):
                    # from before the first byte to after the answer, and at times while the program starts again
                    signal.setitimer(signal.ITIMER_REAL, self.draw.choice([2e-4, 2e-3, 2e-2]) * self.draw.random())
                    if k % 10 == 0:  # an answer that takes its time
                        os.kill(model._process.pid, signal.SIGSTOP)
                        signal.setitimer(signal.ITIMER_REAL, 0.05)
                    try:
                        asking.append(1)
                        self.ask(model, self.draw)
                    except Interrupt:
                        interrupted += 1
                    finally:
                        asking.clear()
                        signal.setitimer(signal.ITIMER_REAL, 0)
                    if k % 10 == 0:
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(model._process.pid, signal.SIGCONT)
                    if k % 2:
                        self.ask(model, self.draw)
        self.assertGreater(interrupted, 10)

    @unittest.skipUnless(hasattr(signal, "setitimer"), "no timers here")
    def test_a_signal_handler_that_asks(self):
        model, said = self.open(), []

        def handler(*_):
            try:
                self.ask(model, self.draw)
            except RuntimeError as e:
                said.append(str(e))

        self.addCleanup(signal.signal, signal.SIGALRM, signal.signal(signal.SIGALRM, handler))
        for _ in range(30):
            signal.setitimer(signal.ITIMER_REAL, 2e-3 * self.draw.random())
            self.ask(model, self.draw)
        signal.setitimer(signal.ITIMER_REAL, 0)
        self.assertEqual(self.wrong, [])
        self.assertTrue(all("signal handler" in s for s in said), said)

    @unittest.skipUnless(hasattr(os, "fork"), "no fork here")
    def test_forks(self):
        model = self.open()
        warnings.simplefilter("ignore", DeprecationWarning)  # of fork beside threads
        children = []
        with self.threads(model, 3):
            for k in range(4):
                time.sleep(0.05 * self.draw.random())
                pid = os.fork()
                if pid == 0:
                    code = 1
                    signal.alarm(20)  # where it hangs
                    try:
                        self.wrong.clear()
                        for _ in range(5):
                            self.ask(model, random.Random(k))
                        if k % 2:
                            model.close()
                        code = 0 if not self.wrong else 2
                    finally:
                        os._exit(code)
                children.append(pid)
                self.ask(model, self.draw)
            for pid in children:
                self.assertEqual(os.waitpid(pid, 0)[1], 0)
            self.ask(model, self.draw)

    @unittest.skipUnless(hasattr(os, "fork") and hasattr(signal, "setitimer"), "no fork or no timers here")
    def test_all_at_once(self):
        """Threads that ask, interrupts, forked processes that ask and models that are closed, VSETRAIN_QUESTIONS in
        all, each answer compared with its own."""
        class Interrupt(BaseException):
            pass

        def interrupt(*_):
            if armed:
                raise Interrupt

        warnings.simplefilter("ignore", DeprecationWarning)  # of fork beside threads
        self.addCleanup(signal.signal, signal.SIGALRM, signal.signal(signal.SIGALRM, interrupt))
        total, counts, armed = int(os.environ.get("VSETRAIN_QUESTIONS") or 300), [0] * 5, []
        models = [self.open()]

        def ask(who, draw):
            try:
                self.ask(models[0], draw)
                counts[who] += 1
            except ValueError as e:
                if "closed" not in str(e):
                    raise

        def work(who):
            draw = random.Random(who)
            while sum(counts) < total and not self.wrong:
                try:
                    ask(who, draw)
                except BaseException as e:
                    self.wrong.append(e)

        threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(4)]
        for t in threads:
            t.start()
        done = dict.fromkeys(("asked", "interrupted", "forked", "closed"), 0)
        while (sum(counts) < total or min(done.values()) == 0) and not self.wrong:
            what = self.draw.choices(list(done), (20, 10, 2, 2))[0]
            if what == "interrupted":
                signal.setitimer(signal.ITIMER_REAL, self.draw.choice([2e-4, 2e-3, 2e-2]) * self.draw.random())
                try:
                    armed.append(1)
                    ask(4, self.draw)
                    what = "asked"
                except Interrupt:
                    pass
                finally:
                    armed.clear()
                    signal.setitimer(signal.ITIMER_REAL, 0)
            elif what == "forked":
                pid = os.fork()
                if pid == 0:
                    signal.alarm(60)  # where it hangs
                    try:
                        self.ask(models[0], random.Random(sum(counts)))
                        os._exit(2 if self.wrong else 0)
                    finally:
                        os._exit(1)
                if os.waitpid(pid, 0)[1] != 0:
                    self.wrong.append("of a forked process")
                counts[4] += 1
            elif what == "closed":
                old, models[0] = models[0], vsetrain.load("runs/demo")
                self.addCleanup(models[0].close)
                start = time.monotonic()
                old.close()
                if time.monotonic() - start > 2:  # a second on an idle machine
                    self.wrong.append("close takes long")
            else:
                ask(4, self.draw)
            done[what] += 1
        for t in threads:
            t.join(60)
        self.assertFalse(any(t.is_alive() for t in threads), "a thread hangs")
        self.assertEqual(self.wrong, [])

    def test_close(self):
        for stopped in False, True:
            model = self.open()
            with self.threads(model, 4):
                time.sleep(0.1)
                if stopped and hasattr(signal, "SIGSTOP"):
                    os.kill(model._process.pid, signal.SIGSTOP)
                    time.sleep(0.05)
                start = time.monotonic()
                model.close()
                self.assertLess(time.monotonic() - start, 1)
            model.close()
            self.assertIsNotNone(model._process.returncode)
            with self.assertRaisesRegex(ValueError, "closed"):
                model.encode("a dog")


class Runs(unittest.TestCase):
    def setUp(self):
        self.run_ = vsetrain.Run("runs/demo")

    def test_validations(self):
        curve = self.run_.validations
        self.assertEqual(curve["m_recall"].shape, curve["epoch"].shape)
        self.assertEqual(curve["step"].dtype, np.int64)
        self.assertEqual(curve["best"].dtype, bool)
        self.assertEqual(curve["m_recall"].max(), self.run_.best["m_recall"])
        six = [curve[f"{d}_r{k}"] for d in ("i2t", "t2i") for k in (1, 5, 10)]
        np.testing.assert_allclose(np.mean(six, axis=0), curve["m_recall"])

    def test_config_without_yaml(self):
        with unittest.mock.patch.dict(sys.modules, {"yaml": None}):
            with self.assertRaisesRegex(ImportError, "pip install pyyaml"):
                self.run_.config

    def test_train(self):
        steps = self.run_.train
        self.assertTrue(np.all(np.diff(steps["step"]) > 0))
        self.assertTrue(np.all(np.isfinite(steps["loss"])))
        self.assertNotIn("kind", steps)

    def test_a_line_that_is_being_written(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "config.yaml").touch()
            (Path(folder) / "metrics.jsonl").write_text('{"kind":"train","step":1}\n{"kind":"tr')
            self.assertEqual(vsetrain.Run(folder).train["step"].tolist(), [1])
            (Path(folder) / "metrics.jsonl").write_text('{"kind":"train","step":1}\n{"kind":"tr\n')
            with self.assertRaisesRegex(ValueError, "metrics.jsonl:2: "):
                vsetrain.Run(folder).train
            (Path(folder) / "metrics.jsonl").write_text(
                '{"kind":"train","a":1,"b":"x"}\n{"kind":"train","a":0.5,"c":true}\n')
            columns = vsetrain.Run(folder).train
            self.assertEqual(columns["a"].tolist(), [1, 0.5])
            self.assertEqual(columns["b"].tolist(), ["x", None])
            self.assertIsNone(vsetrain.Run(folder).best)
            self.assertIsNone(vsetrain.Run(folder).test)

    def test_what_else_a_run_has(self):
        self.assertEqual(self.run_.name, "demo")
        self.assertIn("train", self.run_.sessions[0]["command"])
        self.assertIn("<unk>", self.run_.vocabulary)
        weights = self.run_.weights()
        self.assertEqual(weights["img.fc.weight"].dtype, np.float32)
        self.assertEqual(weights["img.fc.weight"].ndim, 2)
        self.assertTrue(any(name.startswith("optim/") for name in self.run_.weights("last")))
        self.assertEqual([r.path for r in vsetrain.find_runs(".")], [Path("runs/demo")])
        with self.assertRaisesRegex(FileNotFoundError, "no run directory"):
            vsetrain.Run("runs")

    def test_config(self):
        try:
            import yaml  # noqa: F401
        except ImportError:
            self.skipTest("PyYAML is missing")
        self.assertEqual(self.run_.config["model"]["embed_dim"], 8)
        self.assertIsInstance(self.run_.config["optim"]["lr"], float)


class Files(unittest.TestCase):
    def test_embeddings(self):
        images, captions = vsetrain.read_embeddings("images.npy"), vsetrain.read_embeddings("captions.npy")
        self.assertEqual(images.vectors.dtype, np.float32)
        self.assertTrue(images.vectors.flags.c_contiguous)
        self.assertEqual(len(captions), 5 * len(images))
        self.assertEqual(captions.ids[7], images.ids[1] + "#2")
        np.testing.assert_allclose(np.linalg.norm(images.vectors, axis=1), 1, atol=1e-6)
        np.testing.assert_allclose(images.vectors @ captions.vectors.T, vsetrain.read_scores("scores.npy"), atol=1e-5)
        other = vsetrain.read_embeddings("captions.safetensors")
        np.testing.assert_array_equal(other.vectors, captions.vectors)
        self.assertEqual(other.ids, captions.ids)

    def test_ranks(self):
        want = json.loads(Path("test.json").read_text())
        ranks = vsetrain.rank(vsetrain.read_scores("scores.npy"))
        stored = vsetrain.read_ranks("ranks.csv")
        for field in ("i2t", "t2i", "i2t_first", "t2i_first"):
            np.testing.assert_array_equal(getattr(ranks, field), getattr(stored, field), field)
        self.assertAlmostEqual(ranks.m_recall, want["m_recall"], 9)
        self.assertAlmostEqual(ranks.recalls()["i2t_r5"], want["i2t"]["r5"], 9)

        self.assertEqual(repr(ranks), f"Ranks(12 images, 60 captions, m_recall={want['m_recall']:.2f})")

    def test_a_tensor_with_a_gradient(self):
        scores = vsetrain.read_scores("scores.npy")

        class Tensor:  # as torch.Tensor: NumPy gets nothing of it before detach()
            shape, detached = scores.shape, False

            def __array__(self, *_, **__):
                raise RuntimeError("Can't call numpy() on Tensor that requires grad.")

            def __getitem__(self, _):
                return self

            def detach(self):
                self.detached = True
                return self

            def cpu(self):
                return self

            def numpy(self):
                return scores if self.detached else self.__array__()

        self.assertEqual(vsetrain.rank(Tensor()).m_recall, vsetrain.rank(scores).m_recall)

    def test_equal_scores(self):
        ranks = vsetrain.rank(np.zeros((2, 4), np.float32))
        self.assertEqual(ranks.i2t.tolist(), [2, 0])  # the larger number ranks first
        self.assertEqual(ranks.t2i.tolist(), [1, 1, 0, 0])
        self.assertEqual(ranks.i2t_first.tolist(), [3, 3])
        with self.assertRaisesRegex(ValueError, "as many captions"):
            vsetrain.rank(np.zeros((2, 3)))

    def test_damaged_files(self):
        whole = Path("captions.safetensors").read_bytes()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "x.safetensors"
            for data, message in ((b"", "no safetensors"), (whole[:100], "no safetensors"), (whole[:-1], "do not fit"),
                                  (b"\xff" * 64, "no safetensors"),
                                  (whole.replace(b'"F32"', b'"F99"'), "has the type F99")):
                path.write_bytes(data)
                with self.assertRaisesRegex(ValueError, message):
                    vsetrain.read_safetensors(path)
            (Path(folder) / "ranks.csv").write_text("direction,query,rank,top1\ni2t,0,1,2\ni2t,2,1,2\n")
            with self.assertRaisesRegex(ValueError, "ranks.csv:3: .*expected 1"):
                vsetrain.read_ranks(Path(folder) / "ranks.csv")
            path.write_bytes(whole.replace(b'#2\\"', b'#3\\"', 1))
            with self.assertRaisesRegex(ValueError, "the ids are not those .* run vsetrain embed again"):
                vsetrain.read_embeddings(path)
            for name in "images.npy", "images_ids.txt", "captions.npy", "vsetrain-manifest.json":
                (Path(folder) / name).write_bytes(Path(name).read_bytes())
            ids = Path(folder) / "images_ids.txt"
            vsetrain.read_embeddings(Path(folder) / "images.npy")
            ids.write_text("\n".join(reversed(ids.read_text().split())) + "\n")
            with self.assertRaisesRegex(ValueError, "not the ids that images.npy was written with"):
                vsetrain.read_embeddings(Path(folder) / "images.npy")
            vectors = np.load("images.npy")
            np.save(Path(folder) / "images.npy", vectors[::-1])
            with self.assertRaisesRegex(ValueError, "not the file that its manifest lists"):
                vsetrain.read_embeddings(Path(folder) / "images.npy")
            np.save(Path(folder) / "few.npy", np.zeros((3, 2), np.float32))
            (Path(folder) / "few_ids.txt").write_text("a\nb\n")
            with self.assertRaisesRegex(ValueError, "an id for each row"):
                vsetrain.read_embeddings(Path(folder) / "few.npy")

    def test_program(self):
        old, here = os.environ["PATH"], os.getcwd()
        with tempfile.TemporaryDirectory() as folder:
            fake = Path(folder) / "vsetrain"
            fake.touch(mode=0o755)
            os.environ["PATH"] = folder
            try:
                self.assertTrue(vsetrain.program().endswith("vsetrain"))
                if vsetrain.program().startswith(folder):  # none is installed
                    os.chdir(folder)
                    for path in "", ".", os.pathsep:
                        os.environ["PATH"] = path
                        with self.assertRaisesRegex(FileNotFoundError, "no program vsetrain in "):
                            vsetrain.program()
            finally:
                os.environ["PATH"] = old
                os.chdir(here)


if __name__ == "__main__":
    unittest.main()
