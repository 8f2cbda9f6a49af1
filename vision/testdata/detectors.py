"""Asks transformers' image processors of detectors, those for Pillow and numpy, what numbers they make of pictures:
python detectors.py writes detectors.json beside it.

Needs transformers 5.17.0 and Pillow 13.0.0.
"""

import hashlib
import json
import pathlib
import tempfile

import numpy as np
import transformers
from PIL import Image
from transformers.models.detr.image_processing_pil_detr import DetrImageProcessorPil
from transformers.models.yolos.image_processing_pil_yolos import YolosImageProcessorPil

here = pathlib.Path(__file__).resolve().parent
RGB = ["rgb.png", "jpeg420.jpg", "lossy.webp", "rgb.bmp"]
YOLOS, DETR = {"image_processor_type": "YolosImageProcessor"}, {"image_processor_type": "DetrImageProcessor"}
CASES = [
    (YOLOS | {"size": {"shortest_edge": 90, "longest_edge": 130}}, RGB),
    (DETR | {"size": {"shortest_edge": 90, "longest_edge": 130}}, RGB),
    (YOLOS | {"size": {"shortest_edge": 120, "longest_edge": 121}, "resample": 3}, RGB),
    (DETR | {"size": {"shortest_edge": 120, "longest_edge": 121}, "do_rescale": False}, RGB),
    # as hustvl/yolos-tiny and facebook/detr-resnet-50 have them, but for smaller pictures
    (
        {
            "do_normalize": True,
            "do_resize": True,
            "feature_extractor_type": "YolosFeatureExtractor",
            "format": "coco_detection",
            "image_mean": [0.485, 0.456, 0.406],
            "image_std": [0.229, 0.224, 0.225],
            "max_size": 133,
            "size": 80,
        },
        RGB,
    ),
    (
        {
            "do_normalize": True,
            "do_resize": True,
            "feature_extractor_type": "DetrFeatureExtractor",
            "format": "coco_detection",
            "image_mean": [0.485, 0.456, 0.406],
            "image_std": [0.229, 0.224, 0.225],
            "max_size": 133,
            "size": 80,
        },
        RGB,
    ),
    # as in the task guide
    (
        DETR | {"size": {"max_height": 60, "max_width": 70}, "do_pad": True, "pad_size": {"height": 64, "width": 80}},
        RGB,
    ),
    (YOLOS | {"size": {"height": 50, "width": 33}, "do_pad": False, "note": "stays"}, RGB),
    (YOLOS | {"do_resize": False, "do_normalize": False}, RGB),
]
KINDS = {"Yolos": YolosImageProcessorPil, "Detr": DetrImageProcessorPil}


def main():
    out, rng = [], np.random.default_rng(1)
    for settings, pictures in CASES:
        name = settings.get("image_processor_type") or settings["feature_extractor_type"]
        with tempfile.TemporaryDirectory() as d:
            (pathlib.Path(d) / "preprocessor_config.json").write_text(json.dumps(settings))
            p = KINDS["Yolos" if name.startswith("Yolos") else "Detr"].from_pretrained(d)
            p.save_pretrained(d)
            saved = json.loads((pathlib.Path(d) / "preprocessor_config.json").read_text())
        results = []
        for name in pictures:
            image = Image.open(here / "files" / name)
            made = p(image)
            pixels = np.asarray(made.pixel_values[0], dtype=np.float32)
            mask = np.asarray(made.pixel_mask[0]) if "pixel_mask" in made else np.ones(pixels.shape[1:])
            results.append(
                {
                    "file": name,
                    "shape": pixels.shape,
                    "extent": [int(mask.any(1).sum()), int(mask.any(0).sum())],
                    "sha256": hashlib.sha256(np.ascontiguousarray(pixels).tobytes()).hexdigest(),
                }
            )
        out.append({"settings": settings, "saved": saved, "results": results})
    # sizes alone
    from transformers.image_transforms import get_size_with_aspect_ratio
    from transformers.image_utils import get_image_size_for_max_height_width
    from transformers.models.yolos.image_processing_pil_yolos import get_size_with_aspect_ratio_yolos

    sizes = []
    for _ in range(150):
        h, w = (int(v) for v in rng.integers(17, 700, 2))
        edge = int(rng.integers(20, 500))
        longest = edge + int(rng.integers(0, 200))
        high, wide = (int(v) for v in rng.integers(20, 500, 2))
        sizes.append(
            [h, w, edge, longest, high, wide]
            + list(get_size_with_aspect_ratio((h, w), edge, longest))
            + list(get_size_with_aspect_ratio_yolos((h, w), edge, longest))
            + list(get_image_size_for_max_height_width((h, w), high, wide))
        )
    (here / "detectors.json").write_text(
        json.dumps({"made with": f"transformers {transformers.__version__}", "cases": out, "sizes": sizes}) + "\n"
    )


main()
