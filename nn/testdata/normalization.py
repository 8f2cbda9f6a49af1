"""Writes cases of norms and dropouts to layers/; see case.py."""

from case import case, spec  # first: it chooses the code paths of torch

shapes = {1: (3, 4, 7), 2: (3, 4, 5, 6), 3: (3, 4, 2, 5, 3)}
case("batchnorm3d", spec("BatchNorm3d", 4), x=shapes[3], perturb=True, forwards=2)
case("batchnorm3d_plain", spec("BatchNorm3d", 4, NoAffine=True, NoRunningStats=True), x=shapes[3])
for d, shape in shapes.items():
    t = f"InstanceNorm{d}d"
    case(t.lower(), spec(t, 4), x=shape)
    case(t.lower() + "_affine", spec(t, 4, Affine=True, Eps=1e-3), x=shape, perturb=True)
    case(
        t.lower() + "_stats",
        spec(t, 4, Affine=True, RunningStats=True, Momentum=0.3),
        x=shape,
        perturb=True,
        forwards=2,
    )
    case(t.lower() + "_unbatched", spec(t, 4), x=shape[1:])
    for p in (0.0, 0.4, 1.0):
        case(f"dropout{d}d_{p:.1f}", spec(f"Dropout{d}d", p), x=(4, 6) + shape[2:], forwards=2)
    case(
        f"lrn_{d}d",
        spec("LocalResponseNorm", Size=d + 1, Alpha=0.5, Beta=0.6, K=2.0)
        if d > 1
        else spec("LocalResponseNorm", Size=3),
        x=shape,
    )
case("dropout1d_unbatched", spec("Dropout1d", 0.4), x=(6, 7))
case("dropout3d_unbatched", spec("Dropout3d", 0.4), x=(6, 2, 5, 3))
for p in (0.0, 0.3, 1.0):
    case(f"alphadropout_{p:.1f}", spec("AlphaDropout", p), x=(4, 9), forwards=2)
    case(f"featurealphadropout_{p:.1f}", spec("FeatureAlphaDropout", p), x=(4, 6, 5), forwards=2)
case("groupnorm", spec("GroupNorm", 2, 6), x=(3, 6, 5), perturb=True)
case("groupnorm_images", spec("GroupNorm", 3, 6, Eps=1e-3), x=(3, 6, 4, 4), perturb=True)
case("groupnorm_plain", spec("GroupNorm", 6, 6, NoAffine=True), x=(3, 6, 5))
case("groupnorm_one", spec("GroupNorm", 1, 6), x=(3, 6, 2, 2, 3), perturb=True)
case("rmsnorm", spec("RMSNorm", [16]), x=(3, 5, 16), perturb=True)
case("rmsnorm_2d", spec("RMSNorm", [4, 6], Eps=1e-6), x=(3, 4, 6), perturb=True)
case("rmsnorm_plain", spec("RMSNorm", [8], NoAffine=True), x=(3, 8))
