package pymarlin_test

import (
	"archive/zip"
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/compat/pymarlin"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
)

// A run that is interrupted and resumed must leave the same files as an undisturbed one. Its epochs
// have 7 batches in windows of three, which extend over the ends of epochs, and its model has
// dropout.
func continued(dir string) pymarlin.TrainerArguments {
	return pymarlin.TrainerArguments{Epochs: 3, TrainBatchSize: 6, GPUBatchSizeLimit: 2, ValBatchSize: 2, NoGPU: true,
		DisableTqdm: true, Writers: []string{}, StatsArgs: pymarlin.StatInitArguments{LogSteps: 2},
		CheckpointerArgs: pymarlin.CheckpointerArguments{SaveDir: filepath.Join(dir, "saved"),
			ModelStateSaveDir: filepath.Join(dir, "model"), LoadDir: filepath.Join(dir, "saved")}}
}

// noted is a net that records the calls of its hooks and writers, and whose stats are kept over
// epochs.
type noted struct {
	*net
	*notes
}

func (m noted) OnBeginTrainEpoch(step, epoch int) error {
	m.add("begin epoch %d after %d, %v", epoch, step, drawn()) // draws from the generator
	m.Stats().UpdateMulti("begun", map[string]float64{"epoch": float64(epoch), "step": float64(step)}, false)
	return nil
}

func (m noted) OnEndTrainStep(step int, c pymarlin.Collected) error {
	m.Stats().UpdateHistogram("losses", []float64{c.Tensors[0].Mean(torch.Float32).Item()}, true)
	m.Stats().Update("odd", float64(step), true)
	return nil
}

func (m noted) OnEndTrainEpoch(step int, c pymarlin.Collected) error {
	m.add("end of epoch after %d: %v %v %v", step, torch.Values[float32](c.Tensors[0]), c.Tensors[1].Shape(), c.Values)
	return nil
}

func (m noted) TrainStep(step int, b batch, d torch.Device) (pymarlin.Outputs, error) {
	o, err := m.net.TrainStep(step, b, d)
	o.Values = []any{b.index[0], "text"} // values that a checkpoint can hold
	return o, err
}

func (m noted) Model() any { return m.net }

func drawn() (n float64) {
	torch.Scope(func() { n = torch.Rand(1).Item() })
	return n
}

// notes is also a writer.
type notes struct{ Lines []string }

func (n *notes) add(format string, args ...any) {
	n.Lines = append(n.Lines, fmt.Sprintf(format, args...))
}

func (n *notes) LogScalar(key string, v float64, step int) error {
	n.add("%s %v %d", key, v, step)
	return nil
}

func (n *notes) LogMulti(key string, values map[string]float64, step int) error {
	n.add("%s %v %d", key, values, step)
	return nil
}

func (n *notes) LogHistogram(key string, values []float64, step int) error {
	n.add("%s %v %d", key, values, step)
	return nil
}
func (n *notes) Flush() error { return nil }
func (n *notes) Close() error { return nil }

func newContinued(a pymarlin.TrainerArguments, n *notes) (noted, *pymarlin.Trainer[batch], error) {
	m := noted{newNet(14), n}
	a.CustomWriters = []pymarlin.Writer{n}
	torch.ManualSeed(11)
	tr, err := pymarlin.New(pymarlin.ModuleInterface[batch](m), a, options())
	return m, tr, err
}

// left returns checksums of the contents of a run's files, except for the random number in each
// file of torch.save.
func left(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	paths, err := filepath.Glob(filepath.Join(dir, "*", "*.pt"))
	require.NoError(t, err)
	for _, path := range paths {
		z, err := zip.OpenReader(path)
		require.NoError(t, err)
		name, _ := filepath.Rel(dir, path)
		for _, e := range z.File {
			if !strings.HasSuffix(e.Name, "serialization_id") {
				all[name] += fmt.Sprintf("%s %08x\n", e.Name, e.CRC32)
			}
		}
		require.NoError(t, z.Close())
	}
	return all
}

// undisturbed is the result of a run that was not interrupted.
type undisturbed struct {
	files   map[string]string
	lines   []string
	weights []float32
	random  []byte
}

func runThrough(t *testing.T, dir string) undisturbed {
	t.Helper()
	n := &notes{}
	m, tr, err := newContinued(continued(dir), n)
	require.NoError(t, err)
	require.NoError(t, tr.Train(t.Context()))
	require.Equal(t, 7, tr.GlobalStepsFinished())
	return undisturbed{left(t, dir), n.Lines, weights(m.net), torch.DefaultGenerator(torch.CPU).State()}
}

// same compares a run with an undisturbed one.
func (u undisturbed) same(t *testing.T, dir string, m noted, lines []string, claim string) {
	t.Helper()
	require.Equal(t, u.lines, lines, "%s: what hooks and writers are told", claim)
	require.Equal(t, u.weights, weights(m.net), "%s: weights", claim)
	require.Equal(t, u.random, torch.DefaultGenerator(torch.CPU).State(), "%s: generator", claim)
	require.Equal(t, u.files, left(t, dir), "%s: files", claim)
}

func TestEverySaveContinuesWithTheSameBits(t *testing.T) {
	testenv.RequireTorch(t)
	dir := t.TempDir()
	want := runThrough(t, dir)
	for last := range 2 {
		n := &notes{}
		a := continued(dir)
		a.CheckpointerArgs.LoadFilename = fmt.Sprintf("model_%d.pt", last)
		m, tr, err := newContinued(a, n)
		require.NoError(t, err)
		require.NoError(t, tr.Train(t.Context()))
		begin := slices.IndexFunc(want.lines, func(l string) bool {
			return strings.HasPrefix(l, fmt.Sprintf("begin epoch %d", last+1))
		})
		want.same(t, dir, m, append(slices.Clone(want.lines[:begin]), n.Lines...), a.CheckpointerArgs.LoadFilename)
	}
}

func TestCancelledAnywhereTheRunContinuesWithTheSameBits(t *testing.T) {
	testenv.RequireTorch(t)
	want := runThrough(t, t.TempDir())
	inside := 0
	for _, again := range []bool{false, true} { // Train called again, or a new trainer
		for stop := range 3 * (7 + 3) { // batches of training and validation
			claim := fmt.Sprintf("cancelled in batch %d, again %v", stop, again)
			dir, n := t.TempDir(), &notes{}
			ctx, cancel := context.WithCancelCause(t.Context())
			m, tr, err := newContinued(continued(dir), n)
			require.NoError(t, err)
			seen := 0
			m.net.seen = func() {
				if seen++; seen > stop {
					cancel(errors.New("enough"))
				}
			}
			if err = tr.Train(ctx); err == nil { // cancelled when no batches were left
				want.same(t, dir, m, n.Lines, claim)
				continue
			}
			require.ErrorContains(t, err, "enough")
			m.net.seen = nil
			if tr.GlobalStepsFinished() == 0 {
				require.ErrorContains(t, err, "not saved: there has been no update yet")
				continue
			}
			inside++
			require.ErrorContains(t, err, "continues there")
			if !again {
				m, tr, err = newContinued(continued(dir), n)
				require.NoError(t, err)
			}
			// Interrupt it again before it completes a batch: at once, or while it skips the
			// batches already done.
			for _, stop := range []func(cancel func()){func(cancel func()) { cancel() },
				func(cancel func()) { m.net.loads = cancel }} {
				ctx, cancel := context.WithCancel(t.Context())
				stop(cancel)
				if err := tr.Train(ctx); err != nil { // otherwise no batches were left
					require.ErrorIs(t, err, context.Canceled, claim)
				}
				cancel()
				m.net.loads = nil
				if !again {
					m, tr, err = newContinued(continued(dir), n)
					require.NoError(t, err)
				}
			}
			require.NoError(t, tr.Train(t.Context()))
			// An epoch that was stopped before its first batch begins again.
			want.same(t, dir, m, slices.Compact(n.Lines), claim)
		}
	}
	require.Greater(t, inside, 40)
}

func TestACheckpointInsideAnEpochWantsTheSameBatches(t *testing.T) {
	testenv.RequireTorch(t)
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	m, tr, err := newContinued(continued(dir), &notes{})
	require.NoError(t, err)
	m.net.seen = func() {
		if tr.GlobalStepsFinished() == 1 {
			cancel()
		}
	}
	require.ErrorIs(t, tr.Train(ctx), context.Canceled)
	a := continued(dir)
	a.GPUBatchSizeLimit = 3
	_, tr, err = newContinued(a, &notes{})
	require.NoError(t, err)
	require.ErrorContains(t, tr.Train(t.Context()), "same data and batch sizes")
	o := options()
	o.InexactResume = true
	tr, err = pymarlin.New(pymarlin.ModuleInterface[batch](newNet(14)), a, o)
	require.NoError(t, err)
	require.NoError(t, tr.Train(t.Context()), "from the beginning of the epoch")
	require.Equal(t, 2, tr.LastEpoch())
}

// Epochs of 7 batches with windows of three end inside a window.
func TestACheckpointInsideAWindowWantsTheSameWindows(t *testing.T) {
	testenv.RequireTorch(t)
	dir := t.TempDir()
	runThrough(t, dir)
	a := continued(dir)
	a.CheckpointerArgs.LoadFilename = "model_0.pt"
	a.GPUBatchSizeLimit = 3
	_, _, err := newContinued(a, &notes{})
	require.ErrorIs(t, err, trainer.ErrOtherRun)
	require.ErrorContains(t, err, "a window of 3 batches was open when it was written, and windows have 2 batches now")
	o := options()
	o.InexactResume = true
	tr, err := pymarlin.New(pymarlin.ModuleInterface[batch](newNet(14)), a, o)
	require.NoError(t, err)
	require.NoError(t, tr.Train(t.Context()), "without the gradients of the window")
	require.Equal(t, 2, tr.LastEpoch())
}

// around is a backend with some methods of its own.
type around struct {
	pymarlin.SingleProcess[batch]
	calls []string
	train func(func() error) error // nil: call it once
}

func (b *around) TrainDL(ctx context.Context, l pymarlin.Dataloader[batch],
	train func(pymarlin.Dataloader[batch]) error) (
	pymarlin.Collected, error) {
	b.calls = append(b.calls, fmt.Sprintf("epoch of %d", l.Len()))
	if b.train != nil {
		return pymarlin.Collected{}, b.train(func() error { return train(l) })
	}
	return b.SingleProcess.TrainDL(ctx, l, train)
}

func (b *around) TrainBatch(x batch) error {
	b.calls = append(b.calls, "batch")
	return b.SingleProcess.TrainBatch(x)
}

func (b *around) ProcessGlobalStep() error {
	b.calls = append(b.calls, "update")
	return b.SingleProcess.ProcessGlobalStep()
}

func TestABackendOverridesItsMethods(t *testing.T) {
	b := &around{}
	o := options()
	o.Backend = b
	train(t, newNet(5), pymarlin.TrainerArguments{Epochs: 2, TrainBatchSize: 4, GPUBatchSizeLimit: 2}, o)
	require.Equal(t, []string{"epoch of 3", "batch", "batch", "update", "batch", "epoch of 3", "batch", "update",
		"batch",
		"batch", "update"}, b.calls)
	for _, wrong := range []func(func() error) error{func(func() error) error { return nil },
		func(train func() error) error { return errors.Join(train(), train()) }} {
		o.Backend = &around{train: wrong}
		tr, err := pymarlin.New(pymarlin.ModuleInterface[batch](newNet(4)), quiet(pymarlin.TrainerArguments{}), o)
		require.NoError(t, err)
		require.ErrorContains(t, tr.Train(t.Context()), "must call train")
	}
}

func TestTrainEpochIsOnePass(t *testing.T) {
	testenv.RequireTorch(t)
	m := noted{newNet(14), &notes{}}
	tr, err := pymarlin.New(pymarlin.ModuleInterface[batch](m), quiet(pymarlin.TrainerArguments{TrainBatchSize: 6,
		GPUBatchSizeLimit: 2}), options())
	require.NoError(t, err)
	for pass := range 2 {
		c, err := tr.TrainEpoch(t.Context())
		require.NoError(t, err)
		require.Equal(t, []int64{7}, c.Tensors[0].Shape())
		require.Equal(t, 7*(pass+1), tr.TotalStepsFinished())
		require.Equal(t, []int{2, 4}[pass], tr.GlobalStepsFinished())
	}
	require.Equal(t, -1, tr.LastEpoch())
}

// ofAnotherLength has a loader whose length in an epoch is shorter than announced.
type ofAnotherLength struct{ *net }

func (m ofAnotherLength) TrainDataloader(s pymarlin.Sampler, size int) (pymarlin.Dataloader[batch], error) {
	rows := 4
	if s.Name() == "SequentialSampler" {
		rows = 6
	}
	return m.loader(rows, s, size)
}

func TestALoaderOfAnotherLengthIsRefused(t *testing.T) {
	testenv.RequireTorch(t)
	tr, err := pymarlin.New(pymarlin.ModuleInterface[batch](ofAnotherLength{newNet(4)}),
		quiet(pymarlin.TrainerArguments{}), options())
	require.NoError(t, err)
	require.ErrorContains(t, tr.Train(t.Context()), "the loader has 4 batches; want the 6")
}

// The runs that are killed are processes of this test binary; the variable holds the folder of the
// run. A process prints a line when training begins, and the outcome at the end.
const (
	killedRun = "PYMARLIN_TEST_KILL"
	begun     = "begun"
)

func runToBeKilled(dir string) int {
	m, tr, err := newContinued(continued(dir), &notes{})
	if err == nil {
		fmt.Println(begun)
		if err = tr.Train(context.Background()); err == nil {
			text, _ := json.Marshal(weights(m.net))
			fmt.Println(tr.GlobalStepsFinished(), crc32.ChecksumIEEE(text))
			return 0
		}
	}
	fmt.Println(err)
	return 1
}

// runUntil runs a process, kills it a given time after training has begun, and returns what it
// prints at its end; empty if it was killed.
func runUntil(t *testing.T, dir string, kill time.Duration) (said string, took time.Duration) {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append(os.Environ(), killedRun+"="+dir)
	var problems bytes.Buffer
	c.Stderr = &problems
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	var from time.Time
	for lines := bufio.NewScanner(out); lines.Scan(); said = lines.Text() {
		if lines.Text() == begun {
			from = time.Now()
			defer time.AfterFunc(kill, func() { _ = c.Process.Kill() }).Stop()
		}
	}
	if err := c.Wait(); err != nil {
		require.Negative(t, c.ProcessState.ExitCode(), "the run fails: %s\n%s", said, &problems)
		return "", 0
	}
	return said, time.Since(from)
}

func TestARunThatIsKilledAtAnyInstantEndsWithTheSameBits(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a process for each kill; not with -short")
	}
	testenv.RequireTorch(t)
	whole, dir := t.TempDir(), t.TempDir()
	want, took := runUntil(t, whole, time.Hour)
	kills := 0
	for ; kills < 6; kills++ {
		if said, _ := runUntil(t, dir, time.Duration(rand.Float64()*float64(took)/2)); said != "" {
			break
		}
	}
	got, _ := runUntil(t, dir, time.Hour)
	require.Equal(t, want, got, "updates and weights, undisturbed and after %d kills", kills)
	assert.Equal(t, left(t, whole), left(t, dir), "files, undisturbed and after %d kills", kills)
	t.Logf("killed %d times", kills)
}
