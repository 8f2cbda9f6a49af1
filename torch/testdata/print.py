"""Writes print.json and print.safetensors: tensors, and the text that PyTorch prints for them."""

import json
import os
import pathlib

import torch
from safetensors.torch import save_file

here = pathlib.Path(__file__).parent
g = torch.Generator().manual_seed(7)
cases, tensors = [], {}


def case(name, t, grad="", **options):
    """grad: "leaf" sets requires_grad, "mul" multiplies by one with history."""
    tensors[name] = (
        (torch.view_as_real(t) if t.is_complex() else t).clone().contiguous()
    )  # safetensors has no complex128
    if grad == "leaf":
        t = t.clone().requires_grad_()
    elif grad == "mul":
        t = t.clone().requires_grad_() * 1
    elif grad == "view":
        t = t.clone().requires_grad_().view(-1)
    torch.set_printoptions(profile="default", sci_mode=None)
    if options:
        torch.set_printoptions(**options)
    cases.append({"name": name, "complex": t.is_complex(), "grad": grad, "options": options, "text": repr(t)})


def randn(*shape, dtype=torch.float32):
    return torch.randn(shape, generator=g).to(dtype)


for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
    d = str(dtype)[6:]
    for shape in ((), (1,), (3,), (2, 3), (2, 3, 4), (2, 1, 2, 3), (0,), (0, 3), (2, 0, 1), (25,), (1, 1)):
        case(f"randn-{d}-{'x'.join(map(str, shape)) or 'scalar'}", randn(*shape, dtype=dtype))
    case(f"whole-{d}", torch.arange(7).to(dtype))
    case(f"nonfinite-{d}", torch.tensor([float("nan"), float("inf"), -float("inf"), 1.5, -2.0]).to(dtype))
    case(f"nonfinite-whole-{d}", torch.tensor([float("nan"), float("inf"), -float("inf"), 100.0, -2.0]).to(dtype))
    case(f"zeros-{d}", torch.zeros(2, 2, dtype=dtype))
    case(f"range-{d}", torch.tensor([1e-3, 1.0, 100.0, -5.0]).to(dtype))
for name, values in {
    "small": [1e-5, 2e-5],
    "ratio-1000": [1.0, 1000.0],
    "ratio-1001": [1.5, 1501.6],
    "big": [1e8, 2e8],
    "over": [1.1e8, 2e8],
    "least": [1e-4, 2e-4],
    "negative-zero": [-0.0, 0.0, 1.0],
    "negative-zero-fraction": [-0.0, 0.5],
    "one-nan": [float("nan")],
    "denormal": [1e-40, 0.0],
    "huge": [3.4e38, 1.0],
    "whole-sci": [1.0, 100000.0],
    "whole-big": [123456.0, 99999999.0],
    "third": [1 / 3, 2 / 3],
    "minus": [-1.25, -100.125],
    "exponent-3": [1e-100, 1.0],
}.items():
    case(f"float-{name}", torch.tensor(values, dtype=torch.float64 if name == "exponent-3" else torch.float32))
case("all-infinite", torch.full((3,), float("inf")))
case("scalar-nan", torch.tensor(float("nan")))
case("scalar-sci", torch.tensor(1e-9))
case("scalar-whole", torch.tensor(5.0))
for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
    d = str(dtype)[6:]
    case(f"{d}", torch.tensor([0, 1, 127, 100, 7]).to(dtype))
    case(f"{d}-2d", torch.arange(12).reshape(3, 4).to(dtype))
    case(f"{d}-scalar", torch.tensor(42).to(dtype))
    case(f"{d}-empty", torch.empty(0, 2, dtype=dtype))
case("int64-negative", torch.tensor([[-5, 10], [300, -40000]]))
case("int64-extreme", torch.tensor([2**63 - 1, -(2**63)]))
case("int64-long", torch.arange(100))
case("bool", torch.tensor([True, False, True]))
case("bool-true", torch.tensor([True, True]))
case("bool-scalar", torch.tensor(False))
case("bool-2d", torch.tensor([[True, False], [False, False]]))
for dtype in (torch.complex64, torch.complex128):
    d = str(dtype)[6:]
    case(f"{d}", torch.complex(randn(4, dtype=torch.float64), randn(4, dtype=torch.float64)).to(dtype))
    case(f"{d}-2d", torch.complex(randn(2, 3, dtype=torch.float64), randn(2, 3, dtype=torch.float64)).to(dtype))
    case(f"{d}-whole", torch.tensor([1 + 2j, -3 - 40j, 0j]).to(dtype))
    case(f"{d}-scalar", torch.tensor(1.5 - 2.25j).to(dtype))
    case(f"{d}-nonfinite", torch.tensor([complex("nan"), complex("inf-1j"), 1 - 1j]).to(dtype))
    case(f"{d}-real-only", torch.tensor([1.5 + 0j, 2.5 + 0j]).to(dtype))
    case(f"{d}-sci", torch.tensor([1e-6 + 1j, 2 + 1e5j]).to(dtype))
    case(f"{d}-empty", torch.empty(0, dtype=dtype))
case("complex64-long", torch.complex(randn(30), randn(30)))
# summaries
case("summary-1d", torch.arange(1001))
case("no-summary-1d", torch.arange(1000))
case("summary-float", randn(2000))
case("summary-2d", randn(50, 50))
case("summary-wide", randn(2, 600))
case("summary-tall", randn(600, 2))
case("summary-3d", randn(10, 12, 11))
case("summary-4d", torch.arange(2 * 3 * 20 * 20).reshape(2, 3, 20, 20))
case("summary-edge-of-6", torch.arange(6 * 7 * 40).reshape(6, 7, 40))
case("summary-middle-not-counted", torch.cat([torch.ones(600), torch.full((1,), 1e9), torch.ones(600)]))
case("summary-bool", torch.arange(1200) % 3 == 0)
case("summary-complex", torch.complex(randn(1100), randn(1100)))
# options
x = randn(4, 5)
for precision in (0, 1, 2, 8):
    case(f"precision-{precision}", x, precision=precision)
for width in (20, 40, 120):
    case(f"linewidth-{width}", x, linewidth=width)
case("sci-always", x, sci_mode=True)
case("sci-always-whole", torch.tensor([1.0, 20.0]), sci_mode=True)
case("sci-never", torch.tensor([1e-9, 1e9, 1.0]), sci_mode=False)
case("sci-never-whole", torch.tensor([1.0, 1e12]), sci_mode=False)
case("threshold-5", x, threshold=5)
case("threshold-0", x, threshold=0)
case("threshold-0-scalar", torch.tensor(2.5), threshold=0)
case("edgeitems-1", randn(5, 6), threshold=5, edgeitems=1)
case("edgeitems-2", randn(5, 6, 7), threshold=5, edgeitems=2)
case("edgeitems-0-vector", randn(7), threshold=5, edgeitems=0)
case("edgeitems-0", randn(5, 6, 2), threshold=5, edgeitems=0)
case("edgeitems-0-not-summarised", randn(2), threshold=5, edgeitems=0)
# suffixes
case("leaf", randn(2, 2), grad="leaf")
case("leaf-scalar", torch.tensor(1.0), grad="leaf")
case("leaf-double", randn(3, dtype=torch.float64), grad="leaf")
case("history", randn(2, 2), grad="mul")
case("history-half", randn(2, 2, dtype=torch.float16), grad="mul")
case("history-view", randn(2, 2), grad="view")
case("history-empty", torch.empty(0, 3), grad="mul")
case("suffix-on-a-new-line", randn(7, dtype=torch.float64), grad="mul")
case("suffix-fits", randn(5), grad="mul")
case("leaf-complex", torch.complex(randn(2), randn(2)), grad="leaf")

save_file(tensors, here / "print.safetensors")
out = {"torch": torch.__version__.split("+")[0], "cases": cases}
(here / "print.json").write_text(json.dumps(out, indent=0) + "\n")
print(len(cases), "cases", os.path.getsize(here / "print.safetensors"), "bytes")
