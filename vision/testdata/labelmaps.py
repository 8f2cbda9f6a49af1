"""Writes label maps as PNG files of all kinds into labelmaps/, and what transformers' SegformerImageProcessorPil makes
of pictures with such maps: python labelmaps.py writes labelmaps.json beside it.

Needs transformers 5.17.0, torchvision 0.26.0, which the processor asks for, and Pillow 13.0.0.
"""

import hashlib
import json
import pathlib
import struct
import zlib

import numpy as np
import torchvision  # noqa: F401: says what is missing
import transformers
from PIL import Image
from transformers.models.segformer.image_processing_pil_segformer import SegformerImageProcessorPil

here = pathlib.Path(__file__).resolve().parent
folder = here / "labelmaps"
GRAY, RGB, PALETTE, GRAY_ALPHA, RGBA = 0, 2, 3, 4, 6


def png(name, kind, bits, rows, palette=None, transparent=None):
    """Writes a file; rows are the bytes of each row"""

    def chunk(name, content):
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    height, width = len(rows), WIDTH
    text = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, kind, 0, 0, 0))
    if palette:
        text += chunk(b"PLTE", palette)
    if transparent:
        text += chunk(b"tRNS", transparent)
    text += chunk(b"IDAT", zlib.compress(b"".join(b"\0" + bytes(r) for r in rows))) + chunk(b"IEND", b"")
    (folder / name).write_bytes(text)


def packed(values, bits):
    """A row of numbers of that many bits"""
    whole = "".join(f"{v:0{bits}b}" for v in values)
    whole += "0" * (-len(whole) % 8)
    return bytes(int(whole[i : i + 8], 2) for i in range(0, len(whole), 8))


WIDTH, HEIGHT = 21, 13
g = np.random.default_rng(5)
folder.mkdir(exist_ok=True)
maps, files = {}, []
for bits in (1, 2, 4, 8, 16):
    values = g.integers(0, 1 << bits, (HEIGHT, WIDTH))
    rows = [packed(r, bits) for r in values]
    kinds = {"gray": (GRAY, None, None), "gray_transparent": (GRAY, None, struct.pack(">H", int(values[0, 0])))}
    if bits < 16:
        # colors that are shades of gray in another order, some of them transparent
        colors = bytes(v for i in range(1 << bits) for v in [(7 * i) % 256] * 3)
        kinds |= {"palette": (PALETTE, colors, None), "palette_transparent": (PALETTE, colors, b"\0\x80")}
    for kind, (number, palette, transparent) in kinds.items():
        png(f"{kind}{bits}.png", number, bits, rows, palette, transparent)
        files.append(dict(file=f"{kind}{bits}.png", classes=values.ravel().tolist()))
    maps[bits] = values
for name, number, channels in (("rgb.png", RGB, 3), ("rgba.png", RGBA, 4), ("gray_alpha.png", GRAY_ALPHA, 2)):
    png(name, number, 8, [np.repeat(r, channels).astype(np.uint8) for r in maps[8]])

cases = []
for settings in (
    dict(),
    dict(size=dict(height=30, width=41)),
    dict(size=dict(height=7, width=9), do_reduce_labels=True),
    dict(size=dict(height=13, width=50), do_reduce_labels=True),
    dict(do_resize=False, do_reduce_labels=True),
):
    p = SegformerImageProcessorPil(**settings)
    for file in ("palette4.png", "gray8.png", "palette8.png"):
        labels = p(Image.open(here / "files/rgb.png"), Image.open(folder / file)).labels[0]
        cases.append(
            dict(
                settings=settings | dict(image_processor_type="SegformerImageProcessor"),
                file=file,
                shape=labels.shape,
                labels=hashlib.sha256(np.ascontiguousarray(labels, np.uint16).tobytes()).hexdigest(),
            )
        )
(here / "labelmaps.json").write_text(
    json.dumps({"made with": f"transformers {transformers.__version__}", "files": files, "cases": cases}) + "\n"
)
