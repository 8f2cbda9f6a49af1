package pymarlin_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/compat/pymarlin"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

func TestBatchIsSplitToFitTheLimit(t *testing.T) {
	for _, c := range []struct {
		claim                     string
		batch, limit, step, steps int
	}{
		{"within the limit it stays whole", 8, 512, 8, 1},
		{"a multiple of the limit makes steps of the limit", 1024, 512, 512, 2},
		{"an even batch is halved", 12, 8, 6, 2},
		{"an odd one loses samples", 13, 5, 3, 4},
		{"down to single samples", 7, 1, 1, 7},
	} {
		if got := pymarlin.TrainStepBatchSize(c.batch, c.limit); got != c.step || c.batch/got != c.steps {
			t.Errorf("%s: TrainStepBatchSize(%d, %d) = %d, want %d", c.claim, c.batch, c.limit, got, c.step)
		}
	}
}

func TestEstimateCountsOneTooManyWhereItDivides(t *testing.T) {
	for _, c := range []struct{ batches, world, window, most, want int }{
		{10, 1, 4, 0, 3}, {8, 1, 4, 0, 3}, {10, 2, 4, 0, 2}, {10, 1, 4, 2, 2}, {0, 1, 1, 0, 1},
	} {
		if got := pymarlin.EstimatedGlobalSteps(c.batches, c.world, c.window, c.most); got != c.want {
			t.Errorf("EstimatedGlobalSteps(%d, %d, %d, %d) = %d, want %d", c.batches, c.world, c.window, c.most, got,
				c.want)
		}
	}
}

func TestWindowsRunOverEpochsAndTheLastIsLost(t *testing.T) {
	for _, c := range []struct {
		claim           string
		args            pymarlin.TrainerArguments
		rows            int
		updates, passes int
	}{
		{"10 batches in windows of 4, twice", pymarlin.TrainerArguments{Epochs: 2, TrainBatchSize: 8,
			GPUBatchSizeLimit: 2}, 20, 5, 20},
		{"a tail that is lost", pymarlin.TrainerArguments{TrainBatchSize: 8, GPUBatchSizeLimit: 2}, 20, 2, 10},
		{"two updates an epoch at most", pymarlin.TrainerArguments{Epochs: 3, TrainBatchSize: 4, GPUBatchSizeLimit: 2,
			MaxTrainStepsPerEpoch: 2}, 22, 6, 12},
		{"nothing given", pymarlin.TrainerArguments{}, 3, 3, 3},
	} {
		n := newNet(c.rows)
		trainer := train(t, n, c.args, nil)
		if trainer.GlobalStepsFinished() != c.updates || trainer.TotalStepsFinished() != c.passes {
			t.Errorf("%s: %d updates of %d batches, want %d of %d", c.claim, trainer.GlobalStepsFinished(),
				trainer.TotalStepsFinished(), c.updates, c.passes)
		}
	}
}

func TestResumedRunIsTheSameRun(t *testing.T) {
	testenv.RequireTorch(t)
	for _, ext := range []string{"pt", "safetensors"} {
		// 5 batches in windows of 3, so most epochs end with an unfinished window.
		args := pymarlin.TrainerArguments{Epochs: 4, TrainBatchSize: 6, GPUBatchSizeLimit: 2}
		whole := newNet(10)
		args.CheckpointerArgs = pymarlin.CheckpointerArguments{SaveDir: t.TempDir(), NoModelState: true, FileExt: ext}
		train(t, whole, args, nil)
		want := weights(whole)
		for last := range 3 {
			resumed := newNet(10)
			again := args
			again.CheckpointerArgs = pymarlin.CheckpointerArguments{LoadDir: args.CheckpointerArgs.SaveDir,
				LoadFilename: fmt.Sprintf("model_%d.%s", last, ext), NoCheckpoint: true, FileExt: ext}
			torch.ManualSeed(99)
			trainer := train(t, resumed, again, nil)
			if got := weights(resumed); !slices.Equal(got, want) {
				t.Errorf("%s: resumed after epoch %d the weights are %v, want %v", ext, last, got[:4], want[:4])
			}
			if trainer.GlobalStepsFinished() != 6 || trainer.LastEpoch() != 3 {
				t.Errorf("%s: resumed after epoch %d: %d updates up to epoch %d, want 6 up to 3", ext, last,
					trainer.GlobalStepsFinished(), trainer.LastEpoch())
			}
			inexact := newNet(10)
			torch.ManualSeed(99)
			o := options()
			o.InexactResume = true
			train(t, inexact, again, o)
			if slices.Equal(weights(inexact), want) {
				t.Errorf("%s: resumed inexactly after epoch %d the run is the same, so this test tells nothing", ext,
					last)
			}
		}
	}
}

func TestResetMakesOptimizersForTheEpochsThatAreLeft(t *testing.T) {
	dir := t.TempDir()
	args := pymarlin.TrainerArguments{Epochs: 2, TrainBatchSize: 2,
		CheckpointerArgs: pymarlin.CheckpointerArguments{SaveDir: dir, NoModelState: true}}
	train(t, newNet(4), args, nil)
	args.Epochs, args.ResetOptimizersSchedulers, args.CheckpointerArgs.LoadDir = 5, true, dir
	n := newNet(4)
	trainer := train(t, n, args, nil)
	if made := slices.DeleteFunc(slices.Clone(n.events),
		func(e string) bool { return !strings.HasPrefix(e, "optimizers") }); !slices.Equal(made,
		[]string{"optimizers(3, 5)", "optimizers(3, 3)"}) {
		t.Errorf("optimizers were made by %v", made)
	}
	if moves := trainer.Schedulers()[0].(*pymarlin.LRScheduler).Moves(); moves != 6 ||
		trainer.GlobalStepsFinished() != 10 {
		t.Errorf("the new schedule moved %d times in %d updates, want 6 in 10", moves, trainer.GlobalStepsFinished())
	}
}

type misspelt struct{ *net }

func (misspelt) OnEndTrainStp(int, pymarlin.Collected) error { return nil }

type wrongParameters struct{ *net }

func (wrongParameters) OnEndValEpoch(int, pymarlin.Collected) error { return nil }

type noOptimizer struct{ *net }

func (noOptimizer) OptimizersSchedulers(int, int) ([]*pymarlin.Optimizer, []pymarlin.Scheduler, error) {
	return nil, nil, nil
}

func TestNewRefuses(t *testing.T) {
	testenv.RequireTorch(t)
	for _, c := range []struct {
		claim  string
		module func(n *net) pymarlin.ModuleInterface[batch]
		args   pymarlin.TrainerArguments
		want   string
	}{
		{"a misspelt hook", func(n *net) pymarlin.ModuleInterface[batch] { return misspelt{n} },
			pymarlin.TrainerArguments{}, "OnEndTrainStp"},
		{"a hook with other parameters", func(n *net) pymarlin.ModuleInterface[batch] { return wrongParameters{n} },
			pymarlin.TrainerArguments{}, "ValEpochEndHook"},
		{"a module without optimizer", func(n *net) pymarlin.ModuleInterface[batch] { return noOptimizer{n} },
			pymarlin.TrainerArguments{}, "made no optimizer"},
		{"several processes by rank", nil,
			pymarlin.TrainerArguments{DistributedTrainingArgs: &pymarlin.DistributedTrainingArguments{WorldSize: 2}},
			"process 0 of 2 (local rank 0), and Options.Group 0 of 1"},
		{"differential privacy", nil, pymarlin.TrainerArguments{Backend: "sp-dp"}, "Opacus"},
		{"Apex", nil, pymarlin.TrainerArguments{Backend: "sp-amp-apex"}, "Apex"},
		{"an unknown backend", nil, pymarlin.TrainerArguments{Backend: "tpu"}, `no backend "tpu"`},
		{"float16 on the CPU", nil, pymarlin.TrainerArguments{Backend: "sp-amp"}, "amp.BF16"},
		{"an unknown writer", nil, pymarlin.TrainerArguments{Writers: []string{"x"}}, "stdout, tensorboard, jsonl"},
		{"a negative size", nil, pymarlin.TrainerArguments{ValBatchSize: -1}, "ValBatchSize is -1"},
		{"a negative norm", nil, pymarlin.TrainerArguments{MaxGradNorm: -1}, "NoClipGrads"},
		{"an unknown level", nil, pymarlin.TrainerArguments{LogLevel: "LOUD"}, "LOUD"},
		{"a wrong pattern", nil, pymarlin.TrainerArguments{StatsArgs: pymarlin.StatInitArguments{ExcludeList: "("}},
			"ExcludeList"},
		{"a folder in the prefix", nil,
			pymarlin.TrainerArguments{CheckpointerArgs: pymarlin.CheckpointerArguments{FilePrefix: "a/b"}}, "SaveDir"},
	} {
		n := newNet(4)
		m := pymarlin.ModuleInterface[batch](n)
		if c.module != nil {
			m = c.module(n)
		}
		_, err := pymarlin.New(m, quiet(c.args), options())
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the error is %v, want %q in it", c.claim, err, c.want)
		}
	}
}

// If New fails, it closes the writers that it has opened; custom writers stay open.
func TestNewClosesItsWritersWhenItFails(t *testing.T) {
	testenv.RequireTorch(t)
	own, o := new(countingWriter), options()
	o.Stats = pymarlin.NewStats(pymarlin.StatInitArguments{})
	_, err := pymarlin.New[batch](newNet(4), quiet(pymarlin.TrainerArguments{Backend: "sp-amp",
		Writers: []string{"jsonl"}, WriterArgs: pymarlin.WriterInitArguments{TBLogDir: t.TempDir()},
		CustomWriters: []pymarlin.Writer{own}}), o)
	require.ErrorContains(t, err, "amp.BF16")
	assert.Zero(t, own.closed)
	o.Stats.Update("loss", 1, true)
	assert.ErrorIs(t, o.Stats.LogStats(1, true), os.ErrClosed)
}

// countingWriter counts how often it is closed.
type countingWriter struct {
	pymarlin.Writer
	closed int
}

func (w *countingWriter) LogScalar(string, float64, int) error { return nil }
func (w *countingWriter) Close() error {
	w.closed++
	return nil
}

func TestFailuresEndTheRunWithTheirReason(t *testing.T) {
	testenv.RequireTorch(t)
	boom := errors.New("boom")
	ctx, cancel := context.WithCancelCause(context.Background())
	for _, c := range []struct {
		claim string
		fail  func(step int) error
		want  func(error) bool
	}{
		{"an error of the step", func(int) error { return boom }, func(err error) bool { return errors.Is(err, boom) }},
		{"a wrong shape", func(int) error { torch.Zeros(2).Add(torch.Zeros(3)); return nil },
			func(err error) bool { return errors.As(err, new(*torch.Error)) }},
		{"a cancelled context", func(int) error { cancel(boom); return nil },
			func(err error) bool { return errors.Is(err, boom) }},
	} {
		n := newNet(8)
		n.fail = c.fail
		trainer, err := pymarlin.New(pymarlin.ModuleInterface[batch](n),
			quiet(pymarlin.TrainerArguments{TrainBatchSize: 2}), options())
		if err != nil {
			t.Fatal(err)
		}
		if err := trainer.Train(ctx); !c.want(err) {
			t.Errorf("%s: the error is %v", c.claim, err)
		}
		if trainer.LastEpoch() != -1 {
			t.Errorf("%s: epoch %d counts as finished", c.claim, trainer.LastEpoch())
		}
	}
}

func TestMixedPrecisionOnTheCPU(t *testing.T) {
	o := options()
	o.Backend = &pymarlin.SingleProcessAmp[batch]{Precision: amp.BF16}
	n, full := newNet(8), newNet(8)
	train(t, n, pymarlin.TrainerArguments{TrainBatchSize: 4}, o)
	train(t, full, pymarlin.TrainerArguments{TrainBatchSize: 4}, nil)
	a, b := weights(n), weights(full)
	if slices.Equal(a, b) {
		t.Error("bfloat16 gives the weights of float32")
	}
	for i := range a {
		if d := a[i] - b[i]; d > 0.1 || d < -0.1 {
			t.Errorf("weight %d is %g in bfloat16 and %g in float32", i, a[i], b[i])
		}
	}
}

func TestNothingIsLeftBehind(t *testing.T) {
	testenv.RequireTorch(t)
	n := newNet(40)
	var counts []int64
	n.fail = func(step int) error {
		if step > 2 && step%2 == 1 {
			counts = append(counts, torch.Live())
		}
		return nil
	}
	train(t, hooked{n, new([]string)}, pymarlin.TrainerArguments{Epochs: 3, TrainBatchSize: 4, GPUBatchSizeLimit: 2},
		nil)
	// The outputs of an epoch are kept until its end.
	if first, last := counts[4], counts[len(counts)-1]; last > first+45 {
		t.Errorf("Go held %d tensors early in the run and %d at its end", first, last)
	}
}

// hooked prints what the hooks receive.
type hooked struct {
	*net
	lines *[]string
}

func (h hooked) say(format string, args ...any) error {
	*h.lines = append(*h.lines, fmt.Sprintf(format, args...))
	return nil
}

func shapes(c pymarlin.Collected) string {
	var s []string
	for _, t := range c.Tensors {
		s = append(s, fmt.Sprint(t.Shape()))
	}
	return strings.Join(s, " ")
}

func (h hooked) OnBeginTrainEpoch(step, epoch int) error {
	return h.say("begin epoch %d after %d updates", epoch, step)
}
func (h hooked) OnEndBackward(step int, loss torch.Tensor) error {
	return h.say("backward of %d element", loss.Numel())
}
func (h hooked) OnEndTrainStep(step int, c pymarlin.Collected) error {
	return h.say("update %d: %s", step, shapes(c))
}
func (h hooked) OnEndValEpoch(step int, c pymarlin.Collected, key string) error {
	return h.say("validated %s: %s", key, shapes(c))
}
func (h hooked) OnEndTrainEpoch(step int, c pymarlin.Collected) error {
	return h.say("end of epoch: %s, %d values", shapes(c), len(c.Values[0]))
}
func (h hooked) OnEndTrain(step int) error { return h.say("end after %d updates", step) }

func TestModelMayBeAnotherValue(t *testing.T) {
	n := newNet(4)
	before := weights(n)
	train(t, outside{holder{n}}, pymarlin.TrainerArguments{TrainBatchSize: 2}, nil)
	if slices.Equal(before, weights(n)) {
		t.Error("the model that Model returns was not trained")
	}
	if n.Training() {
		t.Error("the model is in training mode after a validation")
	}
}

type holder struct{ net *net }

// outside has no parameters itself.
type outside struct{ h holder }

func (o outside) Model() any { return o.h.net }
func (o outside) OptimizersSchedulers(s, e int) ([]*pymarlin.Optimizer, []pymarlin.Scheduler, error) {
	return o.h.net.OptimizersSchedulers(s, e)
}
func (o outside) TrainDataloader(s pymarlin.Sampler, size int) (pymarlin.Dataloader[batch], error) {
	return o.h.net.TrainDataloader(s, size)
}
func (o outside) ValDataloaders(s pymarlin.Sampler, size int) (pymarlin.Dataloaders[batch], error) {
	return o.h.net.ValDataloaders(s, size)
}
func (o outside) TrainStep(step int, b batch, d torch.Device) (pymarlin.Outputs, error) {
	return o.h.net.TrainStep(step, b, d)
}
func (o outside) ValStep(step int, b batch, d torch.Device) (pymarlin.Outputs, error) {
	return o.h.net.ValStep(step, b, d)
}
func (o outside) TestDataloaders(s pymarlin.Sampler, size int) (pymarlin.Dataloaders[batch], error) {
	l, err := o.h.net.loader(3, s, size)
	return pymarlin.Dataloaders[batch]{{Key: "a", Loader: l}, {Key: "b", Loader: l}}, err
}
func (o outside) TestStep(step int, b batch, d torch.Device) (pymarlin.Outputs, error) {
	return o.h.net.ValStep(step, b, d)
}

func TestTestRunsTheTestSets(t *testing.T) {
	testenv.RequireTorch(t)
	trainer, err := pymarlin.New(pymarlin.ModuleInterface[batch](outside{holder{newNet(4)}}),
		quiet(pymarlin.TrainerArguments{}), options())
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	last, err := trainer.Test(context.Background(), func(c pymarlin.Collected, key string) error {
		keys = append(keys, key+" "+shapes(c))
		return nil
	})
	if err != nil || !slices.Equal(keys, []string{"a [3]", "b [3]"}) || shapes(last) != "[3]" {
		t.Errorf("the test sets gave %v and %s, %v", keys, shapes(last), err)
	}
	plain, err := pymarlin.New(pymarlin.ModuleInterface[batch](newNet(4)), quiet(pymarlin.TrainerArguments{}),
		options())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plain.Test(context.Background(), nil); err == nil || !strings.Contains(err.Error(),
		"TestDataloaders") {
		t.Errorf("a module without test: %v", err)
	}
}

func TestAzureMLsWriterIsAWarning(t *testing.T) {
	var log bytes.Buffer
	train(t, newNet(4), quiet(pymarlin.TrainerArguments{Writers: []string{"aml"}}),
		&pymarlin.Options[batch]{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	assert.Contains(t, log.String(), "AML writer failed to initialize.")
	assert.Contains(t, log.String(), "CustomWriters")
}
