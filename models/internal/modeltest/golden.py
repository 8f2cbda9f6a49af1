"""Golden values from classifiers of transformers, for the scripts in the testdata of packages bert, roberta and
distilbert, which call write.

Needs transformers 5.17.0 and torch 2.11.0. The weights are not stored: seed 42 makes them, and the first 16 digits of
their sha256 tell whether ours are the same.
"""

import hashlib
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts/golden"))
import pins  # noqa: E402, F401

import tempfile

import torch
import transformers
from goldenfile import save_file

torch.set_num_threads(1)
SINGLE, REGRESSION, MULTI = "single_label_classification", "regression", "multi_label_classification"


def sha(t):
    return hashlib.sha256(t.detach().contiguous().numpy().tobytes()).hexdigest()[:16]


def write(path, config, model, base, sizes, pad, typed, names):
    """Writes path.safetensors and path.json. names maps dropout, attention, act and classifier to the names of the
    settings; typed: there are token types.
    """
    g = torch.Generator().manual_seed(3)
    ids = torch.randint(max(1, pad + 1), 50, (4, 9), generator=g)
    types = torch.randint(0, 2, (4, 9), generator=g)
    mask = torch.ones(4, 9, dtype=torch.long)
    for row, length in enumerate([9, 4, 7, 1]):
        mask[row, length:] = 0
        ids[row, length:] = pad
    tensors = {
        "ids": ids,
        "types": types,
        "mask": mask,
        "labels.single": torch.tensor([2, 0, 1, 1]),
        "labels.regression": torch.randn(4, generator=g),
        "labels.regression3": torch.randn(4, 3, generator=g),
        "labels.multi": (torch.rand(4, 3, generator=g) > 0.5).float(),
    }
    cases = []

    def make(attention="sdpa", **settings):
        torch.manual_seed(42)
        made = model._from_config(config(**sizes, **settings), attn_implementation=attention)
        return made, sha(torch.get_rng_state())

    def case(
        name,
        attention="sdpa",
        masked=True,
        full=False,
        types_given=typed,
        dropout=0.1,
        problem=SINGLE,
        labels="single",
        num_labels=3,
        bf16=False,
        checkpointing=False,
        act="gelu",
        classifier_dropout=None,
    ):
        settings = {names["dropout"]: dropout, names["attention"]: dropout, names["act"]: act}
        if classifier_dropout is not None:
            settings[names["classifier"]] = classifier_dropout
        made, _ = make(attention, num_labels=num_labels, problem_type=problem, **settings)
        made.train()
        if checkpointing:
            made.gradient_checkpointing_enable()
        inputs = dict(input_ids=ids, attention_mask=torch.ones_like(mask) if full else mask if masked else None)
        if types_given:
            inputs["token_type_ids"] = types
        torch.manual_seed(7)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            out = made(**inputs, labels=tensors["labels." + labels])
        out.loss.backward()
        after = sha(torch.get_rng_state())
        made.eval()
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            evaluated = made(**inputs).logits
        tensors[name + ".logits"] = out.logits.detach().contiguous()
        tensors[name + ".loss"] = out.loss.detach()
        tensors[name + ".eval"] = evaluated.contiguous()
        cases.append(
            dict(
                name=name,
                attention=attention,
                masked=masked,
                full=full,
                typed=types_given,
                dropout=dropout,
                problem=problem,
                labels=labels,
                num_labels=num_labels,
                bf16=bf16,
                checkpointing=checkpointing,
                act=act,
                classifier_dropout=classifier_dropout,
                generator=after,
                grads={n: sha(p.grad) for n, p in made.named_parameters()},
                norms={n: float(f"{p.grad.double().norm():.6g}") for n, p in made.named_parameters()},
            )
        )

    case("sdpa")
    case("eager", attention="eager")
    case("sdpa without dropout", dropout=0.0)
    case("eager without dropout", attention="eager", dropout=0.0)
    case("sdpa without mask", masked=False)
    case("sdpa without mask and dropout", masked=False, dropout=0.0)
    case("eager without mask", attention="eager", masked=False)
    case("sdpa, mask of ones", full=True)
    case("eager, mask of ones", attention="eager", full=True)
    if typed:
        case("without token types", types_given=False)
    case("regression", problem=REGRESSION, labels="regression", num_labels=1)
    case("regression of three", problem=REGRESSION, labels="regression3")
    case("multi-label", problem=MULTI, labels="multi")
    case("classifier dropout", classifier_dropout=0.5)
    case("checkpointing sdpa", checkpointing=True)
    case("checkpointing eager", checkpointing=True, attention="eager")
    case("bf16 sdpa", bf16=True)
    case("bf16 sdpa without dropout", bf16=True, dropout=0.0)
    case("bf16 eager", bf16=True, attention="eager")
    case("bf16 without mask and dropout", bf16=True, masked=False, dropout=0.0)
    case("bf16 checkpointing", bf16=True, checkpointing=True)
    case("bf16 regression", bf16=True, problem=REGRESSION, labels="regression", num_labels=1)
    case("bf16 multi-label", bf16=True, problem=MULTI, labels="multi")
    for act in ["relu", "gelu_new", "gelu_pytorch_tanh", "quick_gelu", "silu", "tanh"]:
        case(act, act=act)

    classifier, generator = make(num_labels=3)
    torch.manual_seed(42)
    encoder = base(config(**sizes))
    base_generator = sha(torch.get_rng_state())
    with tempfile.TemporaryDirectory() as folder:  # a classifier on a saved encoder
        encoder.save_pretrained(folder)
        torch.manual_seed(5)
        fine = model.from_pretrained(folder, num_labels=3)
        fine_generator = sha(torch.get_rng_state())
    save_file(
        {k: v.contiguous() for k, v in tensors.items()},
        path + ".safetensors",
        metadata={"torch": torch.__version__, "transformers": transformers.__version__},
    )
    with open(path + ".json", "w") as f:
        json.dump(
            {
                "cases": cases,
                "generator": generator,
                "base_generator": base_generator,
                "fine_generator": fine_generator,
                "parameters": [n for n, _ in classifier.named_parameters()],
                "state_dict": list(classifier.state_dict()),
                "initial": {n: sha(p) for n, p in classifier.named_parameters()},
                "base": {n: sha(p) for n, p in encoder.named_parameters()},
                "fine": {n: sha(p) for n, p in fine.named_parameters()},
            },
            f,
            indent=0,
        )
        f.write("\n")
