//go:build cgo

package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/torch/cuda"
)

// healthy is a machine without a GPU on which every check passes.
func healthy(t *testing.T, out *bytes.Buffer) *doctor {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "lib"), make([]byte, 3_000_000), 0o600); err != nil {
		t.Fatal(err)
	}
	return &doctor{
		out: out,
		build: func() (torch.Build, error) {
			return torch.Build{Version: "2.11.0", Library: "/r/libcgotorch-abc.so", LibTorch: "/r", ABI: "abc",
				CPUCapability: "AVX2", Threads: 3, KeepsMalloc: true, VectorMasks: true,
				NoCUDA: "there is no NVIDIA driver"}, nil
		},
		slowBFloat16: func() string { return "bfloat16 takes 2 times" },
		compute:      func(torch.Device) error { return nil },
		fingerprint:  func() string { return "7873f94a0b84" },
		driver:       func() string { return "" },
		properties: func(d torch.Device) (cuda.Properties, error) {
			return cuda.Properties{Name: "Test GPU", Capability: cuda.Capability{Major: 9},
				MultiprocessorCount: 132, TotalMemory: 80 << 30}, nil
		},
		memory: func(torch.Device) (int64, int64, error) { return 79 << 30, 80 << 30, nil },
		versions: func() (cuda.Versions, error) {
			return cuda.Versions{Driver: 13020, Runtime: 13000, CuDNN: 91900}, nil
		},
		attention: func() cuda.Attention { return cuda.Attention{Flash: true, Math: true, CuDNN: true} },
		noGraphs:  func() error { return nil },
		root:      root,
		env:       func(string) string { return "" },
		arch:      "amd64",
	}
}

func TestDoctorOfAnARMSpeaksOfNoX86(t *testing.T) {
	var out bytes.Buffer
	d := healthy(t, &out)
	d.arch = "arm64"
	build := d.build
	d.build = func() (torch.Build, error) { b, err := build(); b.VectorMasks = false; return b, err }
	require.NoError(t, d.examine())
	assert.Contains(t, out.String(), "numbers        those of this kind of CPU\nMKL            is not there")
	assert.Contains(t, out.String(), "dropout        masks are libtorch's\n")
}

func TestDoctorTellsWhatThereIs(t *testing.T) {
	var out bytes.Buffer
	d := healthy(t, &out)
	d.env = func(name string) string { return map[string]string{"OMP_NUM_THREADS": "7"}[name] }
	if err := d.examine(); err != nil {
		t.Fatalf("examine: %v", err)
	}
	for _, want := range []string{
		"libtorch       2.11.0 in /r\n", "(ABI abc)\n", "CPU kernels    AVX2\n", "threads        3 within",
		"dropout        masks are drawn by AVX2", "keeps large blocks",
		"numbers        those of this kind of CPU (GOTRAINER_REPRODUCIBLE=1",
		"fingerprint    7873f94a0b84 of", "bfloat16       bfloat16 takes 2 times\n",
		": 3 MB\n", "MB free\n", "environment    OMP_NUM_THREADS=7\n", "device         cpu computes",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output lacks %q:\n%s", want, &out)
		}
	}
	if n := strings.Count(out.String(), "environment"); n != 1 {
		t.Errorf("%d variables printed, 1 is set:\n%s", n, &out)
	}
	if !strings.Contains(out.String(), "GPU            none: there is no NVIDIA driver\n") {
		t.Errorf("does not say why there is no GPU:\n%s", &out)
	}
}

func TestDoctorTellsWhichProcessThisIs(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want string
	}{
		{nil, "launcher       none: a program started here is one process\n"},
		{map[string]string{"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "3", "SLURM_LOCALID": "1",
			"SLURM_STEP_NODELIST": "gpu[03-04]", "SLURM_JOB_ID": "7"}, "launcher       srun (SLURM_STEP_NUM_TASKS): " +
			"rank 3 of 4, local rank 1; rank 0 opens the store at gpu03:20007\n"},
		{map[string]string{"PMIX_RANK": "1"}, "launcher       dist: PMIX_RANK=1 says that PMIx started this process"},
	} {
		var out bytes.Buffer
		d := healthy(t, &out)
		d.env = func(name string) string { return c.env[name] }
		if err := d.examine(); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), c.want) {
			t.Errorf("output lacks %q:\n%s", c.want, &out)
		}
	}
}

func TestDoctorTellsWhetherNumbersAreReproducible(t *testing.T) {
	var out bytes.Buffer
	d := healthy(t, &out)
	build := d.build
	d.build = func() (torch.Build, error) { b, err := build(); b.Reproducible = 2; return b, err }
	if err := d.examine(); err != nil {
		t.Fatal(err)
	}
	assert.Contains(t, out.String(),
		"numbers        reproducible in float32 on every CPU with AVX2, with threads = 2\n")
}

func TestDoctorShowsEveryVariableOfLoad(t *testing.T) {
	page, err := os.ReadFile("../../docs/install.md")
	require.NoError(t, err)
	row := regexp.MustCompile("(?m)^\\| `(GOTRAINER_[A-Z_]+)` \\| a program \\|")
	atRunTime := row.FindAllStringSubmatch(string(page), -1)
	require.NotEmpty(t, atRunTime)
	names := []string{"MKL_CBWR", "MKL_DEBUG_CPU_TYPE", "MKL_ENABLE_INSTRUCTIONS"} // of which any leaves MKL to itself
	for _, variable := range atRunTime {
		names = append(names, variable[1])
	}
	var out bytes.Buffer
	d := healthy(t, &out)
	d.env = func(name string) string { return map[bool]string{true: "set"}[slices.Contains(names, name)] }
	require.NoError(t, d.examine())
	for _, name := range names {
		assert.Contains(t, out.String(), "environment    "+name+"=set\n")
	}
}

func TestDoctorTellsWhichKernelsMKLTakes(t *testing.T) {
	for want, kernels := range map[string]torch.MKLKernels{
		"MKL            takes its kernels for Intel's CPUs: this CPU is AMD's (GOTRAINER_MKL=native": {Intel: true,
			Reason: "this CPU is AMD's"},
		"MKL            chooses its kernels itself: MKL_CBWR is set\n": {Reason: "MKL_CBWR is set"},
	} {
		var out bytes.Buffer
		d := healthy(t, &out)
		build := d.build
		d.build = func() (torch.Build, error) { b, err := build(); b.MKL = kernels; return b, err }
		d.env = func(name string) string { return map[string]string{"GOTRAINER_MKL": "native"}[name] }
		require.NoError(t, d.examine())
		assert.Contains(t, out.String(), want)
		assert.Contains(t, out.String(), "environment    GOTRAINER_MKL=native\n")
	}
}

func TestDoctorTellsWhoseMasksAndAutogradTheseAre(t *testing.T) {
	for _, c := range []struct{ variable, setting, want string }{
		{"GOTRAINER_MASKS", "native", "dropout        masks are libtorch's, by GOTRAINER_MASKS=native"},
		{"GOTRAINER_MASKS", "", "dropout        masks are libtorch's: this CPU has no AVX2"},
		{"GOTRAINER_AUTOGRAD", "native", "autograd       is libtorch's, by GOTRAINER_AUTOGRAD=native"},
		{"GOTRAINER_AUTOGRAD", "", "autograd       linear and cross_entropy_loss are a node each"},
	} {
		var out bytes.Buffer
		d := healthy(t, &out)
		build := d.build
		d.build = func() (torch.Build, error) { b, err := build(); b.VectorMasks = false; return b, err }
		d.env = func(name string) string { return map[string]string{c.variable: c.setting}[name] }
		require.NoError(t, d.examine())
		assert.Contains(t, out.String(), c.want)
	}
}

func TestDoctorExaminesEachDevice(t *testing.T) {
	var out bytes.Buffer
	d := healthy(t, &out)
	build := d.build
	d.build = func() (torch.Build, error) { b, err := build(); b.CUDADevices = 2; return b, err }
	var seen []string
	d.compute = func(device torch.Device) error {
		seen = append(seen, device.String())
		if len(seen) == 3 {
			return errors.New("computes wrongly")
		}
		return nil
	}
	err := d.examine()
	if err == nil || err.Error() != "device cuda:1: computes wrongly" {
		t.Errorf("examine: %v, want the failing device by name", err)
	}
	if got := strings.Join(seen, " "); got != "cpu cuda:0 cuda:1" {
		t.Errorf("devices examined: %s", got)
	}
}

func TestDoctorTellsOfGPUs(t *testing.T) {
	var out bytes.Buffer
	d := healthy(t, &out)
	build := d.build
	d.build = func() (torch.Build, error) { b, err := build(); b.CUDADevices, b.NoCUDA = 2, ""; return b, err }
	d.driver = func() string { return "Kernel Module 580.1" }
	d.env = func(name string) string { return map[string]string{"NVIDIA_TF32_OVERRIDE": "0"}[name] }
	if err := d.examine(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"NVIDIA driver  Kernel Module 580.1\n", "CUDA           driver for 13.2, cudart 13.0, cuDNN 9.19.0\n",
		"GPU            cuda:1 is Test GPU, capability 9.0, 132 multiprocessors, 79.0 GiB of 80.0 GiB free\n",
		"CUDA graphs    libcgotorch_cuda is there\n",
		"attention      flash, math, cuDNN (docs/gpu.md); where capability is 9.0 or 10.0 cuDNN comes first",
		"environment    NVIDIA_TF32_OVERRIDE=0\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output lacks %q:\n%s", want, &out)
		}
	}
	out.Reset()
	d.noGraphs = func() error { return errors.New("make setup CUDA=1 builds it") }
	err := d.examine()
	if err != nil || !strings.Contains(out.String(), "CUDA graphs    none: make setup CUDA=1 builds it\n") {
		t.Errorf("examine: %v\n%s", err, &out)
	}
	d.memory = func(torch.Device) (int64, int64, error) { return 0, 0, errors.New("busy") }
	if err := d.examine(); err == nil || err.Error() != "device cuda:0: busy" {
		t.Errorf("examine: %v, want the GPU that does not answer", err)
	}
}

func TestDoctorWithoutLibtorchPrintsTheRestAndFails(t *testing.T) {
	var out bytes.Buffer
	d := healthy(t, &out)
	missing := errors.New("libtorch is not installed")
	d.build = func() (torch.Build, error) { return torch.Build{}, missing }
	d.root = filepath.Join(d.root, "none")
	if err := d.examine(); !errors.Is(err, missing) {
		t.Errorf("examine: %v, want %v", err, missing)
	}
	if !strings.Contains(out.String(), "install root   "+d.root) || !strings.Contains(out.String(), "no such file") {
		t.Errorf("output:\n%s", &out)
	}
}

func TestDoctorComputesOnThisMachine(t *testing.T) {
	testenv.RequireTorch(t)
	if err := compute(torch.CPU); err != nil {
		t.Error(err)
	}
}
