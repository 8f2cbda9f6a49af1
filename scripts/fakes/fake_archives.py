"""fake_archives.py FOLDER: writes small stand-ins for the wheels and the zip that install_libtorch.sh unpacks, and
wheels/sums.

They have the real ones' file names and layout, so a real pip accepts them and the script treats them alike.
"""

import hashlib
import pathlib
import sys
import zipfile

HEADERS = {
    "ATen/ATen.h": "",
    "c10/macros/Macros.h": "",
    "c10/util/python_stub.h": "",  # needed to compile, although libtorch_python is not
    "torch/headeronly/version.h": "#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR 11\n#define TORCH_VERSION_PATCH 0\n",
}
WHEELS = {
    "torch-2.11.0-cp311-cp311-manylinux_2_28_x86_64.whl": {
        "torch/__init__.py": "raise SystemExit('the wheel was imported')",
        "torch/lib/libtorch_cpu.so": "x" * 200_000,
        "torch/lib/libc10.so": "c10",
        "torch/lib/libgomp.so.1": "gomp",
        "torch/lib/libtorch.so": "not wanted",
        "torch/lib/libtorch_cuda.so": "only with --cuda",
        "torch/lib/libc10_cuda.so": "only with --cuda",
        "torch/lib/libtorch_python.so": "not wanted",
        **{"torch/include/" + name: text for name, text in HEADERS.items()},
        "torchgen/packaged/ATen/native/native_functions.yaml": "- func: add",
        "torch-2.11.0.dist-info/licenses/LICENSE": "BSD",
    },
    "nvidia_cuda_runtime-13.0.96-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl": {
        "nvidia/cu13/lib/libcudart.so.13": "cudart",
        "nvidia/cu13/include/cuda_runtime_api.h": "",
    },
    "nvidia_cudnn_cu13-9.19.0.56-py3-none-manylinux_2_27_x86_64.whl": {"nvidia/cudnn/lib/libcudnn.so.9": "cudnn"},
}
WHEELS["torch-2.11.0-cp311-cp311-manylinux_2_28_aarch64.whl"] = WHEELS[
    "torch-2.11.0-cp311-cp311-manylinux_2_28_x86_64.whl"
]


def write(path, files):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as z:
        for name, text in files.items():
            z.writestr(zipfile.ZipInfo(name), text)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main(folder):
    folder = pathlib.Path(folder)
    wheels = folder / "wheels"
    wheels.mkdir(parents=True)
    rows = []
    for file, files in WHEELS.items():
        name, version = file.split("-")[:2]
        info = f"{name}-{version}.dist-info/"
        metadata = {
            info + "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
            info + "WHEEL": "Wheel-Version: 1.0\nTag: py3-none-any\n",
            info + "RECORD": "",
        }
        variant = "cu130" if "cudnn" in file else "cpu"
        platform = "linux-aarch64" if "aarch64" in file else "linux-x86_64"
        rows.append(f"{platform} {variant} {write(wheels / file, files | metadata)} {file}\n")
    (wheels / "sums").write_text("# a comment\n" + "".join(rows))
    libs = {"libtorch/lib/" + lib: lib for lib in ("libtorch_cpu.so", "libc10.so", "libgomp-abc.so.1", "libtorch.so")}
    good = libs | {"libtorch/include/" + name: text for name, text in HEADERS.items()}
    write(
        folder / "libtorch.zip",
        good | {"libtorch/build-version": "2.11.0+cpu", "libtorch/lib/libtorch_cpu.so": "x" * 200_000},
    )
    old = good | {
        "libtorch/include/torch/headeronly/version.h": HEADERS["torch/headeronly/version.h"].replace("11", "6")
    }
    write(folder / "old.zip", old)


main(sys.argv[1])
