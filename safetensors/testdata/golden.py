"""Writes golden.safetensors and empty.safetensors with the Python package safetensors 0.8.0 (torch 2.11.0).

The names try the header's escapes, the dtypes its order. golden_test.go writes the same tensors and compares every
byte.
"""

import pathlib
import torch
from safetensors.torch import save_file

here = pathlib.Path(__file__).parent
dtypes = {
    "bool": torch.bool,
    "u8": torch.uint8,
    "i8": torch.int8,
    "f8_e5m2": torch.float8_e5m2,
    "f8_e4m3": torch.float8_e4m3fn,
    "f8_e8m0": torch.float8_e8m0fnu,
    "f8_e4m3fnuz": torch.float8_e4m3fnuz,
    "f8_e5m2fnuz": torch.float8_e5m2fnuz,
    "i16": torch.int16,
    "u16": torch.uint16,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i32": torch.int32,
    "u32": torch.uint32,
    "f32": torch.float32,
    "c64": torch.complex64,
    "f64": torch.float64,
    "i64": torch.int64,
    "u64": torch.uint64,
}
tensors = {}
for name, dtype in dtypes.items():
    width = torch.empty((), dtype=dtype).element_size()
    # The bytes count up from 0, for bool they are 0 and 1: any bits are values of the other types.
    raw = torch.arange(6 * width) % (2 if name == "bool" else 256)
    tensors[name] = raw.to(torch.uint8).view(dtype).reshape(2, 3)
tensors["scalar"] = torch.tensor(1.5)
tensors["none"] = torch.empty(2, 0, dtype=torch.float32)
for name in ['quote"back\\slash/', "tab\tnew\nline\r\b\f\x01\x1f\x7f", "فارسی", "😀", "\u2028<&>", ""]:
    tensors[name] = torch.arange(3, dtype=torch.float32)
save_file(tensors, here / "golden.safetensors", metadata={"format": "pt"})
save_file({}, here / "empty.safetensors")
