"""Files of torch.save for the tests: python files.py writes them beside it, with the tensors as torch.load returns them
in want.safetensors.

Needs torch 2.11.0.
"""

import collections
import os

import numpy
import torch
from safetensors.torch import save_file

os.chdir(os.path.dirname(os.path.abspath(__file__)))
torch.manual_seed(1)
base = torch.arange(24, dtype=torch.float32).view(2, 3, 4)
state = collections.OrderedDict(
    contiguous=base.clone(),
    transposed=base.clone().permute(2, 0, 1),
    sliced=base[:, 1:, ::2],
    shared=base[1],
    scalar=torch.tensor(2.5),
    empty=torch.zeros(0, 3),
    parameter=torch.nn.Parameter(torch.randn(3)),
    ones=torch.ones(1, 1, 1),
    **{
        str(d).removeprefix("torch."): torch.tensor([0, 1, 2]).to(d)
        for d in [
            torch.float64,
            torch.float16,
            torch.bfloat16,
            torch.int64,
            torch.int32,
            torch.int16,
            torch.int8,
            torch.uint8,
            torch.bool,
            torch.complex64,
        ]
    },
)
torch.save(state, "state.bin")
newer = {
    str(d).removeprefix("torch."): torch.tensor([0, 1, 2]).to(d)
    for d in [torch.uint16, torch.uint32, torch.uint64, torch.float8_e5m2, torch.float8_e4m3fn]
}
torch.save(newer, "newer.bin")

model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.25)
model(torch.ones(2, 2)).sum().backward()
optimizer.step()
checkpoint = {
    "model": model.state_dict(),
    "optimizer": optimizer.state_dict(),
    "epoch": 3,
    "best": 0.5,
    "name": "run \u00e9",
    "none": None,
    "yes": True,
    "big": 2**70,
    "negative": -7,
    "large": 1 << 40,
    "tuple": (1, (2, 3)),
    "dtype": torch.float32,
    "device": torch.device("cpu"),
    "size": torch.Size([2, 3]),
    "list": list(range(300)),
    "less": -(2**70),
}
torch.save(checkpoint, "checkpoint.pt")
torch.save(checkpoint, "protocol4.pt", pickle_protocol=4)
torch.save(checkpoint, "protocol5.pt", pickle_protocol=5)
if not os.path.exists("legacy.bin"):  # the old format holds addresses
    torch.save(state, "legacy.bin", _use_new_zipfile_serialization=False)
torch.save(model, "module.pt")
torch.save({"a": torch.ones(2, dtype=torch.complex128)}, "complex128.pt")
torch.save({"a": torch.ones(1).expand(1000)}, "expanded.pt")
arrays = {
    "words": numpy.arange(2**32 - 3, 2**32, dtype=numpy.uint32),
    "table": numpy.arange(6, dtype=numpy.float64).reshape(2, 3),
    "empty": numpy.zeros((0, 2), dtype=numpy.int64),
}
torch.save(arrays, "arrays.pt")
torch.save(arrays, "arrays4.pt", pickle_protocol=4)
torch.save({"a": numpy.zeros(2, dtype=">u4")}, "bigendian.pt")
torch.save({"a": numpy.asfortranarray(numpy.zeros((2, 3)))}, "fortran.pt")
if not os.path.exists("script.pt"):  # TorchScript writes other bytes each time
    torch.jit.script(torch.nn.Linear(1, 1)).save("script.pt")


def tensors(prefix, v, out):
    if isinstance(v, torch.Tensor):
        out[prefix] = v.detach().contiguous().clone()
    elif isinstance(v, dict):
        for k, x in v.items():
            tensors(f"{prefix}.{k}" if prefix else str(k), x, out)
    elif isinstance(v, (list, tuple)):
        for k, x in enumerate(v):
            tensors(f"{prefix}.{k}" if prefix else str(k), x, out)
    return out


for name, v in {"state": state, "newer": newer, "checkpoint": checkpoint}.items():
    save_file(tensors("", v, {}), f"{name}.safetensors", metadata={"torch": torch.__version__})
