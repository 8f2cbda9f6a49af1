"""The environment of the golden files: the same bits on every x86-64 CPU with AVX2. Import it before torch:

    import pathlib, sys
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/golden"))
    import pins

torch and MKL read these settings when the process starts, so the script restarts itself under them. On a CPU that is
not Intel's, it also preloads a library that tells MKL that it is (cgotorch/src/mkl_intel.c). The settings are those of
torch.Reproducible(1) in Go.

fingerprint.json beside the golden files identifies the numbers of the machine that made them. A machine with other
numbers is refused, because its files could not be compared with the existing ones.
"""

import importlib.metadata
import multiprocessing
import os
import pathlib
import subprocess
import sys

TORCH = "2.11."
PINS = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_CBWR": "AVX2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
    "GOTRAINER_REPRODUCIBLE": "1",
}  # the last for Go programs that a script starts
ROOT = pathlib.Path(__file__).resolve().parents[2]


def cpu(field):
    """What /proc/cpuinfo says of the first CPU."""
    with open("/proc/cpuinfo") as f:
        return next((line.split(":", 1)[1].strip() for line in f if line.split(":")[0].strip() == field), "")


def answer():
    """The library that tells MKL that this CPU is Intel's; made once."""
    library = ROOT / ".build/golden/libmkl_intel.so"
    if not library.exists():
        library.parent.mkdir(parents=True, exist_ok=True)
        unfinished = f"{library}.{os.getpid()}"
        subprocess.run(
            [
                os.environ.get("CC", "cc"),
                "-shared",
                "-fPIC",
                "-nodefaultlibs",
                "-o",
                unfinished,
                ROOT / "cgotorch/src/mkl_intel.c",
            ],
            check=True,
        )
        os.replace(unfinished, library)
    return str(library)


def wanted():
    """The environment that this CPU needs."""
    if "avx2" not in cpu("flags").split():
        sys.exit("golden files are made on Linux on an x86-64 CPU with AVX2, which this is not")
    if cpu("vendor_id") == "GenuineIntel":
        return PINS
    library, others = answer(), os.environ.get("LD_PRELOAD", "").split(":")
    return PINS | {"LD_PRELOAD": ":".join(dict.fromkeys([library, *filter(None, others)]))}


def begin():
    version = importlib.metadata.version("torch")
    if not version.startswith(TORCH):
        sys.exit(f"golden files are made with torch {TORCH}x, this is {version}: PYTHON names another")
    environment = wanted()
    if any(os.environ.get(name) != value for name, value in environment.items()):
        if "torch" in sys.modules:
            sys.exit("import pins before torch: torch has read its settings already")
        os.environ.update(environment)
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    folder = pathlib.Path(sys.argv[0]).resolve().parent
    if folder.name == "testdata" and multiprocessing.parent_process() is None:
        import fingerprint

        fingerprint.hold(folder)


begin()
