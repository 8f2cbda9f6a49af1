"""Writes cases of recurrent layers to layers/, and of packed sequences to packed.safetensors; see case.py."""

from case import case, spec  # first: it chooses the code paths of torch

import os

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn.utils import rnn

for kind in ("tanh", "relu"):
    options = {} if kind == "tanh" else {"Nonlinearity": "relu"}
    n = f"rnn_{kind}"
    case(n, spec("RNN", 5, 4, **options), x=(6, 3, 5))
    case(f"{n}_states", spec("RNN", 5, 4, Layers=2, NoBias=True, **options), x=(6, 3, 5), states=[(2, 3, 4)])
    case(
        f"{n}_bidirectional",
        spec("RNN", 5, 4, Layers=2, Bidirectional=True, BatchFirst=True, Dropout=0.2, **options),
        x=(3, 6, 5),
        forwards=2,
    )
    case(f"{n}_unbatched", spec("RNN", 5, 4, **options), x=(6, 5), states=[(1, 4)])
    case(f"rnncell_{kind}", spec("RNNCell", 5, 4, **options), x=(3, 5), states=[(3, 4)])
case("lstm_projection", spec("LSTM", 5, 4, ProjSize=3), x=(6, 3, 5))
case(
    "lstm_projection_options",
    spec("LSTM", 5, 4, ProjSize=2, Layers=2, Bidirectional=True, BatchFirst=True, Dropout=0.3),
    x=(3, 6, 5),
    states=[(4, 3, 2), (4, 3, 4)],
)
case("lstm_projection_unbatched", spec("LSTM", 5, 4, ProjSize=2, NoBias=True), x=(6, 5), states=[(1, 2), (1, 4)])
case("lstmcell", spec("LSTMCell", 5, 4), x=(3, 5), states=[(3, 4), (3, 4)])
case("lstmcell_zeros", spec("LSTMCell", 5, 4, NoBias=True), x=(3, 5))
case("lstmcell_unbatched", spec("LSTMCell", 5, 4), x=(5,), states=[(4,), (4,)])
case("grucell", spec("GRUCell", 5, 4), x=(3, 5), states=[(3, 4)])
case("grucell_zeros", spec("GRUCell", 5, 4, NoBias=True), x=(3, 5))
case("grucell_unbatched", spec("GRUCell", 5, 4), x=(5,), states=[(4,)])

out = {}
g = torch.Generator().manual_seed(5)
for order, lengths in (("sorted", [5, 3, 3, 1]), ("unsorted", [3, 5, 1, 3])):
    for layout in ("", "batch_first"):
        n = f"{order}.{layout or 'time_first'}"
        x = torch.randn((4, 6, 3) if layout else (6, 4, 3), generator=g)
        x.requires_grad_()
        p = rnn.pack_padded_sequence(x, lengths, batch_first=bool(layout), enforce_sorted=order == "sorted")
        padded, back = rnn.pad_packed_sequence(p, batch_first=bool(layout), padding_value=-2.0, total_length=7)
        gy = torch.randn(padded.shape, generator=g)
        grad = torch.autograd.grad(padded, x, gy, retain_graph=True)[0]
        out |= {
            f"{n}.x": x.detach(),
            f"{n}.lengths": back,
            f"{n}.data": p.data.detach(),
            f"{n}.batch_sizes": p.batch_sizes,
            f"{n}.padded": padded.detach(),
            f"{n}.gy": gy,
            f"{n}.grad": grad,
        }
        if order == "unsorted":
            out |= {f"{n}.sorted_indices": p.sorted_indices, f"{n}.unsorted_indices": p.unsorted_indices}
        if layout:
            continue
        for kind in ("RNN", "GRU", "LSTM", "LSTM_projection"):
            torch.manual_seed(11)
            proj = {"proj_size": 2} if "_" in kind else {}
            m = getattr(nn, kind.split("_")[0])(3, 4, num_layers=2, bidirectional=True, dropout=0.2, **proj)
            states = [torch.randn(4, 4, proj.get("proj_size", 4), generator=g)] + (
                [torch.randn(4, 4, 4, generator=g)] if "LSTM" in kind else []
            )
            torch.manual_seed(13)
            y, h = m(p, tuple(states) if len(states) > 1 else states[0])
            hs = list(h) if len(states) > 1 else [h]
            gy = torch.randn(y.data.shape, generator=g)
            x.grad = None
            torch.autograd.backward([y.data], [gy], retain_graph=True)
            k = f"{n}.{kind}"
            out |= {f"{k}.y": y.data.detach(), f"{k}.gy": gy, f"{k}.grad": x.grad.clone()}
            out |= {f"{k}.state{i}": s for i, s in enumerate(states)} | {
                f"{k}.h{i}": s.detach() for i, s in enumerate(hs)
            }
            out |= {f"{k}.grad.{name}": v.grad.clone() for name, v in m.named_parameters()}
save_file(
    {k: v.clone().contiguous() for k, v in out.items()}, "packed.safetensors", metadata={"torch": torch.__version__}
)
os.chmod("packed.safetensors", 0o644)
