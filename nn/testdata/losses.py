"""Writes cases of losses to layers/; see case.py."""

from case import case, spec  # first: it chooses the code paths of torch

import torch
from torch import nn

classes = torch.tensor([1, 4, 0, 3, 2, 2])
labels = lambda g: torch.randint(0, 2, (4, 3), generator=g).float() * 2 - 1
rand = lambda *s: lambda g: torch.rand(s, generator=g)
pair = dict(inputs={"x": (4, 3)}, constants={"target": (4, 3)})
scores = dict(inputs={"x": (6, 5)}, constants={"target": classes})
for r, reduction in enumerate(("mean", "sum", "none")):
    n = lambda t: f"{t.lower()}_{reduction}"
    for t in ("MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss"):
        case(n(t), spec(t, Reduction=r), **pair)
    case(n("CrossEntropyLoss"), spec("CrossEntropyLoss", Reduction=r), **scores)
    case(n("NLLLoss"), spec("NLLLoss", Reduction=r), **scores)
    case(n("MultiMarginLoss"), spec("MultiMarginLoss", Reduction=r), **scores)
    case(
        n("BCELoss"),
        spec("BCELoss", Reduction=r),
        inputs={"x": lambda g: torch.rand((4, 3), generator=g) * 0.8 + 0.1},
        constants={"target": rand(4, 3)},
    )
    case(
        n("BCEWithLogitsLoss"),
        spec("BCEWithLogitsLoss", Reduction=r),
        inputs={"x": (4, 3)},
        constants={"target": rand(4, 3)},
    )
    case(
        n("PoissonNLLLoss"), spec("PoissonNLLLoss", Reduction=r), inputs={"x": (4, 3)}, constants={"target": rand(4, 3)}
    )
    case(
        n("GaussianNLLLoss"),
        spec("GaussianNLLLoss", Reduction=r),
        inputs={"x": (4, 3), "target": (4, 3), "var": rand(4, 3)},
    )
    for t in ("SoftMarginLoss", "HingeEmbeddingLoss"):
        case(n(t), spec(t, Reduction=r), inputs={"x": (4, 3)}, constants={"target": labels})
    case(
        n("MultiLabelSoftMarginLoss"),
        spec("MultiLabelSoftMarginLoss", Reduction=r),
        inputs={"x": (4, 3)},
        constants={"target": rand(4, 3)},
    )
    case(
        n("MultiLabelMarginLoss"),
        spec("MultiLabelMarginLoss", Reduction=r),
        inputs={"x": (2, 4)},
        constants={"target": torch.tensor([[3, 0, -1, 1], [1, -1, 2, 2]])},
    )
    case(
        n("MarginRankingLoss"),
        spec("MarginRankingLoss", Reduction=r),
        inputs={"x": (5,), "x2": (5,)},
        constants={"target": torch.tensor([1.0, -1, 1, 1, -1])},
    )
    case(
        n("CosineEmbeddingLoss"),
        spec("CosineEmbeddingLoss", Reduction=r),
        inputs={"x": (5, 3), "x2": (5, 3)},
        constants={"target": torch.tensor([1.0, -1, 1, 1, -1])},
    )
    for t in ("TripletMarginLoss", "TripletMarginWithDistanceLoss"):
        case(n(t), spec(t, Reduction=r), inputs={"x": (4, 3), "p": (4, 3), "n": (4, 3)})
    ctc = dict(
        inputs={"x": lambda g: torch.randn((8, 3, 6), generator=g).log_softmax(2)},
        constants={
            "target": lambda g: torch.randint(1, 6, (3, 5), generator=g),
            "il": torch.tensor([8, 8, 7]),
            "tl": torch.tensor([3, 5, 2]),
        },
    )
    case(n("CTCLoss"), spec("CTCLoss", Reduction=r), **ctc)
for r, reduction in enumerate(("mean", "sum", "none", "batchmean")):
    case(
        f"kldivloss_{reduction}", spec("KLDivLoss", Reduction=r), inputs={"x": (4, 3)}, constants={"target": rand(4, 3)}
    )
case("kldivloss_log", spec("KLDivLoss", Reduction=3, LogTarget=True), **pair)
case("smoothl1loss_beta", spec("SmoothL1Loss", Beta=0.3), **pair)
case("smoothl1loss_zero", spec("SmoothL1Loss", Beta=0.0), **pair)
case("huberloss_delta", spec("HuberLoss", Delta=0.3), **pair)
weighted = dict(inputs={"x": (6, 5)}, constants={"target": classes, "weight": rand(5)}, call=["x", "target"])
case(
    "crossentropyloss_options", spec("CrossEntropyLoss", Weight="weight", IgnoreIndex=2, LabelSmoothing=0.1), **weighted
)
case("nllloss_options", spec("NLLLoss", Weight="weight", IgnoreIndex=2), **weighted)
case("multimarginloss_options", spec("MultiMarginLoss", Weight="weight", P=2, Margin=0.5), **weighted)
case(
    "bceloss_weight",
    spec("BCELoss", Weight="weight"),
    inputs={"x": rand(4, 3)},
    constants={"target": rand(4, 3), "weight": rand(3)},
    call=["x", "target"],
)
case(
    "bcewithlogitsloss_weights",
    spec("BCEWithLogitsLoss", Weight="weight", PosWeight="pos"),
    inputs={"x": (4, 3)},
    constants={"target": rand(4, 3), "weight": rand(4, 3), "pos": rand(3)},
    call=["x", "target"],
)
case(
    "multilabelsoftmarginloss_weight",
    spec("MultiLabelSoftMarginLoss", Weight="weight"),
    inputs={"x": (4, 3)},
    constants={"target": rand(4, 3), "weight": rand(3)},
    call=["x", "target"],
)
case(
    "poissonnllloss_options",
    spec("PoissonNLLLoss", NotLog=True, Full=True, Eps=1e-3),
    inputs={"x": rand(4, 3)},
    constants={"target": lambda g: torch.rand(4, 3, generator=g) * 4},
)
case(
    "gaussiannllloss_row",
    spec("GaussianNLLLoss", Full=True, Eps=0.4),
    inputs={"x": (4, 3), "target": (4, 3), "var": rand(4)},
)
case("gaussiannllloss_one", spec("GaussianNLLLoss"), inputs={"x": (4, 3), "target": (4, 3), "var": rand(1, 3)})
case(
    "hingeembeddingloss_margin",
    spec("HingeEmbeddingLoss", Margin=0.3),
    inputs={"x": (4, 3)},
    constants={"target": labels},
)
case(
    "marginrankingloss_margin",
    spec("MarginRankingLoss", Margin=0.3),
    inputs={"x": (5,), "x2": (5,)},
    constants={"target": torch.tensor([1.0, -1, 1, 1, -1])},
)
case(
    "cosineembeddingloss_margin",
    spec("CosineEmbeddingLoss", Margin=0.3),
    inputs={"x": (5, 3), "x2": (5, 3)},
    constants={"target": torch.tensor([1.0, -1, 1, 1, -1])},
)
case(
    "tripletmarginloss_options",
    spec("TripletMarginLoss", Margin=0.5, P=1.0, Eps=1e-4, Swap=True),
    inputs={"x": (4, 3), "p": (4, 3), "n": (4, 3)},
)
case(
    "tripletmarginwithdistanceloss_options",
    spec("TripletMarginWithDistanceLoss", Margin=2.0, Swap=True),
    inputs={"x": (4, 3), "p": (4, 3), "n": (4, 3)},
)
case(
    "ctcloss_options",
    spec("CTCLoss", Blank=5, ZeroInfinity=True),
    **(
        ctc
        | {
            "constants": ctc["constants"]
            | {"target": lambda g: torch.randint(0, 5, (3, 5), generator=g), "il": torch.tensor([8, 2, 7])}
        }
    ),
)

words = dict(inputs={"x": (9, 16)}, constants={"target": torch.tensor([0, 4, 5, 9, 10, 19, 2, 12, 3])})
adaptive = spec("AdaptiveLogSoftmaxWithLoss", 16, 20, [5, 10])
make = lambda **kw: lambda: nn.AdaptiveLogSoftmaxWithLoss(16, 20, [5, 10], **kw)
case("adaptivelogsoftmax", adaptive, make(), **words)
case(
    "adaptivelogsoftmax_common", adaptive, make(), inputs={"x": (3, 16)}, constants={"target": torch.tensor([0, 4, 1])}
)
options = spec("AdaptiveLogSoftmaxWithLoss", 16, 20, [5, 10], DivValue=2.0, HeadBias=True)
case("adaptivelogsoftmax_options", options, make(div_value=2.0, head_bias=True), **words)
case(
    "adaptivelogsoftmax_logprob",
    adaptive,
    make(),
    x=(6, 16),
    method="LogProb",
    call=["x"],
    run=lambda m, i: m.log_prob(i["x"]),
)
case(
    "adaptivelogsoftmax_predict",
    adaptive,
    make(),
    x=(40, 16),
    method="Predict",
    call=["x"],
    run=lambda m, i: m.predict(i["x"]),
)
