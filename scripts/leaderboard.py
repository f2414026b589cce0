"""Trains what docs/leaderboard.md compares, from wherever it was stopped.

    cd FOLDER && python3 .../scripts/leaderboard.py .../bin/vsetrain .../configs/sweeps

FOLDER holds data/, as docs/leaderboard.md makes it. For VSE++, VSE++ with wrong captions, VSE-infinity, then SGR the sweep leaderboard-NAME trains every loss with all
its rates and one seed. The best M-Recall on dev chooses the rate of a loss, and two more seeds are trained with it. SGR takes the four losses that are best with
VSE-infinity, LMH and LSEH. Finished trainings are not repeated.
"""
import json
import os
import re
import subprocess
import sys

SEEDS = (7, 8, 9)  # the first one chooses the rate
BEST = 4  # losses of VSE-infinity that SGR takes
STOPPED = 75  # the exit code of a sweep that was stopped and can go on


def choices(text):
    """Yields each line of the plan of a sweep with the axis and the name of the choice that it is, None for others."""
    axis = None
    for line in text.splitlines():
        if name := re.match(r"  - name: (\S+)", line):
            axis = name[1]
        choice = re.match(r'      - \{name: "?([^",]+)', line)
        yield line, axis, choice and choice[1]


def narrowed(text, keep, seeds):
    """Returns the plan of a sweep with the choices of the axes in keep alone, and these seeds."""
    lines = [line for line, axis, name in choices(text) if name is None or name in keep.get(axis, {name})]
    return re.sub(r"(?m)^seeds: .*", f"seeds: {list(seeds)}", "\n".join(lines) + "\n")


class Leaderboard:
    def __init__(self, vsetrain, plans):
        self.vsetrain, self.plans = vsetrain, plans
        os.makedirs("sweeps", exist_ok=True)

    def read(self, name):
        with open(os.path.join(self.plans, f"leaderboard-{name}.yaml")) as f:
            return f.read()

    def choices(self, name, axis):
        return [choice for _, a, choice in choices(self.read(name)) if choice and a == axis]

    def plan(self, name, keep, seeds):
        text = narrowed(self.read(name), keep, seeds)
        file = os.path.join("sweeps", f"{name}.yaml")
        with open(file, "w") as f:
            f.write(text)
        return file

    def train(self, name, keep, seeds):
        """Trains the narrowed sweep; a training that fails is a missing cell."""
        code = subprocess.run([self.vsetrain, "sweep", "run", "--config", self.plan(name, keep, seeds)]).returncode
        if code not in (0, 1):
            sys.exit(code if code > 0 else STOPPED)

    def scores(self, name, keep, seeds):
        """Returns the mean of the best M-Recalls on dev by loss and rate."""
        file = self.plan(name, keep, seeds)
        out = subprocess.run([self.vsetrain, "sweep", "collect", "--config", file, "--json"], check=True, stdout=subprocess.PIPE).stdout
        return {(p["settings"]["loss"], p["settings"]["rate"]): p["mean"] for p in json.loads(out)["points"] if p.get("mean") is not None}

    def rates(self, name, keep):
        """Trains every rate with the first seed and returns the best one of each loss."""
        self.train(name, keep, SEEDS[:1])
        best = {}
        for (loss, rate), mean in self.scores(name, keep, SEEDS[:1]).items():
            if loss not in best or mean > best[loss][1]:
                best[loss] = (rate, mean)
        return {loss: rate for loss, (rate, _) in best.items()}

    def contest(self, name, keep):
        """Trains each loss at its best rate, one seed of all losses before the next seed, and returns these rates."""
        rates = self.rates(name, keep)
        for seed in SEEDS[1:]:
            for rate in sorted(set(rates.values())):
                self.train(name, keep | {"rate": {rate}, "loss": {loss for loss in rates if rates[loss] == rate}}, [seed])
        return rates

    def run(self):
        self.contest("vsepp", {})
        for fraction in self.choices("noise", "noise"):
            self.contest("noise", {"noise": {fraction}})
        rates = self.contest("vseinf", {})
        means = {loss: self.scores("vseinf", {"rate": {rate}, "loss": {loss}}, SEEDS)[loss, rate] for loss, rate in rates.items()}
        best = sorted(means, key=means.get, reverse=True)[:BEST]
        self.contest("sgr", {"loss": {"lmh", "lseh", *best}})


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    Leaderboard(sys.argv[1], sys.argv[2]).run()
