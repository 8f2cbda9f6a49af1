"""Writes cases of convolutions, linear and embedding layers to layers/; see case.py."""

from case import case, spec  # first: it chooses the code paths of torch

import torch

case("bilinear", spec("Bilinear", 3, 4, 5), inputs={"x": (6, 3), "x2": (6, 4)})
case("bilinear_nobias", spec("Bilinear", 3, 4, 5, NoBias=True), inputs={"x": (2, 6, 3), "x2": (2, 6, 4)})
shapes = {1: (2, 4, 9), 2: (2, 4, 7, 6), 3: (2, 4, 5, 4, 6)}
for d, shape in shapes.items():
    n = f"conv{d}d"
    case(f"{n}_same", spec(f"Conv{d}d", 4, 6, [4], Same=True, Dilation=[2]), x=(1, 4) + (7, 6, 5)[:d])
    case(f"{n}_reflect", spec(f"Conv{d}d", 4, 6, [3], Padding=[2], PaddingMode="reflect"), x=shape)
    case(
        f"{n}_replicate",
        spec(
            f"Conv{d}d", 4, 6, [2] + [3] * (d - 1), Padding=list(range(1, d + 1)), PaddingMode="replicate", Stride=[2]
        ),
        x=shape,
    )
    case(
        f"{n}_circular_same",
        spec(f"Conv{d}d", 4, 4, [4] + [3] * (d - 1), Same=True, PaddingMode="circular", Groups=2, NoBias=True),
        x=shape,
    )
    t = f"ConvTranspose{d}d"
    case(f"convtranspose{d}d", spec(t, 4, 6, [3]), x=shape)
    case(
        f"convtranspose{d}d_options",
        spec(t, 4, 6, [3] * d, Stride=[3], Padding=[1], OutputPadding=[2], Groups=2, NoBias=True, Dilation=[2]),
        x=(2, 4) + (3, 2, 2)[:d],
    )
    small = (2, 4) + (4, 3, 3)[:d]
    size = [2 * s for s in small[2:]]
    case(
        f"convtranspose{d}d_size",
        spec(t, 4, 6, [3], Stride=[2], Padding=[1]),
        x=small,
        method="ForwardSize",
        call=["x", size],
        run=lambda m, i: m(i["x"], output_size=size),
    )
    case(f"convtranspose{d}d_unbatched", spec(t, 4, 6, [3]), x=shape[1:])
case("conv3d", spec("Conv3d", 4, 6, [3]), x=shapes[3])
case(
    "conv3d_options",
    spec("Conv3d", 4, 6, [3, 2, 2], Stride=[2, 1, 1], Padding=[1, 0, 1], Dilation=[1, 2, 1], Groups=2, NoBias=True),
    x=(2, 4, 6, 5, 6),
)
case("conv3d_unbatched", spec("Conv3d", 4, 6, [2]), x=shapes[3][1:])

ids = lambda g: torch.randint(0, 10, (3, 5), generator=g)
for mode, m in enumerate(("mean", "sum", "max")):
    case(f"embeddingbag_{m}", spec("EmbeddingBag", 10, 4, Mode=mode), x=ids)
    case(f"embeddingbag_{m}_padding", spec("EmbeddingBag", 10, 4, Mode=mode, PaddingIdx=-3), x=ids, perturb=True)
case("embeddingbag_frequency", spec("EmbeddingBag", 10, 4, ScaleGradByFreq=True), x=ids)
offsets = dict(
    constants={"x": torch.tensor([1, 5, 5, 2, 9, 0]), "offsets": torch.tensor([0, 2, 2, 5])}, inputs={"weights": (6,)}
)
case(
    "embeddingbag_offsets",
    spec("EmbeddingBag", 10, 4),
    **offsets,
    method="ForwardOffsets",
    call=["x", "offsets", None],
    run=lambda m, i: m(i["x"], i["offsets"]),
)
case(
    "embeddingbag_last_offset",
    spec("EmbeddingBag", 10, 4, IncludeLastOffset=True),
    **(offsets | {"constants": offsets["constants"] | {"offsets": torch.tensor([0, 2, 6])}}),
    method="ForwardOffsets",
    call=["x", "offsets", None],
    run=lambda m, i: m(i["x"], i["offsets"]),
)
case(
    "embeddingbag_weights",
    spec("EmbeddingBag", 10, 4, Mode=1),
    **offsets,
    method="ForwardOffsets",
    call=["x", "offsets", "weights"],
    run=lambda m, i: m(i["x"], i["offsets"], per_sample_weights=i["weights"]),
)
for n, t in (
    ("linear", spec("Linear", 5, 3)),
    ("conv2d", spec("Conv2d", 4, 6, [3])),
    ("convtranspose2d", spec("ConvTranspose2d", 4, 6, [3], NoBias=True)),
    ("conv1d", spec("Conv1d", 4, 6, [3], PaddingMode="circular", Padding=[1])),
):
    x = {"linear": (4, 5), "conv2d": shapes[2], "conv1d": shapes[1], "convtranspose2d": shapes[2]}[n]
    case(f"weightnorm_{n}", spec("WeightNorm", t, 0), x=x)
    case(f"spectralnorm_{n}", spec("SpectralNorm", t), x=x, forwards=2)
case("weightnorm_all", spec("WeightNorm", spec("Linear", 5, 3), -1), x=(4, 5))
case("weightnorm_1", spec("WeightNorm", spec("Conv2d", 4, 6, [3]), 1), x=shapes[2])
case("spectralnorm_options", spec("SpectralNorm", spec("Linear", 5, 3), PowerIterations=3, Eps=1e-6, Dim=1), x=(4, 5))
