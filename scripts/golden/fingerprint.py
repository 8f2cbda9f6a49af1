"""The fingerprint of the numbers that torch computes here: a hash of the bits of each operation. Run it under pins.py:

    python fingerprint.py

internal/fingerprint computes the same in Go.
"""

import hashlib
import json
import sys

FILE = "fingerprint.json"


class Inputs:
    """Draws numbers that are exact in float32 and so the same in every language."""

    def __init__(self, seed):
        self.state = seed

    def draw(self, shape, value):
        import torch

        values = []
        for _ in range(torch.Size(shape).numel()):
            self.state = (self.state * 1664525 + 1013904223) % 2**32
            values.append(value(self.state >> 8))
        return torch.tensor(values, dtype=torch.float32).reshape(shape)

    def between(self, *shape):
        """Numbers in [-2, 2)."""
        return self.draw(shape, lambda n: n / 2**22 - 2)

    def positive(self, *shape):
        """Numbers in (0, 16]."""
        return self.draw(shape, lambda n: (n + 1) / 2**20)


def with_gradients(y, *of):
    """y and the gradients of the sum of its squares."""
    (y * y).sum().backward()
    return [y.detach(), *(t.grad for t in of)]


def operations():
    """One of each kind that libtorch, MKL or oneDNN have several code paths for. The order in which they draw their
    inputs is that of Go.
    """
    import torch

    inputs = Inputs(11)
    x, p = inputs.between(20011), inputs.positive(20011)
    results = {
        "sqrt": [p.sqrt()],
        "rsqrt": [p.rsqrt()],
        "log": [p.log()],
        "exp": [x.exp()],
        "erf": [x.erf()],
        "tanh": [x.tanh()],
        "sigmoid": [x.sigmoid()],
        "sin": [x.sin()],
        "gelu": [torch.nn.functional.gelu(x)],
        "pow": [p.pow(0.3)],
    }
    x64, p64 = x.double(), p.double()
    results["float64"] = [p64.sqrt(), p64.log(), x64.exp(), x64.tanh(), x64.sum()]

    long = inputs.between(300007)
    results["sum"] = [long.sum(), torch.linalg.vector_norm(long)]

    rows = inputs.between(64, 257)
    weight, bias = inputs.between(257), inputs.between(257)
    results["softmax"] = [rows.softmax(-1), rows.log_softmax(-1)]
    results["layer_norm"] = [torch.nn.functional.layer_norm(rows, (257,), weight, bias)]

    a, b, v = inputs.between(61, 127), inputs.between(127, 93), inputs.between(127)
    results["gemm"] = [a @ b, a.double() @ b.double()]
    results["gemv"] = [torch.mv(a, v)]
    results["bmm"] = [torch.bmm(inputs.between(6, 17, 33), inputs.between(6, 33, 19))]
    results["bfloat16"] = [a.bfloat16() @ b.bfloat16()]

    images, kernels = inputs.between(3, 5, 17, 19).requires_grad_(), inputs.between(8, 5, 3, 3).requires_grad_()
    results["conv2d"] = with_gradients(torch.nn.functional.conv2d(images, kernels, None, 1, 1), images, kernels)

    scale, shift = inputs.between(8).requires_grad_(), inputs.between(8).requires_grad_()
    features = inputs.between(4, 8, 11, 13).requires_grad_()
    y = torch.batch_norm(features, scale, shift, None, None, True, 0.1, 1e-5, True)
    results["batch_norm"] = with_gradients(y, features, scale, shift)

    steps, zeros = inputs.between(7, 3, 16).requires_grad_(), torch.zeros(1, 3, 24)
    parameters = [inputs.between(96, 16), inputs.between(96, 24), inputs.between(96), inputs.between(96)]
    parameters = [(p * 0.25).requires_grad_() for p in parameters]
    y = torch.lstm(steps, [zeros, zeros], parameters, True, 1, 0.0, True, False, False)[0]
    results["lstm"] = with_gradients(y, steps, *parameters)
    return results


def short(raw):
    return hashlib.sha256(raw).hexdigest()[:12]


def here():
    """The fingerprint as it is in a file: a hash of each operation, and one of all."""
    import torch

    def raw(t):
        return t.detach().contiguous().flatten().view(torch.uint8).numpy().tobytes()

    each = {name: short(b"".join(map(raw, results))) for name, results in sorted(operations().items())}
    return {"fingerprint": short("".join(f"{name} {sum}\n" for name, sum in each.items()).encode()), "operations": each}


def hold(folder):
    """Writes the fingerprint into a folder of golden files, or refuses to add to what was made on a machine with other
    numbers.
    """
    path, this = folder / FILE, here()
    if not path.exists():
        path.write_text(json.dumps(this, indent=1) + "\n")
        return
    that = json.loads(path.read_text())
    if that != this:
        names = sorted(set(this["operations"]) | set(that["operations"]))
        other = " ".join(n for n in names if this["operations"].get(n) != that["operations"].get(n))
        sys.exit(
            f"other numbers: the golden files of {folder} were made where the fingerprint is {that['fingerprint']}, here it is {this['fingerprint']} "
            f"(it differs in {other}). To make all of them here, remove every testdata/{FILE} and run make golden"
        )


if __name__ == "__main__":
    import pins  # noqa: F401

    print(json.dumps(here(), indent=1))
