"""Golden values from bitsandbytes: python quantized.py writes quantized.safetensors beside it. Needs bitsandbytes
0.50.2.
"""

import pathlib
import sys

here = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(here.parents[2] / "scripts/golden"))
import pins  # noqa: E402, F401

import bitsandbytes as bnb
import torch
from bitsandbytes.backends.default.ops import _dequantize_4bit_compute
from goldenfile import save_file

torch.set_num_threads(1)
formula = _dequantize_4bit_compute.__wrapped__
tensors = {}
g = torch.Generator().manual_seed(1)
# rows of whole blocks and of parts of them, part of a block, an odd number of weights, many blocks of blocks
for shape in ((32, 64), (32, 48), (10, 10), (3, 5), (132, 128)):
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        for kind in ("nf4", "fp4"):
            for double in (False, True):
                if (
                    dtype == torch.float16
                    and kind == "fp4"
                    or (shape[0] == 132 or shape == (32, 48))
                    and not (double and dtype == torch.float32 and kind == "nf4")
                ):
                    continue
                name = f"{shape[0]} {shape[1]} {str(dtype)[6:]} {kind} {double}"
                weight = (torch.randn(shape, generator=g) * 0.1).to(dtype)
                weight[0, 0] = 0
                layer = bnb.nn.Linear4bit(
                    shape[1],
                    shape[0],
                    compute_dtype=torch.bfloat16 if dtype == torch.bfloat16 else None,
                    compress_statistics=double,
                    quant_type=kind,
                )
                layer.support_avx512bf16_for_cpu = False  # another layout of the bits, for texts that are written
                bias = torch.randn(shape[0], generator=g)
                layer.weight = bnb.nn.Params4bit(
                    weight.clone(), requires_grad=False, compress_statistics=double, quant_type=kind
                ).to("cpu")
                layer.bias = torch.nn.Parameter(bias, requires_grad=False)
                tensors[name + " weight"] = weight
                tensors.update({f"{name} state.{k}": v.clone() for k, v in layer.state_dict().items()})
                if (
                    shape[1] % 64
                ):  # bitsandbytes' kernel for CPUs takes the sizes of other blocks there, by up to a whole largest size
                    s = layer.weight.quant_state
                    absmax = bnb.functional.dequantize_blockwise(s.absmax, s.state2) + s.offset if double else s.absmax
                    tensors[name + " float"] = formula(layer.weight.data.reshape(-1), absmax, s.code, 64, shape, dtype)
                    continue
                tensors[name + " float"] = bnb.functional.dequantize_4bit(layer.weight.data, layer.weight.quant_state)
                x = torch.randn(2, 3, shape[1], generator=g).to(dtype).requires_grad_()
                y = layer(x)
                y.float().square().sum().backward()
                tensors.update({name + " x": x.detach(), name + " y": y.detach(), name + " grad": x.grad})

save_file(
    {k: v.contiguous().clone() for k, v in tensors.items()},
    str(here / "quantized.safetensors"),
    metadata={"made with": f"torch {torch.__version__}, bitsandbytes {bnb.__version__}"},
)
