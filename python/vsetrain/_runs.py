"""Run directories."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, List, Optional

import numpy as np

from vsetrain._files import PathLike, read_safetensors


class Run:
    """A run directory, read anew each time something is asked for, so a training can be followed."""

    def __init__(self, path: PathLike) -> None:
        self.path = Path(path)
        if not (self.path / "config.yaml").is_file():
            raise FileNotFoundError(f"{path}: no run directory: it has no config.yaml")

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.path.name

    def records(self, kind: Optional[str] = None) -> List[Dict[str, Any]]:
        """The lines of metrics.jsonl of a kind, "train" or "val", or all. A line that is being written is left out."""
        records = []
        with open(self.path / "metrics.jsonl", encoding="utf-8") as f:
            for number, line in enumerate(f, 1):
                if not line.endswith("\n"):
                    break
                try:
                    record = json.loads(line)
                except ValueError as e:
                    raise ValueError(f"{self.path / 'metrics.jsonl'}:{number}: {e}") from e
                if kind is None or record.get("kind") == kind:
                    records.append(record)
        return records

    @property
    def train(self) -> Dict[str, np.ndarray]:
        """The logged steps: an array for each key of metrics.jsonl, such as step, epoch, loss, lr."""
        return _columns(self.records("train"))

    @property
    def validations(self) -> Dict[str, np.ndarray]:
        """The validations: an array for each key, those of i2t and t2i as i2t_r1 … t2i_meanr."""
        return _columns(self.records("val"))

    @property
    def best(self) -> Optional[Dict[str, Any]]:
        """The validation with the highest M-Recall, the first of equal ones; None before the first."""
        return max(self.records("val"), key=lambda r: r["m_recall"], default=None)

    @property
    def config(self) -> Dict[str, Any]:
        """Every setting. Needs PyYAML, the wheel's extra yaml."""
        try:
            import yaml
        except ImportError as e:
            raise ImportError("Run.config needs PyYAML: pip install pyyaml, which the wheel's extra yaml brings too "
                              "(pip install 'vsetrain-….whl[yaml]')") from e

        with open(self.path / "config.yaml", encoding="utf-8") as f:
            settings: Dict[str, Any] = yaml.safe_load(f)
        return settings

    @property
    def sessions(self) -> List[Dict[str, Any]]:
        """A record for each process that worked on the run: program, machine, command."""
        sessions: List[Dict[str, Any]] = self._json("env.json")["sessions"]
        return sessions

    @property
    def test(self) -> Optional[Dict[str, Any]]:
        """What ``vsetrain report --test`` measured of the best weights; None where nothing has been measured."""
        return self._json("test.json") if (self.path / "test.json").exists() else None

    @property
    def vocabulary(self) -> Dict[str, int]:
        """The number of each word."""
        numbers: Dict[str, int] = self._json("vocab.json")["word2idx"]
        return numbers

    def weights(self, checkpoint: str = "best") -> Dict[str, np.ndarray]:
        """The tensors of a checkpoint by their names; they stay on disk until they are read."""
        return read_safetensors(self.path / "checkpoints" / f"{checkpoint}.safetensors")[0]

    def _json(self, name: str) -> Dict[str, Any]:
        content: Dict[str, Any] = json.loads((self.path / name).read_text(encoding="utf-8"))
        return content


def find_runs(path: PathLike, depth: int = 5) -> List[Run]:
    """Return the runs in a folder and up to ``depth`` folders below it, in the order of their names."""
    root, runs = Path(path), []

    def walk(folder: Path, left: int) -> None:
        if (folder / "config.yaml").is_file():
            runs.append(Run(folder))
            return
        for sub in sorted(folder.iterdir()):
            if left > 0 and sub.is_dir() and not sub.name.startswith("."):
                walk(sub, left - 1)

    walk(root, depth)
    return runs


def _columns(records: List[Dict[str, Any]]) -> Dict[str, np.ndarray]:
    """An array for each key that any record has; NaN, or None for text, where a record lacks it."""
    flat = [_flat(r) for r in records]
    keys = list(dict.fromkeys(key for r in flat for key in r))
    columns = {}
    for key in keys:
        values = [r.get(key) for r in flat]
        if all(isinstance(v, bool) for v in values) or any(isinstance(v, (str, list)) for v in values):
            columns[key] = np.array(values, dtype=bool if isinstance(values[0], bool) else object)
        elif all(isinstance(v, int) and not isinstance(v, bool) for v in values):
            columns[key] = np.array(values, dtype=np.int64)
        else:
            columns[key] = np.array([np.nan if v is None else float(v) for v in values])
    return columns


def _flat(record: Dict[str, Any]) -> Dict[str, Any]:
    out = {}
    for key, value in record.items():
        if isinstance(value, dict):
            out.update({f"{key}_{name}": v for name, v in _flat(value).items()})
        elif key != "kind":
            out[key] = value
    return out
