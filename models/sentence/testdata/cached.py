"""Golden values of CachedMultipleNegativesRankingLoss: python cached.py writes cached.safetensors and cached.json.

For each case: the loss of a Bert of seed 42 in training mode, every gradient, and the state of the generator; and 20
updates of SentenceTransformerTrainer over shuffled ragged texts. Tensors are stored by the first 8 digits of their
sha256, but for losses.

Needs sentence-transformers 6.2.0 with transformers 5.17.0, torch 2.11.0, datasets and accelerate.
"""

import hashlib
import json
import os
import pathlib
import sys
import tempfile

here = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(here.parents[2] / "scripts/golden"))
import pins  # noqa: E402, F401  # first, since it chooses the code paths of libtorch

import sentence_transformers
import torch
import transformers
from datasets import Dataset
from goldenfile import save_file
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer.losses import CachedMultipleNegativesRankingLoss
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from sentence_transformers.util import dot_score

torch.set_num_threads(1)
recorded = json.loads((here / "sentence.json").read_text())  # of sentence.py: the encoders and the texts
rows = [r["texts"] for r in recorded["rows"]]
tensors, out = {}, dict(losses=[], runs=[])


def sha(t):
    return hashlib.sha256(t.detach().contiguous().numpy().tobytes()).hexdigest()[:8]


def model(scratch, name):
    """The encoder of sentence.py with this name, drawn from seed 42."""
    e = next(e for e in recorded["encoders"] if e["name"] == name)
    folder = os.path.join(scratch, name)
    os.makedirs(folder, exist_ok=True)
    for file, content in (("tokenizer", e["tokenizer"]), ("tokenizer_config", e["tokenizer_config"])):
        pathlib.Path(folder, file + ".json").write_text(json.dumps(content))
    torch.manual_seed(42)
    config = getattr(transformers, name + "Config")(**{k: v for k, v in e["config"].items() if k != "architectures"})
    transformers.AutoModel.from_config(config).save_pretrained(folder)
    return SentenceTransformer(modules=[Transformer(folder), Pooling(32, "mean")], device="cpu")


LOSSES = {  # texts of a row, and the options of the loss
    "pairs": (2, dict(mini_batch_size=4)),
    "whole": (2, dict()),
    "triplets": (3, dict(mini_batch_size=2, scale=7.5)),
    "dot": (4, dict(mini_batch_size=5, scale=1, similarity_fct=dot_score)),
    "symmetric": (
        3,
        dict(mini_batch_size=2, directions=("query_to_doc", "doc_to_query"), partition_mode="per_direction"),
    ),
    "all directions": (
        3,
        dict(mini_batch_size=1, directions=("query_to_doc", "query_to_query", "doc_to_query", "doc_to_doc")),
    ),
}
RUNS = [("Bert", "triplets", 1), ("Roberta", "pairs", 2), ("ModernBert", "all directions", 1)]

with tempfile.TemporaryDirectory() as scratch:
    for name, (texts, o) in LOSSES.items():
        m = model(scratch, "Bert")
        loss = CachedMultipleNegativesRankingLoss(m, **o)
        features = [m.preprocess([r[k] for r in rows[:7]]) for k in range(texts)]
        m.train()
        torch.manual_seed(7)
        value = loss(features, None)
        (value / 4).backward()
        tensors["loss." + name] = value.detach()
        out["losses"].append(
            dict(
                name=name,
                texts=texts,
                grads=[sha(p.grad) if p.grad is not None else "" for p in m.parameters()],
                norms=[float(f"{p.grad.double().norm():.6g}") if p.grad is not None else 0 for p in m.parameters()],
                generator=sha(torch.get_rng_state()),
            )
        )
        m.eval()
        with torch.no_grad():
            tensors["eval." + name] = loss([m.preprocess([r[k] for r in rows[:7]]) for k in range(texts)], None)
    for encoder, name, accumulate in RUNS:
        texts, o = LOSSES[name]
        m = model(scratch, encoder)
        args = SentenceTransformerTrainingArguments(
            output_dir=os.path.join(scratch, "run"),
            report_to=[],
            use_cpu=True,
            max_steps=20,
            per_device_train_batch_size=4,
            learning_rate=1e-3,
            logging_steps=1,
            save_strategy="no",
            disable_tqdm=True,
            gradient_accumulation_steps=accumulate,
        )
        data = Dataset.from_list([{str(k): r[k] for k in range(texts)} for r in rows])
        t = SentenceTransformerTrainer(
            model=m, args=args, train_dataset=data, loss=CachedMultipleNegativesRankingLoss(m, **o)
        )
        t.train()
        log = [r for r in t.state.log_history if "loss" in r]
        out["runs"].append(
            dict(
                encoder=encoder,
                loss=name,
                texts=texts,
                accumulate=accumulate,
                losses=[r["loss"].hex() for r in log],
                grad_norms=[float(r["grad_norm"]).hex() for r in log],
                final=[sha(p) for p in m.parameters()],
                generator=sha(torch.get_rng_state()),
            )
        )

versions = {
    "made with": f"torch {torch.__version__}, transformers {transformers.__version__}, sentence-transformers {sentence_transformers.__version__}"
}
save_file(tensors, str(here / "cached.safetensors"), metadata=versions)
with open(here / "cached.json", "w") as f:
    json.dump(out, f, indent=0)
    f.write("\n")
