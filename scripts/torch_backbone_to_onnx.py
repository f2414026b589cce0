#!/usr/bin/env python3
"""Write a network of torchvision as FILE.onnx and FILE.yaml for `vsetrain data extract`.

usage: torch_backbone_to_onnx.py FILE.onnx [--network resnet101] [--weights default|none|PATH] [--grid 6]

The output is the last feature map, averaged to a grid of --grid x --grid cells: [N, C, 6, 6]; --grid 0 gives one vector,
[N, C]. --weights default downloads the weights of torchvision, which say how pictures are prepared; PATH is a state
dict of your own; none is random weights, to try the way. --compare DIR also computes the features of the pictures of a
folder here, sorted by name, for comparison: FILE.npy. Needs torch, torchvision, onnx and Pillow.
"""
import argparse
import os

import numpy as np
import torch
import torchvision


class Grid(torch.nn.Module):
    """The layers of a network up to its last feature map, averaged to a grid.

    Adaptive pooling is written as two products with constants, which ONNX has for every size."""

    def __init__(self, network, size, grid):
        super().__init__()
        if hasattr(network, "features"):  # vgg, densenet, efficientnet, mobilenet, convnext
            self.body = network.features
        elif hasattr(network, "layer4"):  # resnet, resnext, wide_resnet
            self.body = torch.nn.Sequential(*list(network.children())[:-2])
        else:
            raise SystemExit(f"{type(network).__name__} has neither features nor layer4: name another --network")
        with torch.no_grad():
            _, self.channels, height, width = self.eval().body(torch.zeros(1, 3, size, size)).shape
        cells = max(grid, 1)
        self.vector = grid == 0
        self.register_buffer("rows", self.means(cells, height))
        self.register_buffer("columns", self.means(cells, width).T.contiguous())

    @staticmethod
    def means(cells, size):
        """[cells, size]: the weights of adaptive average pooling."""
        m = torch.zeros(cells, size)
        for i in range(cells):
            lo, hi = i * size // cells, -(-(i + 1) * size // cells)
            m[i, lo:hi] = 1 / (hi - lo)
        return m

    def forward(self, x):
        y = self.rows @ self.body(x) @ self.columns
        return y.flatten(1) if self.vector else y


def preparation(network, weights):
    """Resize, crop, filter, mean and std of a network's published weights."""
    try:
        t = torchvision.models.get_model_weights(network).DEFAULT.transforms()
    except ValueError as e:
        raise SystemExit(f"--network {network}: {e}")
    return t.resize_size[0], t.crop_size[0], t.interpolation.value, list(t.mean), list(t.std)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("file")
    p.add_argument("--network", default="resnet101", help="a name of torchvision.models")
    p.add_argument("--weights", default="default", help="default, none, or a file of a state dict")
    p.add_argument("--grid", type=int, default=6, help="cells a side; 0 is one vector")
    p.add_argument("--seed", type=int, default=0, help="of random weights")
    p.add_argument("--compare", metavar="DIR", help="also write the features of these pictures to FILE.npy")
    o = p.parse_args()
    if not o.file.endswith(".onnx"):
        p.error("FILE has to end in .onnx")

    torch.manual_seed(o.seed)
    resize, crop, filter_, mean, std = preparation(o.network, o.weights)
    if filter_ not in ("bilinear", "bicubic"):
        raise SystemExit(f"{o.network} resizes with {filter_}; vsetrain has bilinear and bicubic")
    network = torchvision.models.get_model(o.network, weights="DEFAULT" if o.weights == "default" else None)
    if o.weights not in ("default", "none"):
        network.load_state_dict(torch.load(o.weights, map_location="cpu", weights_only=True))
    grid = Grid(network, crop, o.grid).eval()
    with torch.no_grad():
        torch.onnx.export(grid, (torch.zeros(1, 3, crop, crop),), o.file, input_names=["images"],
                          output_names=["features"], opset_version=17, dynamo=False,
                          dynamic_axes={"images": {0: "batch"}, "features": {0: "batch"}})
    stem = o.file[:-len(".onnx")]
    with open(stem + ".yaml", "w", encoding="utf-8") as f:
        f.write(f"# {o.network} of torchvision {torchvision.__version__}, weights: {o.weights}\n"
                f"input: images\noutput: features\n"
                f"resize: {resize}\nfit: shorter\ncrop: {crop}\nfilter: {filter_}\ncolours: rgb\nlayout: nchw\n"
                f"scale: 255\nmean: {mean}\nstd: {std}\noutput_layout: {'nd' if o.grid == 0 else 'nchw'}\n")
    print(f"{o.file} and {stem}.yaml: {o.network}, {grid.channels} channels, "
          f"{'one vector' if o.grid == 0 else f'{o.grid} x {o.grid} cells'}")
    if o.compare:
        compare(grid, o.compare, stem + ".npy", resize, crop, filter_, mean, std)


def compare(grid, folder, out, resize, crop, filter_, mean, std):
    from PIL import Image, ImageOps
    from torchvision import transforms as T
    prepare = T.Compose([T.Resize(resize, T.InterpolationMode(filter_)), T.CenterCrop(crop), T.ToTensor(),
                         T.Normalize(mean, std)])
    names = sorted(n for n in os.listdir(folder) if n.lower().endswith((".jpg", ".jpeg", ".png", ".webp", ".gif")))
    rows = []
    with torch.no_grad():
        for name in names:
            picture = ImageOps.exif_transpose(Image.open(os.path.join(folder, name))).convert("RGB")
            y = grid(prepare(picture)[None])
            rows.append(y.reshape(1, y.shape[1], -1).transpose(1, 2).numpy())
    np.save(out, np.concatenate(rows))
    print(f"{out}: {len(names)} pictures")


if __name__ == "__main__":
    main()
