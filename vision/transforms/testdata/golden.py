"""What torchvision's transforms make of pictures: python golden.py writes golden.json beside it.

Needs torchvision 0.26.0, torch 2.11.0 and Pillow 13.0.0. The pictures are a formula, the results are sums of their
bytes.
"""

import hashlib
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts/golden"))
import pins  # noqa: E402, F401

import numpy as np
import PIL
import torch
import torchvision
from PIL import Image
from torchvision import transforms


def picture(width, height, channels):
    i = np.arange(width * height * channels, dtype=np.uint64)
    pixels = ((i * 2654435761 % 2**32) >> 13 & 255).astype(np.uint8).reshape(height, width, channels)
    return Image.fromarray(pixels if channels == 3 else pixels[:, :, 0])


def size(a, whole=False):
    if "Height" in a:
        return (a["Height"], a["Width"])
    return a["Size"] if whole else (a["Size"], a["Size"])


def step(kind, a):
    mode = transforms.InterpolationMode(a.get("Interpolation", "bilinear"))
    if kind == "Resize":
        return transforms.Resize(size(a, True), mode, a.get("MaxSize"))
    if kind == "CenterCrop":
        return transforms.CenterCrop(size(a))
    if kind == "RandomResizedCrop":
        return transforms.RandomResizedCrop(size(a), a.get("Scale", (0.08, 1)), a.get("Ratio", (3 / 4, 4 / 3)), mode)
    if kind == "RandomHorizontalFlip":
        return transforms.RandomHorizontalFlip(a.get("P", 0.5))
    if kind == "RandomVerticalFlip":
        return transforms.RandomVerticalFlip(a.get("P", 0.5))
    if kind == "ColorJitter":
        return transforms.ColorJitter(*[a.get(k, 0) for k in ("Brightness", "Contrast", "Saturation", "Hue")])
    if kind == "ToTensor":
        return transforms.ToTensor()
    return transforms.Normalize(a["Mean"], a["Std"])


CASES = []


def add(shape, *steps, seed=0, times=1):
    torch.manual_seed(seed)
    compose = transforms.Compose([step(kind, a) for kind, a in steps])
    sums = []
    for _ in range(times):
        out = compose(picture(*shape))
        if isinstance(out, torch.Tensor):
            shown, data = list(out.shape), out.numpy().tobytes()
        else:
            shown, data = [len(out.getbands()), out.height, out.width], np.asarray(out).tobytes()
        sums.append({"shape": shown, "sha256": hashlib.sha256(data).hexdigest()})
    CASES.append(
        {
            "picture": shape,
            "seed": seed,
            "steps": [{"kind": k, "fields": a} for k, a in steps],
            "results": sums,
            "next": torch.empty(1).uniform_().item(),
        }
    )


for shape in ((97, 64, 3), (41, 88, 3), (50, 50, 1)):
    for a in (
        {"Size": 32},
        {"Size": 120},
        {"Size": 30, "MaxSize": 33},
        {"Size": 9, "Interpolation": "bicubic"},
        {"Height": 20, "Width": 70},
        {"Height": 64, "Width": 97},
        {"Size": 40, "Interpolation": "nearest"},
        {"Size": 21, "Interpolation": "lanczos"},
    ):
        add(shape, ("Resize", a))
    for a in ({"Size": 32}, {"Size": 45}, {"Size": 101}, {"Height": 60, "Width": 43}, {"Height": 33, "Width": 99}):
        add(shape, ("CenterCrop", a))
    for a in (
        {"Size": 24},
        {"Height": 18, "Width": 31, "Interpolation": "bicubic"},
        {"Size": 50, "Scale": (0.5, 1)},
        {"Size": 20, "Ratio": (2, 4)},
        {"Size": 16, "Scale": (1, 1), "Ratio": (3, 3)},
        {"Size": 16, "Scale": (1, 1), "Ratio": (0.2, 0.2)},
        {"Size": 16, "Scale": (2, 3)},
    ):
        add(shape, ("RandomResizedCrop", a), seed=7, times=6)
    add(shape, ("RandomHorizontalFlip", {}), seed=1, times=5)
    add(shape, ("RandomVerticalFlip", {"P": 0.3}), seed=2, times=5)
    for a in (
        {"Brightness": (0.3, 2.5)},
        {"Contrast": (0.2, 3)},
        {"Saturation": (0, 2)},
        {"Hue": (-0.5, 0.5)},
        {"Hue": (0.1, 0.1)},
        {"Brightness": (1, 1)},
        {"Brightness": (0.6, 1.4), "Contrast": (0.6, 1.4), "Saturation": (0.6, 1.4), "Hue": (-0.1, 0.1)},
        {"Contrast": (0, 0.5), "Hue": (0, 0.3)},
    ):
        add(shape, ("ColorJitter", a), seed=3, times=6)
mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
add(
    (97, 64, 3),
    ("RandomResizedCrop", {"Size": 24}),
    ("RandomHorizontalFlip", {}),
    ("ToTensor", {}),
    ("Normalize", {"Mean": mean, "Std": std}),
    seed=42,
    times=8,
)
add(
    (97, 64, 3),
    ("Resize", {"Size": 32}),
    ("CenterCrop", {"Size": 24}),
    ("ToTensor", {}),
    ("Normalize", {"Mean": mean, "Std": std}),
)
add((50, 50, 1), ("ToTensor", {}), ("Normalize", {"Mean": (0.5,), "Std": (0.25,)}))

torch.manual_seed(42)
crops = []
for i in range(1000):
    shape = (200 + i % 300, 150 + i * 7 % 400)
    i, j, h, w = transforms.RandomResizedCrop.get_params(Image.new("L", shape), (0.08, 1.0), (3 / 4, 4 / 3))
    crops.append([i, j, h, w])
here = pathlib.Path(__file__).parent
text = json.dumps(
    {"torchvision": torchvision.__version__.split("+")[0], "pillow": PIL.__version__, "cases": CASES, "crops": "CROPS"}
)
text = text.replace('{"picture"', '\n{"picture"').replace('"CROPS"', json.dumps(crops).replace(" ", ""))
(here / "golden.json").write_text(text + "\n")
