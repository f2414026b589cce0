"""Compares vsetrain's measures of MS-COCO's 5,000 test images with the Python package eccv_caption, in every number.

    python3 -m venv venv && venv/bin/pip install eccv_caption==0.1.0 numpy
    venv/bin/python scripts/compare_judgements.py bin/vsetrain

The scores are made up, 5,000 x 25,000; the judgements (ECCV Caption, CxC, the original captions) and the ids are those that the package ships.
Plausible matches, which it does not ship, are made up too. Nothing of the package is kept. Ends with status 1 where a number differs.
"""
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np
import eccv_caption

TOLERANCE = 1e-9  # of percentages: both sides add in float64, in another order


def main(vsetrain):
    shipped = os.path.join(os.path.dirname(eccv_caption.__file__), "data")
    caption_ids = np.load(os.path.join(shipped, "coco_test_ids.npy"))
    lists = {}
    for name in ("original", "cxc", "eccv"):
        for direction in ("image_to_caption", "caption_to_image"):
            with open(os.path.join(shipped, f"{name}_{direction}.json")) as f:
                lists[name, direction] = json.load(f)
    own = lists["original", "caption_to_image"]
    image_ids = np.array([own[str(c)][0] for c in caption_ids[::5]])
    row = {int(i): n for n, i in enumerate(image_ids)}
    column = {int(c): n for n, c in enumerate(caption_ids)}

    rng = np.random.default_rng(1)
    scores = rng.standard_normal((5000, 25000), dtype=np.float32)
    for (name, direction), lift in {("original", "image_to_caption"): 2.5, ("eccv", "image_to_caption"): 1.2, ("cxc", "image_to_caption"): 0.8}.items():
        for image, captions in lists[name, direction].items():
            scores[row[int(image)], [column[int(c)] for c in captions if int(c) in column]] += lift  # two of ECCV Caption's are not in the split

    with tempfile.TemporaryDirectory() as folder:
        data, plausible_matches = os.path.join(folder, "coco"), os.path.join(folder, "plausible")
        os.mkdir(data)
        os.mkdir(plausible_matches)
        for name in ("coco_test_ids.npy", "original_caption_to_image.json"):
            shutil.copy(os.path.join(shipped, name), plausible_matches)
        for side, other, name in ((image_ids, caption_ids, "image_to_caption"), (caption_ids, image_ids, "caption_to_image")):
            most = 400 if side is image_ids else 80
            plausible = {str(q): rng.choice(other, rng.integers(1, most), replace=False).tolist() for q in side}
            with open(os.path.join(plausible_matches, f"pm_{name}.json"), "w") as f:
                json.dump(plausible, f)
        with open(os.path.join(data, "testall_caps.txt"), "w") as f:
            f.writelines(f"caption {i}\n" for i in range(25000))
        with open(os.path.join(data, "testall_ids.txt"), "w") as f:
            f.writelines(f"COCO_val2014_{i:012d}.jpg\n" for i in image_ids)
        np.save(os.path.join(data, "testall_ims.npy"), np.ones((5000, 1, 2), np.float32))
        matrix = os.path.join(folder, "scores.npy")
        np.save(matrix, scores)

        def run(judgements):
            start = time.time()
            out = subprocess.run([vsetrain, "eval", "--scores", matrix, "--data", data, "--split", "testall", "--judgements", judgements, "--json", "-"],
                                 check=True, stdout=subprocess.PIPE).stdout
            usage = resource.getrusage(resource.RUSAGE_CHILDREN)
            return json.loads(out), f"{time.time() - start:.1f} s ({usage.ru_utime + usage.ru_stime:.1f} s of one core) and {usage.ru_maxrss / 1024:.0f} MB"

        ours, cost = run(shipped)
        more, _ = run(os.path.join(plausible_matches, "pm_image_to_caption.json"))
        metrics = eccv_caption.Metrics(extra_file_dir=plausible_matches)

    # Of equal scores the later in the file ranks first, as in vsetrain and in the references.
    descending = lambda s: np.argsort(s, kind="stable")[::-1]
    start = time.time()
    i2t = {int(i): caption_ids[descending(scores[n])] for n, i in enumerate(image_ids)}
    by_caption = np.ascontiguousarray(scores.T)
    t2i = {int(c): image_ids[descending(by_caption[n])] for n, c in enumerate(caption_ids)}
    theirs = compute(metrics, {"i2t": i2t, "t2i": t2i})
    package_seconds = time.time() - start

    protocols = {p["protocol"]: p for p in ours["protocols"]}
    judged = {j["name"]: j for j in ours["judgements"] + more["judgements"]}
    worst = 0.0
    print(f"{'measure':<24}{'direction':<10}{'vsetrain':>20}{'eccv_caption':>20}{'difference':>12}")
    for (name, key), values in theirs.items():
        mine = protocols[name] if name in protocols else judged[name]
        for direction, value in values.items():
            a, b = mine[direction][key], 100 * float(value)
            worst = max(worst, abs(a - b))
            print(f"{name + ' ' + key:<24}{direction:<10}{a:>20.12f}{b:>20.12f}{a - b:>12.1e}")
    queries = {"eccv": (1261, 1332), "cxc": (5000, 24972), "original": (5000, 25000)}
    for name, (images, captions) in queries.items():
        assert (judged[name]["i2t"]["queries"], judged[name]["t2i"]["queries"]) == (images, captions), name
    print(f"largest difference {worst:.1e} of a percentage; vsetrain took {cost}, the package {package_seconds:.0f} s")
    return 0 if worst <= TOLERANCE else 1


def compute(metrics, retrieved):
    """The measures of the package under vsetrain's names: {(protocol or judgements, key): {i2t, t2i}}."""
    out = {}
    for k in (1, 5, 10):
        for name, recalls in (("5x1k", metrics.coco_1k_recalls), ("5k", metrics.coco_5k_recalls), ("original", metrics.coco_5k_recalls),
                              ("cxc", metrics.cxc_recalls), ("eccv", metrics.eccv_recalls)):
            out[name, f"r{k}"] = recalls(retrieved, "all", K=k)
    eccv = metrics.eccv_metrics(retrieved, "all")
    out["eccv", "map_at_r"], out["eccv", "r_precision"] = eccv["eccv_map_at_r"], eccv["eccv_rprecision"]
    assert eccv["eccv_r1"] == out["eccv", "r1"]
    out["pm", "r_precision"] = metrics.pmrp(retrieved, "all")
    return out


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
