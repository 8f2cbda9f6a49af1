"""Writes cases of activations to layers/; see case.py."""

from case import case, spec  # first: it chooses the code paths of torch

for t in "ReLU6 SELU Hardswish Hardsigmoid Mish Softsign Tanhshrink LogSigmoid Softplus Softshrink Hardshrink LeakyReLU ELU CELU Hardtanh PReLU".split():
    case(t.lower(), spec(t), x=(3, 4, 5))
case("threshold", spec("Threshold", Threshold=0.2, Value=-3.0), x=(3, 4, 5))
case("leakyrelu_slope", spec("LeakyReLU", NegativeSlope=0.3), x=(3, 4, 5))
case("elu_alpha", spec("ELU", Alpha=0.7), x=(3, 4, 5))
case("celu_alpha", spec("CELU", Alpha=2.0), x=(3, 4, 5))
case("hardtanh_limits", spec("Hardtanh", Min=-0.3, Max=0.6), x=(3, 4, 5))
case("softplus_options", spec("Softplus", Beta=2.5, Threshold=1.0), x=(3, 4, 5))
case("softshrink_lambda", spec("Softshrink", Lambda=0.2), x=(3, 4, 5))
case("hardshrink_lambda", spec("Hardshrink", Lambda=0.0), x=(3, 4, 5))
case("prelu_channels", spec("PReLU", Channels=4, Init=0.1), x=(3, 4, 5), perturb=True)
case("rrelu", spec("RReLU"), x=(3, 4, 5), forwards=2)
case("rrelu_limits", spec("RReLU", Lower=0.2, Upper=0.9), x=(3, 4, 5))
case("glu", spec("GLU"), x=(3, 4, 6))
case("glu_dim", spec("GLU", Dim=1), x=(3, 4, 5))
for t in "Softmax LogSoftmax Softmin".split():
    case(t.lower(), spec(t, Dim=1), x=(3, 4, 5))
    case(t.lower() + "_last", spec(t, Dim=-1), x=(3, 4, 5))
case("softmax2d", spec("Softmax2d"), x=(2, 3, 4, 5))
case("softmax2d_unbatched", spec("Softmax2d"), x=(3, 4, 5))
