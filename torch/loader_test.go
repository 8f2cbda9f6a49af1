package torch_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gotrainer/gotrainer/cgotorch"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

// childVariable is set in a child process that only loads libtorch and prints the outcome, because
// a process can load libtorch only once.
const childVariable = "GOTRAINER_TEST_CHILD"

func TestLoaderChild(t *testing.T) {
	if os.Getenv(childVariable) == "" {
		t.Skip("it runs in processes that TestLoaderSaysWhatIsMissing starts")
	}
	first, again := torch.Load(), torch.Load()
	if fmt.Sprint(first) != fmt.Sprint(again) {
		t.Errorf("the second Load says %v", again)
	}
	use := torch.Try(func() { torch.Zeros(1) })
	for _, err := range []error{first, use} {
		if err != nil && !errors.Is(err, torch.ErrNotInstalled) {
			t.Errorf("%v is not ErrNotInstalled", err)
		}
	}
	fmt.Printf("LOAD: %v\nUSE: %v\nEND\n", first, use)
}

// loadWith runs TestLoaderChild with env and returns what it printed about Load and about the first
// use.
func loadWith(t *testing.T, env ...string) (load, use string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestLoaderChild$")
	for _, e := range os.Environ() {
		if name, _, _ := strings.Cut(e, "="); name != "GOTRAINER_LIB" && name != "GOTRAINER_HOME" &&
			name != "XDG_DATA_HOME" && name != "LIBTORCH" {
			cmd.Env = append(cmd.Env, e)
		}
	}
	cmd.Env = append(append(cmd.Env, childVariable+"=1"), env...)
	out, err := cmd.CombinedOutput()
	_, rest, found := strings.Cut(string(out), "LOAD: ")
	load, rest, _ = strings.Cut(rest, "\nUSE: ")
	use, _, _ = strings.Cut(rest, "\nEND")
	if err != nil || !found {
		t.Fatalf("%v\n%s", err, out)
	}
	return load, use
}

// stub compiles a shared library from C source into dir, with the shim's file name.
func stub(t *testing.T, dir, source string) {
	t.Helper()
	include, err := filepath.Abs("../cgotorch")
	if err != nil {
		t.Fatal(err)
	}
	compiler := os.Getenv("CC")
	if compiler == "" {
		compiler = "cc"
	}
	cmd := exec.Command(compiler, "-shared", "-fPIC", "-I", include, "-x", "c", "-", "-o",
		filepath.Join(dir, cgotorch.LibraryName()))
	cmd.Stdin = strings.NewReader(source)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// stubSource is the source of a shim that returns an ABI and a version but implements nothing.
func stubSource(abi, size, version string) string {
	return fmt.Sprintf("#include \"load.h\"\nstatic const ct_core core = {%s, %s, \"%s\"};\nconst ct_core "+
		"*ct_get(void) { return &core; }\n", abi, size, version)
}

func TestLoaderSaysWhatIsMissing(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a process for each case; not with -short")
	}
	const remedy = "make setup"
	for _, c := range []struct {
		name    string
		prepare func(t *testing.T, dir string) []string // puts files into dir and returns the environment
		want    []string
	}{
		{"an empty folder", func(t *testing.T, dir string) []string { return []string{"GOTRAINER_LIB=" + dir} },
			[]string{cgotorch.LibraryName() + " was not found; looked in", "DIR", remedy}},
		{"a folder that is not there", func(t *testing.T, dir string) []string {
			return []string{"GOTRAINER_LIB=" + dir + "/nothing"}
		},
			[]string{"was not found; looked in", "DIR/nothing", remedy}},
		{"nothing installed anywhere", func(t *testing.T, dir string) []string {
			return []string{"GOTRAINER_HOME=" + dir}
		},
			[]string{"was not found; looked in", "/usr/local/lib", filepath.Dir(os.Args[0]), remedy}},
		{"a shim of other sources", func(t *testing.T, dir string) []string {
			write(t, filepath.Join(dir, "libcgotorch-0123456789ab"+filepath.Ext(cgotorch.LibraryName())), "")
			return []string{"GOTRAINER_LIB=" + dir}
		}, []string{"was not found; looked in", "libcgotorch-0123456789ab",
			"was built from other sources than this program", remedy}},
		{"a text file under the library's name", func(t *testing.T, dir string) []string {
			write(t, filepath.Join(dir, cgotorch.LibraryName()), strings.Repeat("this is no library\n", 100))
			return []string{"GOTRAINER_LIB=" + dir}
		}, []string{"cannot load DIR/" + cgotorch.LibraryName(), "invalid ELF header", remedy}},
		{"a library that is something else", func(t *testing.T, dir string) []string {
			stub(t, dir, "int nothing;")
			return []string{"GOTRAINER_LIB=" + dir}
		}, []string{"cannot load DIR/", "it is not a libcgotorch", "ct_get", remedy}},
		{"another ABI under this one's name", func(t *testing.T, dir string) []string {
			stub(t, dir, stubSource(`"000000000000"`, "sizeof core", "2.11.0"))
			return []string{"GOTRAINER_LIB=" + dir}
		}, []string{"built from other sources (ABI 000000000000, this program needs " + cgotorch.ABI + ")", remedy}},
		{"a table of another size", func(t *testing.T, dir string) []string {
			stub(t, dir, stubSource("CT_ABI", "1", "2.11.0"))
			return []string{"GOTRAINER_LIB=" + dir}
		}, []string{"built from other sources", remedy}},
		{"another version of libtorch", func(t *testing.T, dir string) []string {
			stub(t, dir, stubSource("CT_ABI", "sizeof core", "2.10.1"))
			return []string{"GOTRAINER_LIB=" + dir}
		}, []string{"cannot use libtorch 2.10.1 from DIR", "is written for 2.11.0", remedy}},
		{"LIBTORCH that is not there", func(t *testing.T, dir string) []string {
			stub(t, dir, stubSource("CT_ABI", "sizeof core", "2.11.0"))
			return []string{"GOTRAINER_LIB=" + dir, "LIBTORCH=" + dir + "/nothing"}
		}, []string{"LIBTORCH is DIR/nothing, but there is no DIR/nothing/lib/libtorch_cpu",
			"must name the folder that holds libtorch's lib and include"}},
		{"LIBTORCH with a text file", func(t *testing.T, dir string) []string {
			stub(t, dir, stubSource("CT_ABI", "sizeof core", "2.11.0"))
			write(t, filepath.Join(dir, "lib", "libtorch_cpu"+filepath.Ext(cgotorch.LibraryName())),
				"this is no library")
			return []string{"GOTRAINER_LIB=" + dir, "LIBTORCH=" + dir}
		}, []string{"cannot load DIR/", "libtorch_cpu", remedy}},
		{"reproducible numbers without their library", func(t *testing.T, dir string) []string {
			testenv.RequireTorch(t)
			if b, err := torch.BuildInfo(); err != nil || b.Reproducible == 0 {
				t.Skip("this CPU has no AVX2")
			}
			stub(t, dir, stubSource("CT_ABI", "sizeof core", "2.11.0"))
			return []string{"GOTRAINER_LIB=" + dir, "GOTRAINER_REPRODUCIBLE=1", "GOTRAINER_MKL="}
		}, []string{"there is no libcgotorch_mkl-" + cgotorch.ABI, "beside DIR/" + cgotorch.LibraryName(), remedy}},
		{"the shim without libtorch beside it", func(t *testing.T, dir string) []string {
			testenv.RequireTorch(t)
			b, err := torch.BuildInfo()
			if err != nil {
				t.Fatal(err)
			}
			library, err := os.ReadFile(b.Library)
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, cgotorch.LibraryName()), string(library))
			return []string{"GOTRAINER_LIB=" + dir, "LD_LIBRARY_PATH="}
		}, []string{"cannot load DIR/", "cannot open shared object file", remedy}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if runtime.GOOS != "linux" {
				t.Skip("the messages are those of Linux's loader")
			}
			dir, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			load, use := loadWith(t, c.prepare(t, dir)...)
			for _, want := range c.want {
				if want = strings.ReplaceAll(want, "DIR", dir); !strings.Contains(load, want) {
					t.Errorf("Load says %q\nwant it to say %q", load, want)
				}
			}
			if !strings.HasPrefix(load, "torch: Load: ") || strings.TrimPrefix(use,
				"torch: Zeros: ") != strings.TrimPrefix(load, "torch: Load: ") {
				t.Errorf("the first use says %q, Load says %q: want the same reason", use, load)
			}
		})
	}
}

func TestLoaderOpensAnotherLibTorchThatLIBTORCHNames(t *testing.T) {
	testenv.RequireTorch(t)
	b, err := torch.BuildInfo()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	library, err := os.ReadFile(b.Library)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, cgotorch.LibraryName()), string(library))
	env := []string{"GOTRAINER_LIB=" + dir, "LIBTORCH=" + filepath.Dir(b.LibTorch)}
	if load, use := loadWith(t, env...); load != "<nil>" || use != "<nil>" {
		t.Errorf("with %s: %s, %s", env, load, use)
	}
}

// The file in the place of libtorch_cuda cannot be opened, but nothing tries to.
func TestWithoutADriverTheCUDALibrariesAreNotLoaded(t *testing.T) {
	testenv.RequireTorch(t)
	if cgotorch.DriverVersion() != 0 {
		t.Skip("this machine has an NVIDIA driver")
	}
	b, err := torch.BuildInfo()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files, err := filepath.Glob(filepath.Join(b.LibTorch, "*"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "lib"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if err := os.Symlink(file, filepath.Join(dir, "lib", filepath.Base(file))); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"libc10_cuda.so", "libtorch_cuda.so"} {
		file := filepath.Join(dir, "lib", name)
		os.Remove(file)
		write(t, file, "no library")
	}
	env := []string{"GOTRAINER_LIB=" + filepath.Dir(b.Library), "LIBTORCH=" + dir}
	if load, use := loadWith(t, env...); load != "<nil>" || use != "<nil>" {
		t.Errorf("with %s: %s, %s", env, load, use)
	}
}

func TestBuildInfoDescribesWhatIsLoaded(t *testing.T) {
	testenv.RequireTorch(t)
	b, err := torch.BuildInfo()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(b.Version, cgotorch.Wanted) || filepath.Base(b.Library) != cgotorch.LibraryName() ||
		b.ABI != cgotorch.ABI || b.Threads < 1 || b.CPUCapability == "" {
		t.Errorf("%+v", b)
	}
	before := torch.Threads()
	defer torch.SetThreads(before)
	torch.SetThreads(2)
	if got := torch.Threads(); got != 2 {
		t.Errorf("Threads() = %d after SetThreads(2)", got)
	}
}

// OpenMP and MKL keep the number per thread. A thread that used another number before must follow.
func TestSetThreadsHoldsOnEveryThread(t *testing.T) {
	testenv.RequireTorch(t)
	before := torch.Threads()
	defer torch.SetThreads(before)
	asked, answered := make(chan bool), make(chan int)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for range asked {
			answered <- torch.Threads()
		}
	}()
	defer close(asked)
	for _, n := range []int{2, 1, 3, 1} {
		torch.SetThreads(n)
		asked <- true
		assert.Equal(t, n, <-answered)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
}
