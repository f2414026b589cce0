"""A trained network that answers: the program runs beside and is asked over its standard input and output."""

from __future__ import annotations

import base64
import http.client
import json
import operator
import os
import subprocess
import tempfile
import threading
import weakref
from dataclasses import dataclass
from typing import Any, Iterable, List, Sequence, Union

import numpy as np

from vsetrain._program import program
from vsetrain._ranks import Ranks, numbers, rank


@dataclass(frozen=True)
class Hit:
    """An image that was found: its rank from 1, its number and id in the split, its score, captions that it has."""

    rank: int
    image: int
    id: str
    score: float
    captions: List[str]


class Model:
    """A network that is open, with the images of a split; see load. It ends with close(), or at the end of a with.

    Threads may share it: they are answered one after the other. After a question that was interrupted the next one
    starts the program again, so that every answer is that to its own question; a process that was forked starts one of
    its own.
    """

    def __init__(self, checkpoint: str, arguments: Sequence[str]):
        self.checkpoint = checkpoint
        exact = ["--precision", "fp32"]  # the scores of the commands, unless the arguments say otherwise
        self._command = [program(), "serve", checkpoint, "--stdio", "--log", "none", *exact, *arguments]
        self._folder, self._environment = os.getcwd(), dict(os.environ)  # paths keep their meaning
        self._lock = threading.RLock()  # held from the first byte of a question to the last of its answer
        self._spent = True  # a question may be on its way whose answer was not read to the end
        self._asked = 0  # the number of the last question, which its answer has too
        self._closed = False
        self._process = self._log = self.info = None
        _models.add(self)
        try:
            self.info = self._ask("GET", "/v1/info")  # waits until the images are encoded
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        split = self.info["splits"][0]
        return f"Model({self.checkpoint!r}: {self.info['network']}, {split['images']} images of {split['name']})"

    def __enter__(self) -> "Model":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def encode(self, inputs: Union[str, Iterable[str], np.ndarray]) -> np.ndarray:
        """Return embeddings [n, E] in float32: of captions (a list, an array or a Series of strings), or of region
        features [n, regions, values]; [E] of one caption or [regions, values]. The score of an image and a caption is
        what search tells."""
        if isinstance(inputs, str):
            return self._embed("captions", [inputs])[0]
        items = _items(inputs)
        if isinstance(items, list):
            return self._embed("captions", items)
        if items.ndim == 2:
            return self._embed("images", [_base64(items)])[0]
        return self._embed("images", [_base64(x) for x in items])

    def _embed(self, what: str, items: List[str]) -> np.ndarray:
        rows = [np.empty((0, self.info["dim"]), np.float32)]
        step, at, limit = self.info["limits"]["max_items"], 0, self.info["limits"]["max_body"]
        while at < len(items):
            n = max(1, min(step, limit // 2 // max(len(json.dumps(x)) for x in items[at:at + step])))
            answer = self._ask("POST", "/v1/embed", {what: items[at:at + n], "encoding": "base64"})
            rows += [np.frombuffer(base64.b64decode(x), "<f4")[None] for x in answer["embeddings"]]
            at += n
        return np.concatenate(rows)

    def search(self, query: Union[str, np.ndarray], k: int = 10, captions: int = 1) -> List[Hit]:
        """Find the k images that fit a caption, or an embedding [E], best first."""
        if isinstance(query, str):
            body = {"query": query}
        else:
            vector = np.asarray(numbers(query))
            if vector.dtype.kind not in "fiu" or vector.ndim != 1:
                raise TypeError("expected a caption (a string) or an embedding [E], found "
                                f"{type(query).__name__} of type {vector.dtype} and shape {list(vector.shape)}")
            body = {"vector": _base64(vector)}
        answer = self._ask("POST", "/v1/search",
                           {**body, "k": operator.index(k), "captions": operator.index(captions)})
        return [Hit(**hit) for hit in answer["hits"]]

    def rank(self, scores: Any) -> Ranks:
        """Rank scores [images, captions]; see vsetrain.rank."""
        return rank(scores)

    def close(self) -> None:
        """End the program beside, within a second. Another thread that waits for an answer gets an error."""
        self._closed = True
        free = self._lock.acquire(timeout=0.2)
        try:
            if self._process:
                if not free:
                    self._process.kill()  # so that the other thread leaves
                    free = self._lock.acquire(timeout=0.5)
                if free:
                    self._end()
                    self._log.close()
        finally:
            if free:
                self._lock.release()

    def _start(self) -> None:
        """Start the program, in place of one whose connection is spent."""
        self._end()
        if self._log:
            self._log.close()
        self._log = tempfile.TemporaryFile()
        # In a session of its own Ctrl-C does not reach it: this process decides what an interrupt ends.
        self._process = subprocess.Popen(self._command, bufsize=0, cwd=self._folder, env=self._environment,
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log,
                                         start_new_session=True,
                                         creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0))
        if self._closed:  # by another thread, which saw the program before
            self._end()
            raise ValueError("the model is closed")
        if self.info is None:
            return
        info = self._exchange("GET", "/v1/info")
        if _identity(info) != _identity(self.info):
            self._spent = True
            raise RuntimeError(f"{self.checkpoint} or its data have changed since they were loaded, so that answers "
                               "would not agree with earlier ones; load them again")

    def _end(self, patience: float = 0.3) -> None:
        """End the program, at once where it does not end with its input."""
        if not self._process:
            return
        self._process.stdin.close()
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def _forked(self) -> None:
        """Leave the program to the process that this one was forked from."""
        self._lock, self._spent = threading.RLock(), True
        if self._process:
            self._process.stdin.close()
            self._process.stdout.close()
            self._log.close()
            self._process.returncode, self._process = 0, None

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        if self._lock._is_owned():
            raise RuntimeError("the model is asked while this thread waits for another of its answers, as a signal "
                               "handler may do; ask after that has returned")
        with self._lock:
            if self._closed:
                raise ValueError("the model is closed")
            if self._spent:
                self._start()
            return self._exchange(method, path, body)

    def _exchange(self, method: str, path: str, body: Any = None) -> Any:
        """Ask, and read the answer to its end; whatever comes in between leaves the connection spent."""
        text = body if body is None else json.dumps(body)
        connection = _Connection("localhost")
        connection.sock = _Pipes(self._process)
        self._spent = True
        self._asked += 1
        number = str(self._asked)
        try:
            connection.request(method, path, text, {"Content-Type": "application/json", "X-Request-Id": number})
            response = connection.getresponse()
            answer = json.loads(response.read())
            if response.headers["X-Request-Id"] != number:
                raise ValueError(f"the answer to question {response.headers['X-Request-Id']} in place of {number}")
        except (OSError, ValueError, http.client.HTTPException) as error:
            self._end(0.3 if self._closed else 10)
            if self._closed:
                raise ValueError("the model is closed") from None
            self._log.seek(0)
            said = self._log.read().decode(errors="replace").strip()
            again = "; the next question starts it again" if self.info else ""
            raise RuntimeError(f"vsetrain serve ended with code {self._process.returncode}: {said}{again}") from error
        self._spent = response.will_close
        if response.status != 200:
            raise ValueError(answer["error"]["message"])
        return answer


_models: "weakref.WeakSet[Model]" = weakref.WeakSet()


def _leave() -> None:
    for model in list(_models):
        model._forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave)


def _identity(info: Any) -> Any:
    """What of /v1/info an answer depends on."""
    splits = [(s["name"], s["images"], s["captions"]) for s in info["splits"]]
    return info["checkpoints"], info["shortlist"], info["dim"], splits


def _items(inputs: Any) -> Union[List[str], np.ndarray]:
    """Return captions as a list, features as an array [n, regions, values] or [regions, values]."""
    expected = "expected captions (a list of strings) or features [n, regions, values], found "
    plain = getattr(inputs, "ndim", 1) == 1
    if isinstance(inputs, (bytes, bytearray, dict, set, frozenset)) or plain and not hasattr(inputs, "__iter__"):
        raise TypeError(f"{expected}{type(inputs).__name__}")
    if plain:
        inputs = list(inputs)
        if all(isinstance(x, str) for x in inputs):
            return inputs
        for i, x in enumerate(inputs):
            if not isinstance(x, str) and any(isinstance(y, str) for y in inputs):
                raise TypeError(f"{expected}{x!r} as caption {i} of a list")
    try:
        features = np.asarray(numbers(inputs))
    except ValueError:  # of several shapes
        features = np.empty(len(inputs), object)
    if features.dtype.kind not in "fiu" or features.ndim not in (2, 3):
        raise TypeError(f"{expected}values of type {features.dtype} and shape {list(features.shape)}")
    return features


class _Connection(http.client.HTTPConnection):
    def close(self) -> None:
        """Leave the pipes open for the next request."""


class _Pipes:
    """What http.client asks of a socket."""

    def __init__(self, process: subprocess.Popen):
        self._in, self._out = process.stdin, process.stdout

    def sendall(self, data: bytes) -> None:
        left = memoryview(data)
        try:
            while left:
                left = left[self._in.write(left):]
        except BrokenPipeError:
            pass  # the answer says why no more is read; where there is none, the program has ended

    def makefile(self, *_: object) -> Any:
        return os.fdopen(os.dup(self._out.fileno()), "rb")


def _base64(values: Any) -> str:
    return base64.b64encode(np.ascontiguousarray(values, "<f4").tobytes()).decode()


def load(run: str, data: str = "", split: str = "test", arguments: Sequence[str] = ()) -> Model:
    """Open a run directory, a folder of the Hub's layout or a checkpoint file with a split of its data.

    data is the folder of the data set; empty is the one that the run was trained on. arguments are further flags of
    ``vsetrain serve``, such as ["--shortlist", "runs/vseinf"] for networks that score pairs. The program encodes the
    images first and raises RuntimeError with its message where it cannot.
    """
    named = ["--data", os.fspath(data)] if data else []
    return Model(os.fspath(run), [*named, "--split", split, *arguments])
