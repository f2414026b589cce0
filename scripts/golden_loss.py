"""Writes the golden cases of a loss for testdata/golden/losses.json, one a line.

    python3 scripts/golden_loss.py REFERENCE.py                                        # prints them
    python3 scripts/golden_loss.py REFERENCE.py --into testdata/golden/losses.json     # adds them, or replaces those of these names

REFERENCE.py holds or imports what the authors' code computes, in PyTorch:

    loss_type = "own"                                  # loss.name
    config = {"margin": 0.2}                           # loss.margin, and options of the section loss.own by their keys
    def loss(scores, margin):                          # [N, N]: row i is image i, column j is caption j, matches on the diagonal
        ...
        return to_find_captions, to_find_images        # two scalars; their sum is the loss

Every case has its scores in float64, and the loss, its two parts and its gradient from autograd. All other lines of the file stay as they are.
"""
import argparse
import json
import random
import runpy

import torch


def cases():
    """Yields name and scores of each case: drawn ones, all equal, two negatives that tie, a match below its negatives, one pair."""
    draw = random.Random(1)

    def drawn(n):
        return [[round(draw.uniform(0.3, 0.8) if i == j else draw.uniform(-0.2, 0.7), 3) for j in range(n)] for i in range(n)]

    yield "4x4", drawn(4)
    yield "5x5", drawn(5)
    yield "equal", [[0.5] * 4 for _ in range(4)]
    tied = drawn(4)
    tied[0][1] = tied[0][2] = tied[3][2] = 0.65
    yield "tied", tied
    low = drawn(4)
    low[1][1] = -0.1
    yield "low_match", low
    yield "one_pair", drawn(1)


def lines(reference):
    for name, scores in cases():
        s = torch.tensor(scores, dtype=torch.float64, requires_grad=True)
        captions, images = reference["loss"](s, **reference["config"])
        (captions + images).backward()
        yield json.dumps({"name": f"{reference['loss_type']}_{name}", "loss_type": reference["loss_type"], "scores": scores, "config": reference["config"],
                          "expected": {"loss": (captions + images).item(), "loss_caption_retrieval": captions.item(), "loss_image_retrieval": images.item(),
                                       "grad_scores": s.grad.tolist()}}, separators=(",", ":"))


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("reference")
    args.add_argument("--into", help="the file of golden cases")
    args = args.parse_args()
    reference = runpy.run_path(args.reference)
    new = list(lines(reference))
    if not args.into:
        print(",\n".join(new))
        return
    with open(args.into) as f:
        head, *old, end = f.read().splitlines()
    names = [json.loads(line)["name"] for line in new]
    kept = [line.rstrip(",") for line in old if json.loads(line.rstrip(","))["name"] not in names]
    with open(args.into, "w") as f:
        f.write("\n".join([head, ",\n".join(kept + new), end]) + "\n")


if __name__ == "__main__":
    main()
