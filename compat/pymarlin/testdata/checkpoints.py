"""Real PyMarlin 0.3.6 beside this package.

    python checkpoints.py                 writes model_0.pt, a checkpoint after one of two epochs, and final.safetensors, the weights after the second
    python checkpoints.py continue DIR    continues from DIR/model_0.pt, whoever wrote it, and writes DIR/final.safetensors

pymarlin_shims.py says what PyMarlin needs with today's Python and PyTorch.
"""

import os
import sys
import pathlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts/golden"))
import pins  # noqa: E402, F401

import pymarlin_shims  # noqa: E402, F401
import torch
from goldenfile import save_file
from pymarlin.core.module_interface import ModuleInterface  # noqa: E402
from pymarlin.core.trainer import Trainer, TrainerArguments  # noqa: E402
from pymarlin.utils.checkpointer import checkpoint_utils as ck  # noqa: E402


class Net(ModuleInterface):
    """helpers_test.go has the same."""

    def __init__(self):
        super().__init__()
        self.register_module("in", torch.nn.Linear(3, 4))
        self.out = torch.nn.Linear(4, 2)

    def get_optimizers_schedulers(self, steps, epochs):
        p = list(self.parameters())
        a, b = (
            torch.optim.SGD(p[:2], lr=0.1, momentum=0.9, foreach=False),
            torch.optim.AdamW(p[2:], lr=1e-2, foreach=False),
        )
        s = torch.optim.lr_scheduler
        return [a, b], [s.StepLR(a, 2, gamma=0.5), s.OneCycleLR(b, max_lr=0.05, total_steps=40)]

    def loader(self, n, sampler, batch_size):
        rows = list(range(n))
        return torch.utils.data.DataLoader(rows, batch_size=batch_size, sampler=sampler(rows), collate_fn=lambda r: r)

    def get_train_dataloader(self, sampler, batch_size):
        return self.loader(12, sampler, batch_size)

    def get_val_dataloaders(self, sampler, batch_size):
        return self.loader(5, sampler, batch_size)

    def forward_rows(self, rows):
        x = torch.tensor([[i % 5 - 2, i % 3 - 1, i % 2] for i in rows], dtype=torch.float32)
        return self.out(torch.tanh(getattr(self, "in")(x))), torch.tensor([i % 2 for i in rows])

    def train_step(self, global_step, batch, device):
        out, y = self.forward_rows(batch)
        return torch.nn.functional.cross_entropy(out, y), y

    def val_step(self, global_step, batch, device):
        return self.forward_rows(batch)[0].argmax(-1)


def run(folder, epochs, load_dir=None):
    torch.manual_seed(7)
    net = Net()
    keep = ck.DefaultCheckpointerArguments(
        save_dir=folder,
        model_state_save_dir=None,
        load_dir=load_dir,
        load_filename="model_0.pt" if load_dir else None,
        checkpoint=load_dir is None,
    )
    args = TrainerArguments(
        epochs=epochs,
        use_gpu=False,
        train_batch_size=6,
        gpu_batch_size_limit=2,
        writers=[],
        disable_tqdm=True,
        checkpointer_args=keep,
    )
    trainer = Trainer(net, args)
    torch.manual_seed(5)
    trainer.train()
    return net


here = os.path.dirname(os.path.abspath(__file__))
if sys.argv[1:2] == ["continue"]:
    folder = sys.argv[2]
else:
    folder = here
    run(here, 1)
net = run(os.devnull, 2, folder)
save_file({k: v.contiguous() for k, v in net.state_dict().items()}, os.path.join(folder, "final.safetensors"))
