package torch_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

func TestRunningOutOfMemoryIsAnErrorAndTheProgramGoesOn(t *testing.T) {
	testenv.RequireTorch(t)
	const size = 1 << 50
	x := torch.Ones(1)
	for name, f := range map[string]func(){
		"a new tensor": func() { torch.TensorOptions{DType: torch.Uint8}.Empty(size) },
		"an operator":  func() { x.Expand(size / 4).Clone() },
		"a function":   func() { torch.Cat([]torch.Tensor{x.Expand(size / 4), x}, 0) },
		"Call":         func() { torch.Call("aten::zeros", []int64{size / 4}) },
		"in place":     func() { torch.Call("aten::resize_", torch.Ones(1), []int64{size / 4}) },
	} {
		t.Run(name, func(t *testing.T) {
			e := mustFail(t, f)
			if !errors.Is(e, torch.ErrOutOfMemory) {
				t.Fatalf("%v (%v), want ErrOutOfMemory", e, e.Code)
			}
			if !regexp.MustCompile(`1125899906842\d* bytes.*\(\d+ tensors are alive; \d+ of them, .*, wait for the garbage collector\)`).MatchString(e.Msg) {
				t.Errorf("%v\nwant it to say how much was asked for and what is alive", e)
			}
			if got := torch.Ones(4).Sum(0).Item(); got != 4 {
				t.Errorf("afterwards the sum of four ones is %v", got)
			}
		})
	}
}

// TestMemoryChild runs in a child process, whose address space it limits.
func TestMemoryChild(t *testing.T) {
	if os.Getenv(childVariable) != "memory" {
		t.Skip("it runs in a process that TestGarbageIsFreedBeforeMemoryIsSaidToBeShort starts")
	}
	// The garbage, which is too little to trigger a collection, and the large tensor do not fit
	// into memory together. The large tensor alone leaves room for the Go runtime, its threads and
	// their heaps.
	const mega = 1 << 20
	const limit, garbage, large = 1000 * mega, 240 * mega, 780 * mega
	bytes := func(n int64) torch.Tensor { return torch.TensorOptions{DType: torch.Uint8}.Empty(n) }
	bytes(1).Free()
	space := uint64(procStatus(t, "VmSize") + limit)
	if err := syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: space, Max: space}); err != nil {
		t.Fatal(err)
	}
	for round := range 5 {
		bytes(garbage)
		if got := bytes(large); got.Numel() != large {
			t.Errorf("round %d: %d bytes", round, got.Numel())
		} else {
			got.Free()
		}
		bytes(garbage)
		if got := torch.Call("aten::empty.memory_format", []int64{large}, torch.Uint8)[0]; got.Numel() != large {
			t.Errorf("round %d: %d bytes by Call", round, got.Numel())
		} else {
			got.Free()
		}
	}
	fmt.Println("SURVIVED")
}

func TestGarbageIsFreedBeforeMemoryIsSaidToBeShort(t *testing.T) {
	testenv.RequireTorch(t)
	if runtime.GOOS != "linux" {
		t.Skip("it reads /proc")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestMemoryChild$")
	// Only the shortage of memory triggers a collection.
	cmd.Env = append(os.Environ(), childVariable+"=memory", "GOTRAINER_MALLOC=trim", "GOGC=off",
		// Each malloc arena takes 128 MiB of address space, and threads have separate arenas.
		"GOMAXPROCS=2", "MALLOC_ARENA_MAX=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "SURVIVED") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestTryTurnsOnlyTorchErrorsIntoErrors(t *testing.T) {
	if err := torch.Try(func() {}); err != nil {
		t.Errorf("Try of nothing: %v", err)
	}
	want := &torch.Error{Op: "F", Code: torch.ErrValue, Msg: "m"}
	if err := torch.Try(func() { panic(want) }); !errors.Is(err, want) {
		t.Errorf("Try gave %v, want the error itself", err)
	}
	defer func() {
		if r := recover(); r != "another panic" {
			t.Errorf("recovered %v", r)
		}
	}()
	_ = torch.Try(func() { panic("another panic") })
}

func TestErrorsPrintTheirOperatorArgumentsAndReason(t *testing.T) {
	for _, c := range []struct {
		e    torch.Error
		want string
	}{
		{torch.Error{Op: "MatMul", Args: []string{"float32[2,3]", "float32[4,5]"}, Msg: "no"},
			"torch: MatMul(float32[2,3], float32[4,5]): no"},
		{torch.Error{Op: "SetThreads", Msg: "no"}, "torch: SetThreads: no"},
		{torch.Error{Op: "Cat", Args: []string{}, Msg: "no"}, "torch: Cat(): no"},
	} {
		if got := c.e.Error(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestEveryCodeIsAnErrorOfItsOwn(t *testing.T) {
	seen := map[string]torch.Code{}
	for _, code := range []torch.Code{
		torch.ErrInvalid, torch.ErrOutOfMemory, torch.ErrIndex, torch.ErrType, torch.ErrValue, torch.ErrNotSupported,
		torch.ErrInternal, torch.ErrFreed,
		torch.ErrUndefined, torch.ErrNotInstalled,
	} {
		if former, taken := seen[code.Error()]; taken {
			t.Errorf("codes %d and %d both say %q", former, code, code)
		}
		seen[code.Error()] = code
		if e := fmt.Errorf("loading: %w", &torch.Error{Op: "F", Code: code}); !errors.Is(e, code) {
			t.Errorf("%v is not found in a wrapped error", code)
		}
	}
}

func TestArgumentsOfAFailureAreDescribed(t *testing.T) {
	testenv.RequireTorch(t)
	e := mustFail(t, func() {
		torch.From([]bool{true}).Linear(torch.TensorOptions{DType: torch.BFloat16}.Ones(2, 3), torch.Tensor{})
	})
	if got := strings.Join(e.Args, " "); got != "bool[1] bfloat16[2,3] undefined" {
		t.Errorf("the arguments are %q", got)
	}
	if e := mustFail(t, func() { torch.Call("aten::nested_to_padded_tensor", torch.Ones(1), 0.5) }); len(e.Args) != 1 {
		t.Errorf("the arguments of Call are %q", e.Args)
	}
}
