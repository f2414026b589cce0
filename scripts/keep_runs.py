"""Keeps the finished trials of sweeps without their weights: settings, validations, and measures of the test split.

    cd FOLDER && python3 .../scripts/keep_runs.py .../bin/vsetrain RUNS sweeps/claim-vsepp ...

FOLDER is where the sweeps were run: paths of data sets are relative to it. Trial LOSS of seed 7 of sweep claim-vsepp goes to RUNS/claim-vsepp/LOSS/s7.
Trials that are there already, with these validations, are left alone. Nothing in FOLDER is written. `make keep-runs STUDY=FOLDER` keeps all sweeps of it
in docs/log/runs.zip.
"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile


def unsealed(text):
    """Returns a text without the line of its checksum, which does not fit it once it is changed."""
    return re.sub(r'\A(# sha256 .*\n|(\{\n)  "sha256": .*\n)', lambda m: m[2] or "", text)


def main(vsetrain, runs, sweeps):
    with tempfile.TemporaryDirectory() as folder:
        kept = {}
        for trial in sorted(t for s in sweeps for t in glob.glob(os.path.join(s, "trials", "*"))):
            with open(os.path.join(trial, "trial.json")) as f:
                about = json.load(f)
            with open(os.path.join(trial, "config.yaml")) as f:
                config = f.read()
            epochs = re.search(r"^  epochs: (\d+)$", config, re.M).group(1)
            name = os.path.join(os.path.basename(os.path.dirname(os.path.dirname(trial))), "-".join(str(p["value"]) for p in about["point"]), f"s{about['seed']}")
            if not os.path.exists(os.path.join(trial, f"result-{epochs}.json")):
                print("not finished:", name)
                continue
            with open(os.path.join(trial, "metrics.jsonl")) as f:
                validations = "".join(line for line in f if json.loads(line)["kind"] == "val")
            there = os.path.join(runs, name, "metrics.jsonl")
            if os.path.exists(there) and open(there).read() == validations:
                continue
            copy = os.path.join(folder, name)
            os.makedirs(os.path.join(copy, "checkpoints"))
            shutil.copy2(os.path.join(trial, "checkpoints", "best.safetensors"), os.path.join(copy, "checkpoints"))
            shutil.copy(os.path.join(trial, "vocab.json"), copy)
            with open(os.path.join(copy, "config.yaml"), "w") as f:
                f.write(re.sub(r"^  dir: sweeps/.*$", f"  dir: sweeps/{name}", unsealed(config), flags=re.M))
            with open(os.path.join(copy, "metrics.jsonl"), "w") as f:
                f.write(validations)
            kept[name] = copy
        for name, copy in kept.items():
            # one by one, because a report of several leaves repeated seeds out
            subprocess.run([vsetrain, "report", copy, "--test", "--format", "csv"], check=True, stdout=subprocess.DEVNULL)
            with open(os.path.join(copy, "test.json")) as f:
                test = f.read()
            to = os.path.join(runs, name)
            os.makedirs(to, exist_ok=True)
            for file in ("config.yaml", "metrics.jsonl"):
                shutil.copy(os.path.join(copy, file), to)
            with open(os.path.join(to, "test.json"), "w") as f:
                f.write(unsealed(test).replace(copy + "/", ""))
            print("kept:", name)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
