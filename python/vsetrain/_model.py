"""A trained network that answers: the program runs beside and is asked over its standard input and output."""

from __future__ import annotations

import base64
import http.client
import json
import os
import subprocess
import tempfile
from dataclasses import dataclass
from typing import Any, List, Sequence, Union

import numpy as np

from vsetrain._program import program
from vsetrain._ranks import Ranks, rank


@dataclass(frozen=True)
class Hit:
    """An image that was found: its rank from 1, its number and id in the split, its score, captions that it has."""

    rank: int
    image: int
    id: str
    score: float
    captions: List[str]


class Model:
    """A network that is open, with the images of a split; see load. It ends with close(), or at the end of a with."""

    def __init__(self, checkpoint: str, arguments: Sequence[str]):
        self._log = tempfile.TemporaryFile()
        self._process = subprocess.Popen([program(), "serve", checkpoint, "--stdio", "--log", "none", *arguments],
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log)
        self.checkpoint = checkpoint
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

    def encode(self, inputs: Union[str, Sequence[str], np.ndarray]) -> np.ndarray:
        """Return embeddings [n, E] in float32: of captions, or of region features [n, regions, values]; [E] of one
        caption or [regions, values]. The score of an image and a caption is what search tells."""
        if isinstance(inputs, str):
            return self.encode([inputs])[0]
        if not isinstance(inputs, (list, tuple)):
            features = np.asarray(inputs)
            if features.ndim == 2:
                return self.encode(features[None])[0]
            return self._embed("images", [_base64(x) for x in features])
        return self._embed("captions", list(inputs))

    def _embed(self, what: str, items: List[str]) -> np.ndarray:
        rows = [np.empty((0, self.info["dim"]), np.float32)]
        step, at, limit = self.info["limits"]["max_items"], 0, self.info["limits"]["max_body"]
        while at < len(items):
            n = max(1, min(step, limit // 2 // max(len(x) for x in items[at:at + step])))
            answer = self._ask("POST", "/v1/embed", {what: items[at:at + n], "encoding": "base64"})
            rows += [np.frombuffer(base64.b64decode(x), "<f4")[None] for x in answer["embeddings"]]
            at += n
        return np.concatenate(rows)

    def search(self, query: Union[str, np.ndarray], k: int = 10, captions: int = 1) -> List[Hit]:
        """Find the k images that fit a caption, or an embedding [E], best first."""
        body = {"query": query} if isinstance(query, str) else {"vector": _base64(query)}
        answer = self._ask("POST", "/v1/search", {**body, "k": k, "captions": captions})
        return [Hit(**hit) for hit in answer["hits"]]

    def rank(self, scores: Any) -> Ranks:
        """Rank scores [images, captions]; see vsetrain.rank."""
        return rank(scores)

    def close(self) -> None:
        """End the program beside."""
        for end in self._process.stdin, self._process.stdout, self._log:
            try:
                end.close()
            except BrokenPipeError:
                pass
            self._process.wait()

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        if self._process.stdin.closed:
            raise ValueError("the model is closed")
        connection = _Connection("localhost")
        connection.sock = _Pipes(self._process)
        try:
            connection.request(method, path, body if body is None else json.dumps(body),
                               {"Content-Type": "application/json"})
            response = connection.getresponse()
            answer = json.loads(response.read())
        except (OSError, http.client.HTTPException) as error:
            self._process.wait(30)
            self._log.seek(0)
            said = self._log.read().decode(errors="replace").strip()
            raise RuntimeError(f"vsetrain serve ended with code {self._process.returncode}: {said}") from error
        if response.status != 200:
            raise ValueError(answer["error"]["message"])
        return answer


class _Connection(http.client.HTTPConnection):
    def close(self) -> None:
        """Leave the pipes open for the next request."""


class _Pipes:
    """What http.client asks of a socket."""

    def __init__(self, process: subprocess.Popen):
        self._in, self._out = process.stdin, process.stdout

    def sendall(self, data: bytes) -> None:
        self._in.write(data)
        self._in.flush()

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
