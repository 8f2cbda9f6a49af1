"""Asks transformers' image processors for Pillow and numpy what numbers they make of pictures: python processors.py
writes processors.json beside it.

Needs transformers 5.17.0, Pillow 13.0.0, and torchvision 0.26.0, which SegformerImageProcessorPil asks for. With
"compare" (python processors.py compare) it prints instead how far the processors for torchvision are from them.
"""

import hashlib
import json
import pathlib
import sys
import tempfile

import numpy as np
import torchvision  # noqa: F401: says what is missing
import transformers
from PIL import Image
from transformers.models.bit.image_processing_pil_bit import BitImageProcessorPil
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.convnext.image_processing_pil_convnext import ConvNextImageProcessorPil
from transformers.models.deit.image_processing_pil_deit import DeiTImageProcessorPil
from transformers.models.segformer.image_processing_pil_segformer import SegformerImageProcessorPil
from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

CLASSES = {
    "ViT": ViTImageProcessorPil,
    "DeiT": DeiTImageProcessorPil,
    "CLIP": CLIPImageProcessorPil,
    "Bit": BitImageProcessorPil,
    "ConvNext": ConvNextImageProcessorPil,
    "Segformer": SegformerImageProcessorPil,
    "Siglip": SiglipImageProcessorPil,
}
here = pathlib.Path(__file__).resolve().parent
RGB = ["rgb.png", "jpeg420.jpg", "lossy.webp", "rgb.bmp"]
# what the file says, and the pictures
CASES = [
    ({"image_processor_type": "ViTImageProcessor"}, RGB),
    ({"image_processor_type": "DeiTImageProcessor"}, RGB),
    ({"image_processor_type": "CLIPImageProcessor"}, [*RGB, "rgba.png", "palette.png", "gray.png"]),
    ({"image_processor_type": "BitImageProcessor"}, RGB),
    # as google/vit-base-patch16-224-in21k and facebook/deit-base-patch16-224 have them
    (
        {
            "do_normalize": True,
            "do_resize": True,
            "image_mean": [0.5, 0.5, 0.5],
            "image_std": [0.5, 0.5, 0.5],
            "size": 48,
        },
        RGB,
    ),
    (
        {
            "crop_size": 40,
            "do_center_crop": True,
            "do_normalize": True,
            "do_resize": True,
            "feature_extractor_type": "DeiTFeatureExtractor",
            "image_mean": [0.485, 0.456, 0.406],
            "image_std": [0.229, 0.224, 0.225],
            "resample": 3,
            "size": 47,
        },
        RGB,
    ),
    (
        {"image_processor_type": "CLIPImageProcessor", "size": 33, "crop_size": 32, "resample": 1, "do_resize": None},
        RGB,
    ),
    (
        {
            "image_processor_type": "ViTImageProcessorFast",
            "size": {"height": 30, "width": 41},
            "resample": 0,
            "do_rescale": False,
        },
        RGB,
    ),
    (
        {
            "image_processor_type": "ViTImageProcessor",
            "size": {"height": 30, "width": 41},
            "do_normalize": False,
            "rescale_factor": 0.01,
            "resample": 5,
        },
        RGB,
    ),
    (
        {"image_processor_type": "ViTImageProcessor", "do_normalize": False, "do_rescale": False, "do_resize": False},
        RGB,
    ),
    (
        {"image_processor_type": "CLIPImageProcessor", "do_resize": False, "crop_size": {"height": 100, "width": 21}},
        RGB,
    ),
    (
        {"image_processor_type": "CLIPImageProcessor", "do_resize": False, "crop_size": {"height": 20, "width": 101}},
        RGB,
    ),
    (
        {
            "image_processor_type": "ViTImageProcessor",
            "image_mean": [0.1307],
            "image_std": [0.3081],
            "size": {"height": 28, "width": 28},
            "resample": 4,
        },
        ["gray.png", "gray.bmp"],
    ),
    (
        {
            "image_processor_type": "BitImageProcessor",
            "do_convert_rgb": False,
            "size": {"shortest_edge": 21},
            "do_center_crop": False,
            "note": "stays",
        },
        RGB,
    ),
    # as facebook/convnext-tiny-224 and microsoft/resnet-50 have them, but for smaller pictures
    (
        {
            "crop_pct": 0.875,
            "do_normalize": True,
            "do_resize": True,
            "feature_extractor_type": "ConvNextFeatureExtractor",
            "image_mean": [0.485, 0.456, 0.406],
            "image_std": [0.229, 0.224, 0.225],
            "resample": 3,
            "size": 48,
        },
        RGB,
    ),
    ({"image_processor_type": "ConvNextImageProcessor"}, RGB),
    (
        {
            "image_processor_type": "ConvNextImageProcessor",
            "size": {"shortest_edge": 45},
            "crop_pct": 0.93,
            "resample": 2,
            "do_rescale": False,
        },
        RGB,
    ),
    (
        {
            "image_processor_type": "ConvNextImageProcessor",
            "size": {"shortest_edge": 31},
            "crop_pct": 1.0,
            "note": "stays",
        },
        RGB,
    ),
    (
        {
            "image_processor_type": "ConvNextImageProcessor",
            "size": {"shortest_edge": 400},
            "do_center_crop": True,
            "crop_size": {"height": 30, "width": 41},
        },
        RGB,
    ),
    (
        {"image_processor_type": "ConvNextImageProcessor", "do_resize": False, "do_center_crop": True, "crop_size": 33},
        RGB,
    ),
    ({"image_processor_type": "SegformerImageProcessor", "do_reduce_labels": True}, RGB),
    (
        {
            "feature_extractor_type": "SegformerFeatureExtractor",
            "do_normalize": True,
            "do_resize": True,
            "image_mean": [0.485, 0.456, 0.406],
            "image_std": [0.229, 0.224, 0.225],
            "resample": 2,
            "size": 40,
        },
        RGB,
    ),
    # as google/siglip-base-patch16-224 has it
    (
        {
            "do_convert_rgb": None,
            "do_normalize": True,
            "do_rescale": True,
            "do_resize": True,
            "image_mean": [0.5, 0.5, 0.5],
            "image_processor_type": "SiglipImageProcessor",
            "image_std": [0.5, 0.5, 0.5],
            "resample": 3,
            "rescale_factor": 0.00392156862745098,
            "size": {"height": 224, "width": 224},
        },
        RGB,
    ),
    ({"image_processor_type": "SiglipImageProcessor"}, [*RGB, "rgba.png", "palette.png", "gray.png"]),
    ({"image_processor_type": "SiglipImageProcessorFast", "size": 40, "resample": 2}, RGB),
]


def kind(settings):
    name = settings.get("image_processor_type") or settings.get("feature_extractor_type", "ViT").replace(
        "FeatureExtractor", ""
    )
    return name.removesuffix("Fast").removesuffix("ImageProcessor")


def main():
    out = []
    for settings, pictures in CASES:
        with tempfile.TemporaryDirectory() as d:
            (pathlib.Path(d) / "preprocessor_config.json").write_text(json.dumps(settings))
            p = CLASSES[kind(settings)].from_pretrained(d)
            p.save_pretrained(d)
            saved = json.loads((pathlib.Path(d) / "preprocessor_config.json").read_text())
        results = []
        for name in pictures:
            pixels = np.asarray(p(Image.open(here / "files" / name)).pixel_values[0], dtype=np.float32)
            results.append(
                {
                    "file": name,
                    "shape": pixels.shape,
                    "sha256": hashlib.sha256(np.ascontiguousarray(pixels).tobytes()).hexdigest(),
                }
            )
        out.append({"settings": settings, "saved": saved, "results": results})
    (here / "processors.json").write_text(
        json.dumps({"made with": f"transformers {transformers.__version__}", "cases": out}, indent=0) + "\n"
    )


def compare():
    for i, (settings, pictures) in enumerate(CASES):
        with tempfile.TemporaryDirectory() as d:
            (pathlib.Path(d) / "preprocessor_config.json").write_text(json.dumps(settings))
            pil, other = (
                CLASSES[kind(settings)].from_pretrained(d),
                getattr(transformers, kind(settings) + "ImageProcessor").from_pretrained(d),
            )
        for name in pictures:
            im = Image.open(here / "files" / name)
            try:
                a, b = (np.asarray(p(im).pixel_values[0], dtype=np.float64) for p in (pil, other))
            except (NotImplementedError, RuntimeError) as e:
                print(i, name, str(e)[:120])
                continue
            if a.shape != b.shape:
                print(i, name, "shapes", a.shape, b.shape)
            else:
                levels = np.abs(a - b) * max(np.broadcast_to(pil.image_std, (3,))) * 255
                print(
                    i,
                    name,
                    f"{type(other).__name__}: largest {np.abs(a - b).max():.3g}, {levels.max():.2f} grey levels, mean {levels.mean():.4f}, equal {np.mean(a.astype(np.float32) == b.astype(np.float32)):.1%}",
                )


compare() if sys.argv[1:] == ["compare"] else main()
