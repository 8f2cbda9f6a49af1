"""Writes cases of pooling, padding and resizing to layers/; see case.py."""

from case import case, spec  # first: it chooses the code paths of torch

import torch
import torch.nn.functional as F

shapes = {1: (2, 3, 11), 2: (2, 3, 9, 8), 3: (2, 2, 5, 6, 5)}
for d, shape in shapes.items():
    if d != 2:
        case(f"maxpool{d}d", spec(f"MaxPool{d}d", [2]), x=shape)
        case(
            f"maxpool{d}d_options",
            spec(f"MaxPool{d}d", [3], Stride=[2], Padding=[1], Dilation=[1], CeilMode=True),
            x=shape,
        )
        case(f"avgpool{d}d", spec(f"AvgPool{d}d", [2]), x=shape)
        case(
            f"avgpool{d}d_options",
            spec(f"AvgPool{d}d", [3], Stride=[2], Padding=[1], CeilMode=True, ExcludePad=True),
            x=shape,
        )
    case(
        f"maxpool{d}d_indices",
        spec(f"MaxPool{d}d", [3], Stride=[2]),
        x=shape,
        method="ForwardIndices",
        call=["x"],
        run=lambda m, i: getattr(F, f"max_pool{d}d")(i["x"], 3, 2, return_indices=True),
    )
    case(f"maxpool{d}d_unbatched", spec(f"MaxPool{d}d", [2]), x=shape[1:])
    for a in ("Avg", "Max"):
        case(f"adaptive{a.lower()}pool{d}d", spec(f"Adaptive{a}Pool{d}d", [3]), x=shape)
        case(f"adaptive{a.lower()}pool{d}d_unbatched", spec(f"Adaptive{a}Pool{d}d", [4, 2, 3][:d]), x=shape[1:])
    case(f"adaptiveavgpool{d}d_one", spec(f"AdaptiveAvgPool{d}d", [1]), x=shape)
    case(f"lppool{d}d", spec(f"LPPool{d}d", 2.0, [2]), x=shape)
    case(
        f"lppool{d}d_options",
        spec(f"LPPool{d}d", 3.0, [3], Stride=[2], CeilMode=True),
        x=lambda g: torch.rand(shape, generator=g) + 0.1,
    )
    for n, size in (("", {1: (10,), 2: (8, 6), 3: (4, 6, 2)}[d]), ("_size", {1: (11,), 2: (9, 6), 3: (5, 7, 3)}[d])):
        values, indices = getattr(F, f"max_pool{d}d")(
            torch.randn((2, 3) + size, generator=torch.Generator().manual_seed(d)), 2, return_indices=True
        )
        want = list(size) if n else None
        case(
            f"maxunpool{d}d{n}",
            spec(f"MaxUnpool{d}d", [2]),
            inputs={"x": lambda g: values.clone()},
            constants={"indices": indices},
            call=["x", "indices", want],
            run=lambda m, i: m(i["x"], i["indices"], output_size=want),
        )
    if d > 1:
        case(f"fractionalmaxpool{d}d", spec(f"FractionalMaxPool{d}d", [2], Size=[3]), x=shape)
        case(f"fractionalmaxpool{d}d_ratio", spec(f"FractionalMaxPool{d}d", [2] * d, Ratio=[0.6]), x=shape, forwards=2)
        case(f"fractionalmaxpool{d}d_unbatched", spec(f"FractionalMaxPool{d}d", [2], Size=[3] * d), x=shape[1:])
    pads = [[2], [1, 2, 0, 1, 2, 1][: 2 * d]]
    for n in ("ZeroPad", "ReflectionPad", "ReplicationPad", "CircularPad"):
        for i, p in enumerate(pads):
            case(f"{n.lower()}{d}d_{i}", spec(f"{n}{d}d", p), x=shape)
    case(f"zeropad{d}d_negative", spec(f"ZeroPad{d}d", [-1, 1] + [-2, 0] * (d - 1)), x=shape)
    case(f"constantpad{d}d", spec(f"ConstantPad{d}d", [1] * 2 * d, 2.5), x=shape)
    case(f"replicationpad{d}d_unbatched", spec(f"ReplicationPad{d}d", [1]), x=shape[1:])

    modes = ["nearest", "nearest-exact", "area", {1: "linear", 2: "bilinear", 3: "trilinear"}[d]] + (
        ["bicubic"] if d == 2 else []
    )
    for m in modes:
        n = f"upsample{d}d_{m.replace('-', '_')}"
        case(f"{n}_size", spec("Upsample", Size=[7] * d, Mode=m), x=shape)
        case(f"{n}_scale", spec("Upsample", Scale=[1.7] * d if d > 1 else [1.7], Mode=m), x=shape)
        if m != "area":
            case(f"{n}_recompute", spec("Upsample", Scale=[0.6], Mode=m, Recompute=True), x=shape)
        if m in ("linear", "bilinear", "trilinear", "bicubic"):
            case(f"{n}_corners", spec("Upsample", Scale=[2.0], Mode=m, AlignCorners=True), x=shape)
case(
    "adaptiveavgpool2d_keep",
    spec("AdaptiveAvgPool2d", [-1, 3]),
    lambda: torch.nn.AdaptiveAvgPool2d((None, 3)),
    x=shapes[2],
)
case("avgpool3d_divisor", spec("AvgPool3d", [2], DivisorOverride=3), x=shapes[3])
case("upsample_default", spec("Upsample", Scale=[2.0, 3.0]), x=shapes[2])
case("upsamplingnearest2d", spec("UpsamplingNearest2d", Scale=[2.0]), x=shapes[2])
case("upsamplingbilinear2d", spec("UpsamplingBilinear2d", Size=[12, 5]), x=shapes[2])
case("pixelshuffle", spec("PixelShuffle", Factor=2), x=(2, 12, 3, 4))
case("pixelunshuffle", spec("PixelUnshuffle", Factor=2), x=(2, 3, 6, 4))
case("channelshuffle", spec("ChannelShuffle", Groups=3), x=(2, 6, 3, 4))
case("unfold", spec("Unfold", Kernel=[2, 3]), x=shapes[2])
case("unfold_options", spec("Unfold", Kernel=[3], Dilation=[2], Padding=[1, 2], Stride=[2, 1]), x=shapes[2])
case("fold", spec("Fold", Size=[4, 5], Kernel=[2, 3]), x=(2, 18, 9))
case("fold_options", spec("Fold", Size=[6], Kernel=[3], Padding=[1], Stride=[2, 1], Dilation=[1]), x=(2, 18, 18))
case("unflatten", spec("Unflatten", Dim=1, Sizes=[2, 3]), x=(4, 6, 5))
case("unflatten_rest", spec("Unflatten", Dim=-1, Sizes=[-1, 5]), x=(4, 10))
case("pairwisedistance", spec("PairwiseDistance"), inputs={"x": (4, 5), "x2": (4, 5)})
case(
    "pairwisedistance_options",
    spec("PairwiseDistance", P=1.0, Eps=1e-3, KeepDim=True),
    inputs={"x": (4, 5), "x2": (4, 5)},
)
case("cosinesimilarity", spec("CosineSimilarity"), inputs={"x": (4, 5), "x2": (4, 5)})
case("cosinesimilarity_options", spec("CosineSimilarity", Dim=0, Eps=1e-3), inputs={"x": (4, 5), "x2": (4, 5)})
