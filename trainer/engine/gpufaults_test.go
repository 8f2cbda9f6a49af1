package engine_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/gpufault"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/run"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

func ofCUDA(number int, text string) gpufault.Fault {
	return gpufault.Fault{Exception: gpufault.Accelerator, Number: number, Text: "CUDA error: " + text}
}

func ofLibrary(text string) gpufault.Fault {
	return gpufault.Fault{Exception: gpufault.Plain, Text: text}
}

// gpuFaults are the errors of a GPU and its libraries, in the words of libtorch 2.11 and CUDA 13,
// and the errors and exit codes that they lead to.
var gpuFaults = []struct {
	fault gpufault.Fault
	kind  torch.Code
	exit  run.Code
}{
	// No memory: the operator is called again, and then the batch is divided or the run ends.
	{gpufault.Short, torch.ErrOutOfMemory, run.OutOfMemory},
	{gpufault.Fault{Exception: gpufault.OutOfMemory, Text: "CUDA out of memory. Tried to allocate more than 1EB memory."},
		torch.ErrOutOfMemory, run.OutOfMemory},
	{ofCUDA(2, "out of memory"), torch.ErrOutOfMemory, run.OutOfMemory}, // cudaMalloc, cudaHostAlloc
	{ofLibrary("CUDA driver error: out of memory"), torch.ErrOutOfMemory, run.OutOfMemory},
	{ofLibrary("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), torch.ErrOutOfMemory,
		run.OutOfMemory},
	{ofLibrary("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"), torch.ErrOutOfMemory,
		run.OutOfMemory},
	{ofLibrary("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"), torch.ErrOutOfMemory, run.OutOfMemory},
	{ofLibrary("cuDNN error: CUDNN_STATUS_NOT_INITIALIZED"), torch.ErrOutOfMemory, run.OutOfMemory},
	{ofLibrary("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"), torch.ErrOutOfMemory,
		run.OutOfMemory},
	{ofLibrary("cuDNN error: CUDNN_STATUS_NOT_SUPPORTED. This error may appear if you passed in a non-contiguous input."),
		torch.ErrOutOfMemory, run.OutOfMemory},
	{ofLibrary("FIND was unable to find an engine to execute this computation"), torch.ErrOutOfMemory, run.OutOfMemory},
	{ofLibrary("GET was unable to find an engine to execute this computation"), torch.ErrOutOfMemory, run.OutOfMemory},
	{ofLibrary("cusolver error: CUSOLVER_STATUS_ALLOC_FAILED, when calling `cusolverDnCreate(handle)`"),
		torch.ErrOutOfMemory, run.OutOfMemory},
	{ofLibrary("cusolver error: CUSOLVER_STATUS_NOT_INITIALIZED, when calling `cusolverDnCreate(handle)`"),
		torch.ErrOutOfMemory, run.OutOfMemory},
	{ofLibrary("CUDA error: CUSPARSE_STATUS_ALLOC_FAILED when calling `cusparseCreate(handle)`"), torch.ErrOutOfMemory,
		run.OutOfMemory},
	{ofLibrary("CUDA error: insufficient resources when calling `cusparseSpMM(...)`: CUSPARSE_STATUS_INSUFFICIENT_RESOURCES"),
		torch.ErrOutOfMemory, run.OutOfMemory},
	{ofLibrary("cuFFT error: CUFFT_ALLOC_FAILED"), torch.ErrOutOfMemory, run.OutOfMemory},
	{ofLibrary("NCCL Error 1: unhandled cuda error. Last error: Cuda failure 2 'out of memory'"), torch.ErrOutOfMemory,
		run.OutOfMemory},
	{ofLibrary("[enforce fail at alloc_cpu.cpp:121] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to " +
		"allocate 1125899906842624 bytes."), torch.ErrOutOfMemory, run.OutOfMemory},

	// The context is broken: the run ends, and CUDA is not called any more.
	{ofCUDA(700, "an illegal memory access was encountered"), torch.ErrDevice, run.Device},
	{ofCUDA(710, "device-side assert triggered"), torch.ErrDevice, run.Device},
	{ofCUDA(719, "unspecified launch failure"), torch.ErrDevice, run.Device},
	{ofCUDA(716, "misaligned address"), torch.ErrDevice, run.Device},
	{ofCUDA(715, "an illegal instruction was encountered"), torch.ErrDevice, run.Device},
	{ofCUDA(717, "operation not supported on global/shared address space"), torch.ErrDevice, run.Device},
	{ofCUDA(718, "invalid program counter"), torch.ErrDevice, run.Device},
	{ofCUDA(214, "uncorrectable ECC error encountered"), torch.ErrDevice, run.Device},
	{ofCUDA(220, "uncorrectable NVLink error detected during the execution"), torch.ErrDevice, run.Device},
	{ofCUDA(702, "the launch timed out and was terminated"), torch.ErrDevice, run.Device},
	{ofCUDA(4, "driver shutting down"), torch.ErrDevice, run.Device},
	{ofCUDA(709, "context is destroyed"), torch.ErrDevice, run.Device},
	{ofCUDA(304, "OS call failed or operation not supported on this OS"), torch.ErrDevice, run.Device},
	{ofCUDA(999, "unknown error"), torch.ErrDevice, run.Device},
	{ofLibrary("CUDA driver error: an illegal memory access was encountered"), torch.ErrDevice, run.Device},
	{ofLibrary("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm(...)`"), torch.ErrDevice, run.Device},
	{ofLibrary("CUDA error: CUBLAS_STATUS_MAPPING_ERROR when calling `cublasSgemm(...)`"), torch.ErrDevice, run.Device},
	{ofLibrary("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED_CUDART"), torch.ErrDevice, run.Device},
	{ofLibrary("cusolver error: CUSOLVER_STATUS_EXECUTION_FAILED, when calling `cusolverDnSgetrf(...)`"), torch.ErrDevice,
		run.Device},
	{ofLibrary("CUDA error: CUSPARSE_STATUS_EXECUTION_FAILED when calling `cusparseSpMM(...)`"), torch.ErrDevice,
		run.Device},
	{ofLibrary("cuFFT error: CUFFT_EXEC_FAILED"), torch.ErrDevice, run.Device},
	{ofLibrary("NCCL Error 1: unhandled cuda error. Last error: Cuda failure 700 'an illegal memory access was " +
		"encountered'"), torch.ErrDevice, run.Device},
	{gpufault.Fault{Exception: gpufault.Standard, Text: "CUDA error: unspecified launch failure"}, torch.ErrDevice,
		run.Device},

	// There is no GPU, or it does not support the operation. The process may continue without it.
	{ofLibrary("Found no NVIDIA driver on your system."), torch.ErrNotSupported, run.Training},
	{ofLibrary("The NVIDIA driver on your system is too old (found version 12080)."), torch.ErrNotSupported, run.Training},
	{ofLibrary("No CUDA GPUs are available"), torch.ErrNotSupported, run.Training},
	{ofLibrary("Cannot initialize CUDA without ATen_cuda library."), torch.ErrNotSupported, run.Training},
	{ofCUDA(34, "CUDA driver is a stub library"), torch.ErrNotSupported, run.Training},
	{ofCUDA(35, "CUDA driver version is insufficient for CUDA runtime version"), torch.ErrNotSupported, run.Training},
	{ofCUDA(46, "CUDA-capable device(s) is/are busy or unavailable"), torch.ErrNotSupported, run.Training},
	{ofCUDA(100, "no CUDA-capable device is detected"), torch.ErrNotSupported, run.Training},
	{ofCUDA(209, "no kernel image is available for execution on the device"), torch.ErrNotSupported, run.Training},
	{ofCUDA(222, "the provided PTX was compiled with an unsupported toolchain."), torch.ErrNotSupported, run.Training},
	{ofCUDA(802, "system not yet initialized"), torch.ErrNotSupported, run.Training},
	{ofCUDA(803, "system has unsupported display driver / cuda driver combination"), torch.ErrNotSupported, run.Training},
	{ofCUDA(804, "forward compatibility was attempted on non supported HW"), torch.ErrNotSupported, run.Training},
	{ofLibrary("CUDA error: CUBLAS_STATUS_ARCH_MISMATCH when calling `cublasLtMatmul(...)`"), torch.ErrNotSupported,
		run.Training},
	{ofLibrary("CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling `cublasLtMatmul(...)`"), torch.ErrNotSupported,
		run.Training},
	{ofLibrary("cuDNN error: CUDNN_STATUS_NOT_SUPPORTED_SHAPE"), torch.ErrNotSupported, run.Training},
	{gpufault.Fault{Exception: gpufault.NotImplemented, Text: `"conv" not implemented for 'Half'`}, torch.ErrNotSupported,
		run.Training},
	{ofCUDA(900, "operation not permitted when stream is capturing"), torch.ErrNotSupported, run.Training},

	// Mistakes of the program.
	{ofCUDA(101, "invalid device ordinal"), torch.ErrInvalid, run.Training},
	{ofCUDA(1, "invalid argument"), torch.ErrInvalid, run.Training},
	{ofCUDA(9, "invalid configuration argument"), torch.ErrInvalid, run.Training},
	{ofCUDA(701, "too many resources requested for launch"), torch.ErrInvalid, run.Training},
	{ofLibrary("cuDNN error: CUDNN_STATUS_BAD_PARAM"), torch.ErrInvalid, run.Training},

	// Internal errors of a library.
	{ofLibrary("CUDA error: CUBLAS_STATUS_INTERNAL_ERROR when calling `cublasSgemm(...)`"), torch.ErrInternal,
		run.Training},
	{ofLibrary("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR"), torch.ErrInternal, run.Training},
	{ofLibrary("cusolver error: CUSOLVER_STATUS_INTERNAL_ERROR, when calling `cusolverDnSgetrf(...)`"), torch.ErrInternal,
		run.Training},
	{ofLibrary("NCCL Error 2: unhandled system error (run with NCCL_DEBUG=INFO for details)"), torch.ErrInternal,
		run.Training},
}

// atStep is a hook that does something once, after a given update.
type atStep struct {
	update int
	do     func()
}

func (a *atStep) StepEnd(r *trainer.Run) error {
	if do := a.do; r.GlobalStep == a.update && do != nil {
		a.do = nil
		do()
	}
	return nil
}

// faultyRun trains for six updates, saves after every second one and evaluates at the end; fault is
// called before the fourth update.
func faultyRun(t *testing.T, o trainer.Options, fault func() (stop func() int)) (*step, *trainer.Result, error) {
	t.Helper()
	s := newStep(t, engine.Options{})
	torch.ManualSeed(3)
	stop := func() int { return 0 }
	o.MaxSteps, o.BatchSize, o.Seed = 6, 4, 3
	o.Save, o.Eval = trainer.Every(2, trainer.Update), trainer.Every(4, trainer.Update)
	o.Log = trainer.Every(2, trainer.Update)
	if fault != nil {
		o.Callbacks = []any{&atStep{3, func() { stop = fault() }}}
	}
	fit, err := trainer.New(s, quiet(o))
	require.NoError(t, err)
	r, err := fit.Fit(t.Context(), ring(24), ring(8))
	stop()
	return s, r, err
}

// checkpoints returns the checkpoints in a folder, including drafts.
func checkpoints(t *testing.T, dir string) (names []string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*checkpoint-*"))
	require.NoError(t, err)
	for _, path := range found {
		names = append(names, filepath.Base(path))
	}
	return names
}

func TestEveryFaultOfAGPUIsTypedAndLeavesWholeCheckpoints(t *testing.T) {
	testenv.RequireTorch(t)
	t.Cleanup(gpufault.Mend)
	require.GreaterOrEqual(t, len(gpuFaults), 40)
	unharmed, _, err := faultyRun(t, trainer.Options{OutputDir: t.TempDir()}, nil)
	require.NoError(t, err)
	want := fingerprint(unharmed)
	for _, c := range gpuFaults {
		t.Run(c.fault.Text, func(t *testing.T) {
			defer gpufault.Mend()
			dir := t.TempDir()
			_, r, err := faultyRun(t, trainer.Options{OutputDir: dir}, func() func() int { return c.fault.After(2, false) })
			require.ErrorIs(t, err, c.kind)
			assert.Equal(t, c.exit, run.CodeOf(err))
			assert.Equal(t, 3, r.GlobalStep)
			require.ErrorContains(t, err, c.fault.Text)
			assert.Equal(t, c.kind == torch.ErrDevice, torch.DeviceFailed())
			if c.kind == torch.ErrDevice {
				require.ErrorContains(t, err, "CUDA_LAUNCH_BLOCKING=1")
			}
			require.Equal(t, []string{"checkpoint-2"}, checkpoints(t, dir), "no draft, and no checkpoint after the failure")

			gpufault.Mend() // as in another process
			resumed, _, err := faultyRun(t, trainer.Options{OutputDir: dir, ResumeFrom: trainer.Latest}, nil)
			require.NoError(t, err)
			assert.Equal(t, want, fingerprint(resumed), "resumed from checkpoint-2")
		})
	}
}

// An operator that failed once because of memory does not affect the run: it is called again, and
// the bits are the same. Any other failure ends the run at once.
func TestAFaultThatDoesNotComeAgainEndsARunUnlessItIsMemory(t *testing.T) {
	testenv.RequireTorch(t)
	t.Cleanup(gpufault.Mend)
	unharmed, _, err := faultyRun(t, trainer.Options{OutputDir: t.TempDir()}, nil)
	require.NoError(t, err)
	want := fingerprint(unharmed)
	for _, c := range gpuFaults {
		gpufault.Mend()
		s, _, err := faultyRun(t, trainer.Options{OutputDir: t.TempDir()},
			func() func() int { return c.fault.After(0, true) })
		if c.kind == torch.ErrOutOfMemory {
			require.NoError(t, err, c.fault.Text)
			assert.Equal(t, want, fingerprint(s), c.fault.Text)
			continue
		}
		require.ErrorIs(t, err, c.kind, c.fault.Text)
	}
}

// phased is a Step that records how many operators each of its calls has called.
type phased struct {
	*step
	phases *[]phase
}

type phase struct {
	name string
	ends int // operators called up to the end of the phase
}

func (p phased) note(name string) { *p.phases = append(*p.phases, phase{name, gpufault.Called()}) }

func (p phased) Train(ctx context.Context, b engine.Examples, w trainer.Window) error {
	defer p.note("train")
	return p.step.Train(ctx, b, w)
}

func (p phased) Clip(ctx context.Context) error {
	defer p.note("clip")
	return p.step.Clip(ctx)
}

func (p phased) Update(ctx context.Context, lr float64) (bool, error) {
	defer p.note("update")
	return p.step.Update(ctx, lr)
}

func (p phased) Report(ctx context.Context) (trainer.Report, error) {
	defer p.note("report")
	return p.step.Report(ctx)
}

func (p phased) Eval(ctx context.Context, b engine.Examples) error {
	defer p.note("evaluate")
	return p.step.Eval(ctx, b)
}

func (p phased) Metrics(ctx context.Context) (trainer.Metrics, error) {
	defer p.note("metrics")
	return p.step.Metrics(ctx)
}

func (p phased) NonFinite() ([]string, error) {
	defer p.note("look for nan")
	return p.step.NonFinite()
}

func (p phased) Save(dir string, o trainer.SaveOptions) error {
	defer p.note("save")
	return p.step.Save(dir, o)
}

// sweep runs until the fourth update has been evaluated, logged and saved; fault is called before
// that update. phases says to which part the operators from there on belong.
func sweep(t *testing.T, o trainer.Options, fault func() (stop func() int)) (s *step, calls int, phases []phase,
	r *trainer.Result, err error) {
	t.Helper()
	s = newStep(t, engine.Options{})
	torch.ManualSeed(3)
	var stop func() int
	o.MaxSteps, o.BatchSize, o.Seed = 4, 4, 3
	o.Save, o.Eval, o.Log = trainer.Every(2, trainer.Update), trainer.Every(4, trainer.Update),
		trainer.Every(4, trainer.Update)
	o.Callbacks = []any{&atStep{3, func() {
		phases = nil
		stop = fault()
	}}}
	o.Logger = slog.New(slog.DiscardHandler)
	fit, err := trainer.New(phased{s, &phases}, quiet(o))
	require.NoError(t, err)
	r, err = fit.Fit(t.Context(), ring(24), ring(8))
	return s, stop(), phases, r, err
}

// during returns the phase to which operator number n belongs.
func during(phases []phase, n int) string {
	for _, p := range phases {
		if n < p.ends {
			return p.name
		}
	}
	return "end"
}

// files returns the weights and moments in the checkpoints of a folder.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range checkpoints(t, dir) {
		for _, file := range []string{"model.safetensors", "optimizer.safetensors"} {
			text, err := os.ReadFile(filepath.Join(dir, name, file))
			require.NoError(t, err)
			all[filepath.Join(name, file)] = string(text)
		}
	}
	return all
}

// Memory runs out at each operator of an update in turn, including its evaluation, its row of the
// log and its checkpoint: permanently, or once.
func TestMemoryThatRunsOutAtAnyOperatorLeavesWholeCheckpoints(t *testing.T) {
	testenv.RequireTorch(t)
	for _, c := range []struct {
		name   string
		o      trainer.Options
		once   bool
		stride int // from one operator to the next
	}{
		{"for good", trainer.Options{}, false, 3},
		{"for good, saved asynchronously", trainer.Options{AsyncSave: true}, false, 3},
		{"once", trainer.Options{}, true, 1},
		{"once, saved asynchronously", trainer.Options{AsyncSave: true}, true, 3},
		{"once, with batches that are divided", trainer.Options{DivideOnOutOfMemory: true}, true, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			at := func() (o trainer.Options) {
				o = c.o
				o.OutputDir = t.TempDir()
				return o
			}
			o := at()
			s, calls, phases, _, err := sweep(t, o, gpufault.Never)
			require.NoError(t, err)
			want, unharmed := fingerprint(s), files(t, o.OutputDir)
			require.Len(t, unharmed, 4)
			survived := map[string]int{}
			stride := c.stride
			if testing.Short() {
				stride = 11
			}
			for n := 0; n < calls; n += stride {
				name := fmt.Sprintf("operator %d of %d, %s", n, calls, during(phases, n))
				o := at()
				s, _, _, r, err := sweep(t, o, func() func() int { return gpufault.Short.After(n, c.once) })
				for file, text := range files(t, o.OutputDir) {
					divided := c.o.DivideOnOutOfMemory && strings.HasPrefix(file, "checkpoint-4")
					assert.True(t, divided || text == unharmed[file], "%s: %s differs", name, file)
				}
				if err == nil {
					survived[during(phases, n)]++
					require.True(t, c.once, name)
					require.Equal(t, 4, r.GlobalStep, name)
					require.Len(t, checkpoints(t, o.OutputDir), 2, name)
					if len(r.Warnings) == 0 {
						require.Equal(t, want, fingerprint(s), name)
					}
					continue
				}
				require.ErrorIs(t, err, torch.ErrOutOfMemory, name)
				require.Equal(t, run.OutOfMemory, run.CodeOf(err), name)
				if during(phases, n) != "end" { // at the end, when the random generators are restored
					require.ErrorContains(t, err, "trainer: ", name)
					require.ErrorContains(t, err, "after update ", name)
				}
				require.ErrorContains(t, err, gpufault.Short.Text, name)
				require.Subset(t, []string{"checkpoint-2", "checkpoint-4"}, checkpoints(t, o.OutputDir), name)
			}
			if c.once {
				for _, name := range []string{"train", "evaluate"} {
					assert.Positive(t, survived[name], "operators that are called again, %s", name)
				}
			}
			if c.o.DivideOnOutOfMemory {
				require.Equal(t, "train", phases[0].name)
				assert.Equal(t, (phases[0].ends+stride-1)/stride, survived["train"], "forward and backward")
			}
		})
	}
}

// Errors that a program gets before it trains: each is a mistake of the configuration.
func TestAGPUThatIsNotThereIsRefused(t *testing.T) {
	testenv.RequireTorch(t)
	_, err := engine.New(engine.Classify(newNet()), engine.Options{Device: torch.CUDA(127)})
	require.ErrorIs(t, err, torch.ErrNotSupported)
	assert.Equal(t, run.Configuration, run.CodeOf(err))
	assert.ErrorContains(t, err, "Options.Device")
}
