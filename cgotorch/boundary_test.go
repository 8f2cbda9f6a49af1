package cgotorch_test

import (
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/gotrainer/gotrainer/cgotorch"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(m.Run())
}

// exceptions are the exceptions that testing.cc throws, with the errors that they become.
var exceptions = []struct {
	name string
	kind int
	text string
}{
	{"an int", cgotorch.ErrInternal, "a C++ exception of unknown type"},
	{"std::bad_alloc", cgotorch.ErrOutOfMemory, "out of memory"},
	{"c10::Error", cgotorch.ErrInvalid, "a plain check failed"},
	{"c10::IndexError", cgotorch.ErrIndex, "an index is out of range"},
	{"std::runtime_error", cgotorch.ErrInvalid, "a standard exception"},
	{"c10::TypeError", cgotorch.ErrType, "a type is wrong"},
	{"c10::ValueError", cgotorch.ErrValue, "a value is not allowed"},
	{"c10::NotImplementedError", cgotorch.ErrNotSupported, "there is no such kernel"},
	{"c10::OutOfMemoryError", cgotorch.ErrOutOfMemory, "the device has no memory left"},
	{"an internal assertion", cgotorch.ErrInvalid, "an internal assertion failed"},
	{"an illegal access", cgotorch.ErrDevice, "an illegal memory access"},
	{"an assertion of a kernel", cgotorch.ErrDevice, "device-side assert"},
	{"cudaMalloc", cgotorch.ErrOutOfMemory, "CUDA error: out of memory"},
	{"a GPU that is not there", cgotorch.ErrInvalid, "invalid device ordinal"},
	{"a kernel that is not there", cgotorch.ErrNotSupported, "no kernel image"},
	{"an error that nobody knows", cgotorch.ErrDevice, "unknown error"},
	{"cuBLAS without memory", cgotorch.ErrOutOfMemory, "CUBLAS_STATUS_ALLOC_FAILED"},
	{"cuBLAS that cannot begin", cgotorch.ErrOutOfMemory, "CUBLAS_STATUS_NOT_INITIALIZED"},
	{"cuBLAS on a broken GPU", cgotorch.ErrDevice, "CUBLAS_STATUS_EXECUTION_FAILED"},
	{"cuDNN without memory", cgotorch.ErrOutOfMemory, "CUDNN_STATUS_ALLOC_FAILED"},
	{"cuDNN that finds no plan", cgotorch.ErrOutOfMemory, "CUDNN_STATUS_NOT_SUPPORTED."},
	{"cuDNN on a broken GPU", cgotorch.ErrDevice, "CUDNN_STATUS_EXECUTION_FAILED"},
	{"cuSOLVER without memory", cgotorch.ErrOutOfMemory, "CUSOLVER_STATUS_ALLOC_FAILED"},
	{"the driver without memory", cgotorch.ErrOutOfMemory, "CUDA driver error: out of memory"},
	{"the driver on a broken GPU", cgotorch.ErrDevice, "CUDA driver error: an illegal"},
	{"a broken GPU as text", cgotorch.ErrDevice, "unspecified launch failure"},
	{"no memory as text", cgotorch.ErrOutOfMemory, "CUDA out of memory."},
	{"cuDNN with wrong arguments", cgotorch.ErrInvalid, "CUDNN_STATUS_BAD_PARAM"},
}

// mend resets the state in which a GPU has failed, since this process has none.
func mend() { cgotorch.ThrowForTest(cgotorch.Mend) }

func TestEveryKindOfExceptionBecomesACodeWithItsText(t *testing.T) {
	testenv.RequireTorch(t)
	defer mend()
	for thrown, c := range exceptions {
		mend()
		code := cgotorch.ThrowForTest(thrown)
		if broken := c.kind == cgotorch.ErrDevice; cgotorch.DeviceFailed() != broken {
			t.Errorf("%s: a GPU has failed: %v, want %v", c.name, !broken, broken)
		}
		if code >= 0 {
			t.Errorf("%s: no failure", c.name)
			continue
		}
		if got := code.Kind(); got != c.kind {
			t.Errorf("%s is of kind %d, want %d", c.name, got, c.kind)
		}
		kind, text := code.Take()
		if kind != c.kind || !strings.Contains(text, c.text) {
			t.Errorf("%s gives %d, %q, want %d, %q", c.name, kind, text, c.kind, c.text)
		}
		if strings.Contains(text, "frame #") || strings.Contains(text, "Exception raised from") {
			t.Errorf("%s carries a C++ backtrace: %q", c.name, text)
		}
	}
	if code := cgotorch.ThrowForTest(-1); code < 0 {
		t.Error("a call that throws nothing fails")
	}
}

func TestExceptionsOfManyThreadsKeepTheirOwnText(t *testing.T) {
	testenv.RequireTorch(t)
	defer mend()
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 3000 {
				c := exceptions[(g+i)%len(exceptions)]
				code := cgotorch.ThrowForTest((g + i) % len(exceptions))
				if kind, text := code.Take(); kind != c.kind || !strings.Contains(text, c.text) {
					t.Errorf("%s gives %d, %q", c.name, kind, text)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestReferencesAreCounted(t *testing.T) {
	testenv.RequireTorch(t)
	var x cgotorch.Tensor
	if code := cgotorch.FromBytes(make([]byte, 16), []int64{2, 2}, 6, false, &x); code < 0 {
		t.Fatal(code.Take())
	}
	cgotorch.Retain(x)
	if got := cgotorch.UseCount(x); got != 2 {
		t.Errorf("%d references after Retain, want 2", got)
	}
	var view cgotorch.Tensor
	if code := cgotorch.View(x, []int64{4}, &view); code < 0 {
		t.Fatal(code.Take())
	}
	cgotorch.FreeTensors([]cgotorch.Tensor{view, nil, x})
	if got := cgotorch.UseCount(x); got != 1 {
		t.Errorf("%d references after freeing one, want 1", got)
	}
	if got := cgotorch.GetFacts(x).Bytes; got != 16 || cgotorch.GetInfo(x).Bytes != got {
		t.Errorf("%d bytes, want 16", got)
	}
	cgotorch.FreeTensor(x)
	if got := cgotorch.UseCount(nil); got != 0 {
		t.Errorf("the undefined tensor has %d references", got)
	}
}

func TestASuccessNamesTheScopeOfItsThread(t *testing.T) {
	testenv.RequireTorch(t)
	torch.Scope(func() { // pins the thread
		former := cgotorch.SwapScope(77)
		defer cgotorch.SwapScope(former)
		var x cgotorch.Tensor
		code := cgotorch.FromBytes(nil, []int64{0}, 6, false, &x)
		if code != 77 {
			t.Errorf("the code is %d, want the scope's slot 77", code)
		}
		cgotorch.FreeTensor(x)
		done := make(chan cgotorch.Code)
		go func() { done <- cgotorch.ThrowForTest(-1) }()
		if other := <-done; other != 0 {
			t.Errorf("another thread is told scope %d, want none", other)
		}
	})
}

func TestNodesHaveNamesAndLeavesHaveNone(t *testing.T) {
	testenv.RequireTorch(t)
	x := torch.Ones(2).RequiresGrad()
	if got := x.String(); strings.Contains(got, "grad_fn") {
		t.Errorf("a leaf prints %s", got)
	}
	if got := x.Exp().String(); !strings.Contains(got, "grad_fn=<ExpBackward0>") {
		t.Errorf("a result prints %s", got)
	}
}
