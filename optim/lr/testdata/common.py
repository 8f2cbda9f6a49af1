"""What the scripts here share: a parameter group to schedule, and the form of a golden file."""

import json, pathlib
import torch

GOLDEN = pathlib.Path(__file__).with_name("golden")


def optimizer(peak, betas=False):
    parameters = [torch.nn.Parameter(torch.zeros(1))]
    return torch.optim.Adam(parameters, lr=peak) if betas else torch.optim.SGD(parameters, lr=peak, momentum=0.5)


def momentum(opt):
    group = opt.param_groups[0]
    return group["betas"][0] if "betas" in group else group["momentum"]


def write(name, versions, cases, metrics=None):
    GOLDEN.mkdir(exist_ok=True)
    lines = ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases)
    versions = ", ".join(f"{m.__name__} {m.__version__}" for m in versions)
    shared = (
        ""
        if metrics is None
        else '"metrics":'
        + json.dumps({t: [float(m).hex() for m in ms] for t, ms in metrics.items()}, separators=(",", ":"))
        + ",\n"
    )
    (GOLDEN / f"{name}.json").write_text(f'{{"versions":"{versions}",{shared}"cases":[\n{lines}\n]}}\n')
    print(f"{name}: {len(cases)} cases")
