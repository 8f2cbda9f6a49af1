"""Records training runs of transformers' Trainer, Accelerate's loop and the raw PyTorch loop as conformance cases.

    python record.py FOLDER [NAME...]   # the runs of specs.json, or those named

Each run becomes FOLDER/PEER/NAME/{spec,trace}.json with a .safetensors file. `go run ./internal/conformance FOLDER`
replays them on the same machine; `make conformance-live` does both. Each run has a process of its own, on the code
paths of libtorch that the runner uses too (scripts/golden/pins.py).
"""

import json
import multiprocessing
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/golden"))
import pins  # noqa: E402, F401

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", CUDA_VISIBLE_DEVICES="")
import fingerprint  # noqa: E402
import torch  # noqa: E402
from goldenfile import save_file  # noqa: E402

import hf  # noqa: E402
import loops  # noqa: E402
import parts  # noqa: E402

PEERS = {"hf": hf.record, "course": loops.course, "accelerate": loops.accelerate}


def record(spec, folder):
    torch.set_num_threads(spec.get("threads", 1))
    os.makedirs(folder, exist_ok=True)
    json.dump(spec, open(f"{folder}/spec.json", "w"), indent=1)
    save_file(parts.make_data(spec), f"{folder}/data.safetensors")
    if spec.get("init", "file") == "file":
        save_file(parts.build({**spec, "init": {"seed": 1000}}, folder).state_dict(), f"{folder}/init.safetensors")
    torch.manual_seed(67280421310721)  # as a process begins
    trace, final = PEERS[spec["peer"]](spec, folder)
    env = {
        "torch": torch.__version__.split("+")[0],
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "mkl_cbwr": os.environ["MKL_CBWR"],
        "threads": torch.get_num_threads(),
    }
    open(f"{folder}/trace.json", "w").write(parts.dumps({"env": env, **trace}))
    if final:
        save_file(dict(sorted(final.items())), f"{folder}/final.safetensors")


def quietly(spec, folder):
    log = os.open(f"{folder}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1), os.dup2(log, 2)
    record(spec, folder)


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    root, only = sys.argv[1], sys.argv[2:]
    for spec in json.load(open(f"{here}/specs.json")):
        if only and spec["name"] not in only:
            continue
        folder = f"{root}/{spec['peer']}/{spec['name']}"
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        p = multiprocessing.get_context("fork").Process(target=quietly, args=(spec, folder))
        p.start()
        p.join()
        if p.exitcode:
            sys.exit(f"{folder}: recording failed, see {folder}.log")
        os.remove(f"{folder}.log")
        print("recorded", folder, flush=True)
    if pathlib.Path(root).resolve().parent.name == "testdata":
        fingerprint.hold(pathlib.Path(root).resolve().parent)


if __name__ == "__main__":
    main()
