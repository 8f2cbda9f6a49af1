"""Golden values from Hezar's CRNNImage2Text: python crnn.py writes crnn.safetensors and crnn.json beside it.

Needs hezar 1.0.0 and torch 2.11.0. The weights are not stored: seed 7 makes them, and their sha256 says whether ours
are the same.
"""

import hashlib
import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts/golden"))
import pins  # noqa: E402, F401

os.environ["HF_HUB_OFFLINE"] = "1"
import torch
from hezar.models.image2text.crnn.crnn_image2text import CRNNImage2Text, CRNNImage2TextConfig
from goldenfile import save_file

torch.set_num_threads(1)
CHARSET = ["", "a", "b", "c", "d", "1", "2", "3"]


def sha(t):
    return hashlib.sha256(t.detach().contiguous().numpy().tobytes()).hexdigest()


torch.manual_seed(7)
model = CRNNImage2Text(CRNNImage2TextConfig(id2label=dict(enumerate(CHARSET)), map2seq_in_dim=1024, rnn_dim=24))
initial = {n: sha(p) for n, p in model.named_parameters()}
after_init = sha(torch.get_rng_state())
g = torch.Generator()
g.manual_seed(3)
x = torch.randn(3, 1, 32, 64, generator=g)
labels = torch.tensor([[1, 2, 3, 0], [4, 4, 5, 6], [7, 0, 0, 0]])
model.train()
out = model(x)["logits"]
loss = model.compute_loss(out, labels)
loss.backward()
grads = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
model.eval()
with torch.no_grad():
    eval_out = model(x)["logits"]
    read = model.post_process(model.generate(x), return_scores=True)
tensors = {}
for height, width in (
    (32, 67),
    (32, 126),
    (32, 5),
    (40, 64),
    (17, 30),
):  # the last rows and columns that poolings leave over are not seen
    torch.manual_seed(7)
    odd = CRNNImage2Text(
        CRNNImage2TextConfig(id2label=dict(enumerate(CHARSET)), map2seq_in_dim=512 * (height // 16), rnn_dim=24)
    )
    i = torch.arange(2 * height * width)
    pictures = (((i * 2654435761 % 2**32) >> 8).float() / 2**23 - 1).reshape(2, 1, height, width)
    odd_logits = odd(pictures)["logits"]
    odd_loss = odd.compute_loss(odd_logits, torch.tensor([[1], [3]]))
    odd_loss.backward()
    tensors |= {
        f"{height}x{width}.logits": odd_logits.detach().contiguous(),
        f"{height}x{width}.loss": odd_loss.detach(),
        f"{height}x{width}.grad": odd.classifier.bias.grad,
    }
save_file(
    tensors
    | {
        "x": x,
        "labels": labels,
        "logits": out.detach().contiguous(),
        "eval_logits": eval_out.contiguous(),
        "loss": loss.detach(),
        "grad.classifier.bias": grads["classifier.bias"],
        "grad.cnn.0.conv.weight": grads["cnn.0.conv.weight"],
        "running_mean": dict(model.named_buffers())["cnn.7.bn.running_mean"],
    },
    "crnn.safetensors",
    metadata={"torch": torch.__version__, "hezar": "1.0.0"},
)
json.dump(
    {
        "charset": CHARSET,
        "parameters": list(initial),
        "initial_sha256": initial,
        "generator_sha256": after_init,
        "state_dict": list(model.state_dict()),
        "without_gradient": [n for n, p in model.named_parameters() if p.grad is None],
        "grad_norms": {n: float(v.double().norm()) for n, v in grads.items()},
        "grad_sha256": {n: sha(v) for n, v in grads.items()},
        "texts": [r.text for r in read],
        "scores": [r.score for r in read],
    },
    open("crnn.json", "w"),
    indent=1,
)
