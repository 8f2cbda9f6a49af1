"""Writes pickled.pt with torch.save and the same weights into pickled.safetensors. Run: python3 pickled.py"""

import pathlib

import torch
from safetensors.torch import save_file

here = pathlib.Path(__file__).parent
torch.manual_seed(5)
model = torch.nn.Sequential(
    torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.Flatten(), torch.nn.Linear(8, 3)
)
model(torch.randn(4, 1, 4, 4))  # moves the running statistics
torch.save(model.state_dict(), here / "pickled.pt")
save_file(model.state_dict(), here / "pickled.safetensors", metadata={"torch": torch.__version__})
