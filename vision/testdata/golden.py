"""Asks Pillow what pictures decode to and what its resampling filters make of them.

python3 golden.py   (Pillow 13.0.0, numpy; OpenCV for the 16-bit PNG)

Writes the small picture files of files/, and golden.json and golden.bin: each case names an input file, what was
done to it, and where its bytes lie in golden.bin.
"""

import json
import struct
import zlib
from pathlib import Path

import cv2
import numpy as np
import PIL
from PIL import Image

here = Path(__file__).parent
files = here / "files"
files.mkdir(exist_ok=True)
rng = np.random.default_rng(7)
cases, blob = [], bytearray()


def picture(width, height, channels):
    """Soft shapes with sharp edges and a little noise, so that every filter has something to get wrong."""
    y, x = np.mgrid[0:height, 0:width].astype(float)
    out = np.zeros((height, width, channels))
    for c in range(channels):
        out[..., c] = 127 + 90 * np.sin(x / (3.0 + c)) * np.cos(y / (2.5 + c))
        out[..., c] += 120 * (((x + c * 3) // 7 + y // 5) % 2) - 60
    return np.clip(out + rng.normal(0, 10, out.shape), 0, 255).astype(np.uint8)


def add(file, image, **what):
    data = np.asarray(image)
    channels = 1 if data.ndim == 2 else data.shape[2]
    cases.append(
        {"file": file, "width": image.width, "height": image.height, "channels": channels, "offset": len(blob), **what}
    )
    blob.extend(data.astype(np.uint8).tobytes())


def decoded(name):
    image = Image.open(files / name)
    add(name, image.convert("RGB"), op="rgb")
    add(name, image.convert("RGB").convert("L"), op="gray")


def png(name, colour_type, depth, width, height, rows, extra=b""):
    """A PNG by hand, for kinds that Pillow does not write."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, depth, colour_type, 0, 0, 0)
    body = zlib.compress(b"".join(b"\0" + r for r in rows))
    (files / name).write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra + chunk(b"IDAT", body) + chunk(b"IEND", b"")
    )


rgb = Image.fromarray(picture(29, 19, 3))
gray = Image.fromarray(picture(23, 17, 1)[..., 0])
rgb.save(files / "rgb.png")
gray.save(files / "gray.png")
alpha = Image.fromarray(picture(29, 19, 1)[..., 0])
rgba = rgb.copy()
rgba.putalpha(alpha)
rgba.save(files / "rgba.png")
grayalpha = gray.copy()
grayalpha.putalpha(Image.fromarray(picture(23, 17, 1)[..., 0]))
grayalpha.save(files / "gray_alpha.png")
rgb.quantize(14).save(files / "palette.png")
rgb.quantize(9).save(files / "palette_transparent.png", transparency=3)
rgb.save(files / "rgb_transparent.png", transparency=rgb.getpixel((3, 4)))
gray.convert("1").save(files / "bit.png")
deep = (np.asarray(rgb).astype(np.uint16) << 8) | rng.integers(0, 256, (19, 29, 3), dtype=np.uint16)
cv2.imwrite(str(files / "rgb16.png"), deep)
for bits in (2, 4):
    rows = [bytes(rng.integers(0, 256, 3, dtype=np.uint8)) for _ in range(5)]
    png(f"gray{bits}.png", 0, bits, 3 * 8 // bits - 1, 5, rows)
rgb.save(files / "rgb.bmp")
gray.save(files / "gray.bmp")
exact = [
    "rgb.png",
    "gray.png",
    "rgba.png",
    "gray_alpha.png",
    "palette.png",
    "palette_transparent.png",
    "rgb_transparent.png",
    "bit.png",
    "rgb16.png",
    "gray2.png",
    "gray4.png",
    "rgb.bmp",
    "gray.bmp",
]
odd = Image.fromarray(cv2.GaussianBlur(picture(45, 27, 3), (0, 0), 1.5))
for name, sub in (("444", 0), ("422", 1), ("420", 2)):
    odd.save(files / f"jpeg{name}.jpg", quality=88, subsampling=sub)
odd.convert("L").save(files / "jpeg_gray.jpg", quality=88)
odd.save(files / "jpeg_progressive.jpg", quality=88, subsampling=2, progressive=True)
for name in exact + ["jpeg444.jpg", "jpeg422.jpg", "jpeg420.jpg", "jpeg_gray.jpg", "jpeg_progressive.jpg"]:
    decoded(name)

for file, image in (("rgb.png", rgb), ("gray.png", gray)):
    for size in ((12, 7), (40, 33), (29, 8), (9, 19), (1, 1), (23, 40), (64, 3)):
        for number in range(6):
            add(file, image.resize(size, number), op="resize", filter=number)
    add(file, image.transpose(Image.Transpose.FLIP_LEFT_RIGHT), op="mirror")


def netpbm(name, magic, most, values):
    """A PGM or PPM by hand, as text if magic is P2 or P3: Pillow writes raw ones up to 255 only."""
    head = f"{magic}\n# a comment\n{values.shape[1]} {values.shape[0]}\n{most}\n".encode()
    text = " ".join(map(str, values.ravel())).encode()
    (files / name).write_bytes(
        head + (text if magic in ("P2", "P3") else values.astype(">u1" if most < 256 else ">u2").tobytes())
    )


odd_alpha = odd.copy()
odd_alpha.putalpha(Image.fromarray(picture(45, 27, 1)[..., 0]))
odd.save(files / "lossy.webp", quality=70)
odd_alpha.save(files / "lossy_alpha.webp", quality=30, exact=True)
rgba.save(files / "lossless.webp", lossless=True, exact=True)
rgb.save(files / "lzw.tif", compression="tiff_lzw")
rgba.save(files / "deflate.tif", compression="tiff_adobe_deflate")
rgb.quantize(14).save(files / "palette_packbits.tif", compression="packbits")
gray.save(files / "gray_big_endian.tif", big_endian=True)
for black_is_zero in (0, 1):
    for number in (3, 4):
        gray.convert("1").save(
            files / f"group{number}_{black_is_zero}.tif", compression=f"group{number}", tiffinfo={262: black_is_zero}
        )
rgb.save(files / "rgb.ppm")
gray.save(files / "gray.pgm")
netpbm("rgb_text.ppm", "P3", 1000, rng.integers(0, 1001, (5, 7, 3)))
netpbm("rgb16.ppm", "P6", 65535, rng.integers(0, 65536, (5, 7, 3)))
netpbm("gray_text.pgm", "P2", 15, rng.integers(0, 16, (6, 4)))
for name in [
    "lossy.webp",
    "lossy_alpha.webp",
    "lossless.webp",
    "lzw.tif",
    "deflate.tif",
    "palette_packbits.tif",
    "gray_big_endian.tif",
    "group3_0.tif",
    "group3_1.tif",
    "group4_0.tif",
    "group4_1.tif",
    "rgb.ppm",
    "gray.pgm",
    "rgb_text.ppm",
    "rgb16.ppm",
    "gray_text.pgm",
]:
    decoded(name)

(here / "golden.bin").write_bytes(bytes(blob))
(here / "golden.json").write_text(json.dumps({"pillow": PIL.__version__, "cases": cases}, indent=0))
