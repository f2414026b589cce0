#!/usr/bin/env python3
"""Open what `vsetrain export --hub` wrote with the packages that people open it with.

usage: check_hub.py DIR RECALLS.json

Says of each part "agrees" or "skipped" and why: the metadata of the model card as huggingface_hub reads it, whose
measures must be those of `vsetrain eval --json`; the weights as safetensors reads them; the encoders as ONNX Runtime
opens them. A part needs its own package and nothing else, so each can be checked in an environment of its own.
"""
import json
import math
import os
import sys

WHERE = {"r1": "recall_at_1", "r5": "recall_at_5", "r10": "recall_at_10", "medr": "median_rank", "meanr": "mean_rank"}


def card(folder, recalls):
    from huggingface_hub import ModelCard

    data = ModelCard.load(os.path.join(folder, "README.md")).data
    assert data.library_name == "vsetrain", data.library_name
    found = {(r.dataset_config, r.dataset_split, r.metric_type): r.metric_value for r in data.eval_results}
    want = {}
    for m in recalls.get("protocols") or [recalls]:
        at = (m["protocol"], recalls["data"]["split"])
        for side, key in ("i2t", "image_to_text"), ("t2i", "text_to_image"):
            want.update({(*at, f"{key}_{name}"): m[side][short] for short, name in WHERE.items()})
        want.update({(*at, "recall_sum"): m["rsum"], (*at, "m_recall"): m["m_recall"]})
    assert found == want, f"{found}\nis not\n{want}"
    return f"{len(found)} measures"


def weights(folder, _):
    from safetensors import safe_open

    with safe_open(os.path.join(folder, "model.safetensors"), "numpy") as f:
        assert json.loads(f.metadata()["vsetrain"])["model"]
        tensors = {name: f.get_tensor(name) for name in f.keys()}
    assert not any(name.startswith("optim/") for name in tensors), "the moments of the optimiser are there"
    assert all(math.isfinite(float(abs(x).max())) for x in tensors.values())
    return f"{len(tensors)} tensors"


def encoders(folder, _):
    import onnxruntime

    if not os.path.exists(os.path.join(folder, "preprocessing.json")):
        return "none"
    with open(os.path.join(folder, "preprocessing.json"), encoding="utf-8") as f:
        how = json.load(f)
    for part in "image", "caption":
        s = onnxruntime.InferenceSession(os.path.join(folder, how[part]["file"]), providers=["CPUExecutionProvider"])
        assert s.get_outputs()[0].shape[-1] == how["embed_dim"]
    return f"embeddings of {how['embed_dim']}"


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[2], encoding="utf-8") as f:
        recalls = json.load(f)
    for part in card, weights, encoders:
        try:
            print(f"{part.__name__}: agrees, {part(sys.argv[1], recalls)}")
        except ModuleNotFoundError as e:
            print(f"{part.__name__}: skipped, {e}")


if __name__ == "__main__":
    main()
