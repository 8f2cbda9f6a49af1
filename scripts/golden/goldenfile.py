"""Writes safetensors files whose bytes depend only on their content. safetensors itself orders metadata by a hash."""

import json
import struct

import safetensors.torch


def save_file(tensors, path, metadata=None):
    """safetensors.torch.save_file, with sorted metadata."""
    raw = safetensors.torch.save(dict(sorted(tensors.items())), metadata)
    end = 8 + struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:end])
    if "__metadata__" in header:
        header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + raw[end:])
