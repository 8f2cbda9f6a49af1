"""Writes cases of the commonest layers to layers/; see case.py."""

from case import case, spec  # first: it chooses the code paths of torch

import torch
from torch import nn

case("linear", spec("Linear", 5, 3), lambda: nn.Linear(5, 3), (4, 5))
case("linear_nobias_3d", spec("Linear", 7, 9, NoBias=True), lambda: nn.Linear(7, 9, bias=False), (2, 3, 7))
case("linear_float64", spec("Linear", 5, 3, dtype="float64"), lambda: nn.Linear(5, 3, dtype=torch.float64), (4, 5))
case("linear_large", spec("Linear", 96, 64), lambda: nn.Linear(96, 64), (16, 96))

case("conv1d", spec("Conv1d", 4, 6, [3]), lambda: nn.Conv1d(4, 6, 3), (2, 4, 9))
case(
    "conv1d_options",
    spec("Conv1d", 4, 6, [3], Stride=[2], Padding=[2], Dilation=[2], Groups=2, NoBias=True),
    lambda: nn.Conv1d(4, 6, 3, stride=2, padding=2, dilation=2, groups=2, bias=False),
    (2, 4, 11),
)
case("conv2d", spec("Conv2d", 3, 8, [3], Padding=[1]), lambda: nn.Conv2d(3, 8, 3, padding=1), (2, 3, 7, 6))
case(
    "conv2d_options",
    spec("Conv2d", 4, 6, [3, 2], Stride=[2, 1], Padding=[0, 1], Dilation=[1, 2], Groups=2, NoBias=True),
    lambda: nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(0, 1), dilation=(1, 2), groups=2, bias=False),
    (2, 4, 8, 9),
)
case(
    "conv2d_depthwise",
    spec("Conv2d", 8, 8, [3], Padding=[1], Groups=8),
    lambda: nn.Conv2d(8, 8, 3, padding=1, groups=8),
    (2, 8, 6, 6),
)

case("batchnorm1d", spec("BatchNorm1d", 5), lambda: nn.BatchNorm1d(5), (8, 5), perturb=True)
case(
    "batchnorm1d_3d",
    spec("BatchNorm1d", 5, Eps=1e-3, Momentum=0.3),
    lambda: nn.BatchNorm1d(5, eps=1e-3, momentum=0.3),
    (4, 5, 6),
    perturb=True,
    forwards=2,
)
case("batchnorm2d", spec("BatchNorm2d", 4), lambda: nn.BatchNorm2d(4), (3, 4, 5, 6), perturb=True)
case(
    "batchnorm2d_cumulative",
    spec("BatchNorm2d", 4, Cumulative=True),
    lambda: nn.BatchNorm2d(4, momentum=None),
    (3, 4, 5, 6),
    perturb=True,
    forwards=3,
)
case("batchnorm2d_plain", spec("BatchNorm2d", 4, NoAffine=True), lambda: nn.BatchNorm2d(4, affine=False), (3, 4, 5, 6))
case(
    "batchnorm2d_nostats",
    spec("BatchNorm2d", 4, NoRunningStats=True),
    lambda: nn.BatchNorm2d(4, track_running_stats=False),
    (3, 4, 5, 6),
    perturb=True,
)

case("syncbatchnorm", spec("SyncBatchNorm", 4), lambda: nn.SyncBatchNorm(4), (3, 4, 5, 6), perturb=True, forwards=2)
case(
    "syncbatchnorm_options",
    spec("SyncBatchNorm", 5, Eps=1e-3, Momentum=0.3),
    lambda: nn.SyncBatchNorm(5, eps=1e-3, momentum=0.3),
    (8, 5),
    perturb=True,
)

case("layernorm", spec("LayerNorm", [16]), lambda: nn.LayerNorm(16), (3, 5, 16), perturb=True)
case(
    "layernorm_2d",
    spec("LayerNorm", [4, 6], Eps=1e-12),
    lambda: nn.LayerNorm((4, 6), eps=1e-12),
    (3, 4, 6),
    perturb=True,
)
case("layernorm_nobias", spec("LayerNorm", [8], NoBias=True), lambda: nn.LayerNorm(8, bias=False), (3, 8), perturb=True)
case(
    "layernorm_plain", spec("LayerNorm", [8], NoAffine=True), lambda: nn.LayerNorm(8, elementwise_affine=False), (3, 8)
)

ids = lambda g: torch.randint(0, 10, (3, 5), generator=g)
case("embedding", spec("Embedding", 10, 4), lambda: nn.Embedding(10, 4), ids)
case(
    "embedding_padding",
    spec("Embedding", 10, 4, PaddingIdx=0),
    lambda: nn.Embedding(10, 4, padding_idx=0),
    ids,
    perturb=True,
)
case(
    "embedding_padding_negative",
    spec("Embedding", 10, 4, PaddingIdx=-3),
    lambda: nn.Embedding(10, 4, padding_idx=-3),
    ids,
)
case(
    "embedding_scaled",
    spec("Embedding", 10, 4, ScaleGradByFreq=True, PaddingIdx=2),
    lambda: nn.Embedding(10, 4, padding_idx=2, scale_grad_by_freq=True),
    ids,
)
case(
    "embedding_max_norm",
    spec("Embedding", 10, 4, MaxNorm=1.0),
    lambda: nn.Embedding(10, 4, max_norm=1.0),
    ids,
    perturb=True,
)
case(
    "embedding_max_norm_1",
    spec("Embedding", 10, 4, MaxNorm=1.5, NormType=1.0),
    lambda: nn.Embedding(10, 4, max_norm=1.5, norm_type=1.0),
    ids,
    forwards=2,
)

case("dropout", spec("Dropout", 0.3), lambda: nn.Dropout(0.3), (4, 9), forwards=2)
case("dropout_none", spec("Dropout", 0.0), lambda: nn.Dropout(0.0), (4, 9))
case("dropout_all", spec("Dropout", 1.0), lambda: nn.Dropout(1.0), (4, 9))
for t, m in dict(
    ReLU=nn.ReLU, SiLU=nn.SiLU, Tanh=nn.Tanh, Sigmoid=nn.Sigmoid, GELU=nn.GELU, Identity=nn.Identity, Flatten=nn.Flatten
).items():
    case(t.lower(), spec(t), m, (3, 4, 5))
case("gelu_tanh", spec("GELU", Approximate="tanh"), lambda: nn.GELU(approximate="tanh"), (3, 4, 5))
case("flatten_middle", spec("Flatten", StartDim=0, EndDim=-2), lambda: nn.Flatten(0, -2), (3, 4, 5))

case("maxpool2d", spec("MaxPool2d", [2]), lambda: nn.MaxPool2d(2), (2, 3, 7, 6))
case(
    "maxpool2d_options",
    spec("MaxPool2d", [3, 2], Stride=[2, 1], Padding=[1], Dilation=[1, 2], CeilMode=True),
    lambda: nn.MaxPool2d((3, 2), stride=(2, 1), padding=1, dilation=(1, 2), ceil_mode=True),
    (2, 3, 8, 9),
)
case("avgpool2d", spec("AvgPool2d", [2]), lambda: nn.AvgPool2d(2), (2, 3, 7, 6))
case(
    "avgpool2d_options",
    spec("AvgPool2d", [3, 2], Stride=[2], Padding=[1], CeilMode=True, ExcludePad=True),
    lambda: nn.AvgPool2d((3, 2), stride=2, padding=1, ceil_mode=True, count_include_pad=False),
    (2, 3, 8, 9),
)
case(
    "avgpool2d_divisor",
    spec("AvgPool2d", [2], DivisorOverride=3),
    lambda: nn.AvgPool2d(2, divisor_override=3),
    (2, 3, 6, 6),
)

for t, m, n in (("LSTM", nn.LSTM, 2), ("GRU", nn.GRU, 1)):
    low = t.lower()
    case(low, spec(t, 5, 4), lambda: m(5, 4), (6, 3, 5))
    case(
        f"{low}_states",
        spec(t, 5, 4, Layers=2, NoBias=True),
        lambda: m(5, 4, num_layers=2, bias=False),
        (6, 3, 5),
        states=[(2, 3, 4)] * n,
    )
    case(
        f"{low}_bidirectional",
        spec(t, 5, 4, Layers=2, Bidirectional=True, BatchFirst=True, Dropout=0.2),
        lambda: m(5, 4, num_layers=2, bidirectional=True, batch_first=True, dropout=0.2),
        (3, 6, 5),
        forwards=2,
    )
    case(
        f"{low}_unbatched",
        spec(t, 5, 4, Bidirectional=True, BatchFirst=True),
        lambda: m(5, 4, bidirectional=True, batch_first=True),
        (6, 5),
        states=[(2, 4)] * n,
    )
    case(f"{low}_unbatched_zeros", spec(t, 5, 4), lambda: m(5, 4), (6, 5))

mlp = [
    spec("Linear", 12, 16),
    spec("ReLU"),
    spec("Dropout", 0.2),
    spec("Sequential", spec("Linear", 16, 8), spec("GELU")),
    spec("LayerNorm", [8]),
    spec("Linear", 8, 3),
]
case(
    "sequential_mlp",
    spec("Sequential", *mlp),
    lambda: nn.Sequential(
        nn.Linear(12, 16),
        nn.ReLU(),
        nn.Dropout(0.2),
        nn.Sequential(nn.Linear(16, 8), nn.GELU()),
        nn.LayerNorm(8),
        nn.Linear(8, 3),
    ),
    (6, 12),
)
cnn = [
    spec("Conv2d", 1, 8, [3], Padding=[1]),
    spec("BatchNorm2d", 8),
    spec("ReLU"),
    spec("MaxPool2d", [2]),
    spec("Conv2d", 8, 16, [3], NoBias=True),
    spec("BatchNorm2d", 16),
    spec("SiLU"),
    spec("AvgPool2d", [2]),
    spec("Flatten"),
    spec("Dropout", 0.5),
    spec("Linear", 96, 10),
]
case(
    "sequential_cnn",
    spec("Sequential", *cnn),
    lambda: nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, bias=False),
        nn.BatchNorm2d(16),
        nn.SiLU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.Linear(96, 10),
    ),
    (4, 1, 12, 16),
    forwards=2,
)
