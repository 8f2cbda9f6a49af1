package cgotorch

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWhyThereIsNoGPU simulates several machines.
func TestWhyThereIsNoGPU(t *testing.T) {
	const lib = "/home/x/libtorch-2.11.0-cu130/lib"
	whole := machine{os: "linux", exists: func(string) bool { return true },
		lookupEnv: func(string) (string, bool) { return "", false },
		version:   func() (int, error) { return 13020, nil }, gpus: func() (int, error) { return 1, nil }}
	variable := func(value string) func(string) (string, bool) {
		return func(name string) (string, bool) { return value, name == "CUDA_VISIBLE_DEVICES" }
	}
	for name, c := range map[string]struct {
		change func(m *machine)
		want   string // empty if the CUDA libraries are loaded
	}{
		"all is there":         {func(*machine) {}, ""},
		"one of two is chosen": {func(m *machine) { m.lookupEnv = variable("1") }, ""},
		"WSL 2": {func(m *machine) {
			m.exists = func(path string) bool { return path == "/dev/dxg" || strings.HasPrefix(path, "/home") }
		}, ""},
		"macOS": {func(m *machine) { m.os = "darwin" }, "libtorch uses NVIDIA's GPUs on Linux only, and this is darwin"},
		"no driver": {func(m *machine) {
			m.version = func() (int, error) { return 0, errNoDriver }
			m.exists = func(path string) bool { return strings.HasPrefix(path, "/home") }
		}, "there is no NVIDIA driver on this machine (libcuda.so.1 cannot be opened)"},
		"half a driver": {func(m *machine) { m.version = func() (int, error) { return 0, errNoDriver } },
			"the kernel has a GPU, but the NVIDIA driver's library is not there (libcuda.so.1 cannot be opened): install " +
				"it, or start the container with --gpus all"},
		"a mute driver": {func(m *machine) { m.version = func() (int, error) { return 0, errors.New("error 999") } },
			"the NVIDIA driver does not tell its version: error 999"},
		"an old driver": {func(m *machine) { m.version = func() (int, error) { return 12080, nil } },
			"the NVIDIA driver is too old: it serves CUDA 12.8, and libtorch needs CUDA 13.0, that is driver 580 or newer"},
		"CPU build": {func(m *machine) { m.exists = func(path string) bool { return !strings.HasPrefix(path, lib) } },
			"this is the CPU build of libtorch: make setup CUDA=1, or gotrainer install --cuda, installs the CUDA build"},
		"hidden": {func(m *machine) { m.lookupEnv = variable("") },
			`CUDA_VISIBLE_DEVICES is "" in the environment, which hides every GPU: unset it, or name some, as in ` +
				`CUDA_VISIBLE_DEVICES=0`},
		"hidden by a number": {func(m *machine) { m.lookupEnv = variable("-1") }, `CUDA_VISIBLE_DEVICES is "-1" in the ` +
			`environment, which hides every GPU: unset it, or name some, as in CUDA_VISIBLE_DEVICES=0`},
	} {
		m := whole
		c.change(&m)
		assert.Equal(t, c.want, m.noCUDA(lib), name)
	}

	m := whole
	m.gpus = func() (int, error) { return 0, errors.New("error 100, no device") }
	assert.Equal(t, "the NVIDIA driver finds no GPU (cuInit: error 100, no device): in a container, start it with "+
		"--gpus all", m.noGPU())
	m.lookupEnv = variable("7")
	assert.Equal(t, `the NVIDIA driver finds no GPU (cuInit: error 100, no device): CUDA_VISIBLE_DEVICES is "7"`, m.noGPU())
}

func TestABuildNeedsTheDriverOfItsCUDA(t *testing.T) {
	root := t.TempDir()
	assert.Equal(t, 13000, neededCUDA(filepath.Join(root, "lib")), "the version of the pinned build")
	assert.Equal(t, 12000, neededCUDA("/x/libtorch-2.11.0-cu128/lib"))
	version := "__version__ = '2.11.0+cu126'\ndebug = False\ncuda: Optional[str] = '12.6'\nhip: Optional[str] = None\n"
	require.NoError(t, os.WriteFile(filepath.Join(root, "version.py"), []byte(version), 0o600))
	assert.Equal(t, 12000, neededCUDA(filepath.Join(root, "lib")), "of a Python installation")
}

// driver is the source of a libcuda with two GPUs; VERSION and INIT are the results that it
// returns.
const driver = `
#include <stdio.h>
#include <stddef.h>
int cuDriverGetVersion(int *v) { *v = VERSION; return 0; }
int cuInit(unsigned flags) { return INIT; }
int cuDeviceGetCount(int *n) { *n = 2; return 0; }
int cuDeviceGet(int *device, int i) { *device = 10 + i; return i < 2 ? 0 : 101; }
int cuDeviceGetName(char *name, int n, int device) { snprintf(name, n, "Test GPU %d", device); return 0; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = 80ull << 30; return 0; }
int cuDeviceGetAttribute(int *v, int what, int device) { *v = what == 75 ? 9 : what == 76 ? 1 : 132; return 0; }
`

// fakeDriver compiles a libcuda.so.1 and makes it the one that is found.
func fakeDriver(t *testing.T, source string, defines ...string) {
	t.Helper()
	compiler := os.Getenv("CC")
	if compiler == "" {
		compiler = "cc"
	}
	path := filepath.Join(t.TempDir(), "libcuda.so.1")
	cmd := exec.Command(compiler, append(defines, "-shared", "-fPIC", "-x", "c", "-", "-o", path)...)
	cmd.Stdin = strings.NewReader(source)
	if out, err := cmd.CombinedOutput(); errors.Is(err, exec.ErrNotFound) {
		t.Skip("no C compiler:", err)
	} else {
		require.NoError(t, err, "%s", out)
	}
	before := libraries
	libraries = []string{"/nowhere/libcuda.so.1", path}
	t.Cleanup(func() { libraries = before })
}

func TestTheDriverTellsOfItsGPUs(t *testing.T) {
	fakeDriver(t, driver, "-DVERSION=13010", "-DINIT=0")
	assert.Equal(t, 13010, DriverVersion())
	gpus, err := driverGPUs()
	require.NoError(t, err)
	assert.Equal(t, 2, gpus)
	got, err := ReadGPU(1)
	require.NoError(t, err)
	assert.Equal(t, GPU{"Test GPU 11", 9, 1, 132, 80 << 30}, got)
	_, err = ReadGPU(2)
	require.EqualError(t, err, "the NVIDIA driver tells nothing of GPU 2: error 101")
}

func TestADriverThatCannotBeginSaysWhy(t *testing.T) {
	fakeDriver(t, driver, "-DVERSION=12040", "-DINIT=803")
	m := here()
	m.os, m.lookupEnv = "linux", func(string) (string, bool) { return "", false }
	assert.Contains(t, m.noCUDA("/x/lib"), "too old: it serves CUDA 12.4")
	_, err := ReadGPU(0)
	require.ErrorContains(t, err, "error 803, its kernel module is of another version")
	assert.Contains(t, m.noGPU(), "cuInit: error 803")
}

func TestALibraryThatIsNoDriverIsNamed(t *testing.T) {
	fakeDriver(t, "int nothing;")
	assert.Zero(t, DriverVersion())
	m := here()
	m.os = "linux"
	assert.Equal(t, "the NVIDIA driver does not tell its version: libcuda.so.1 lacks the functions of a driver",
		m.noCUDA("/x/lib"))
	_, err := ReadGPU(0)
	require.ErrorContains(t, err, "lacks the functions of a driver")
}
