package pytorchaccelerated_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	pa "github.com/gotrainer/gotrainer/compat/pytorchaccelerated"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/functional"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// net has dropout, so that a resume which loses its place in the random numbers shows.
type net struct {
	Hidden  *nn.Linear      `module:"hidden"`
	Norm    *nn.BatchNorm1d `module:"norm"`
	Dropout *nn.Dropout     `module:"dropout"`
	Out     *nn.Linear      `module:"out"`
}

func newNet() *net {
	torch.ManualSeed(1)
	return &net{nn.NewLinear(1, 6, nil), nn.NewBatchNorm1d(6, nil), nn.NewDropout(0.3), nn.NewLinear(6, 1, nil)}
}

func (n *net) Forward(x torch.Tensor) torch.Tensor {
	return n.Out.Forward(n.Dropout.Forward(functional.ReLU(n.Norm.Forward(n.Hidden.Forward(x)))))
}

// atUpdate runs f when an update is complete, and stop ends the run there.
type atUpdate struct {
	update int
	stop   bool
	f      func(r *pa.Run) error
}

var errKilled = errors.New("the process dies here")

func (a *atUpdate) OnUpdateEnd(r *pa.Run) error {
	if r.Updates() != a.update {
		return nil
	}
	if err := a.f(r); err != nil {
		return err
	}
	if a.stop {
		return errKilled
	}
	return nil
}

// inStep asks for a state within a window.
type inStep struct {
	epoch, step int
	dir         string
}

func (s *inStep) OnTrainStepEnd(r *pa.Run, e pa.TrainStepEnd) error {
	if r.History().CurrentEpoch() != s.epoch || e.Step != s.step {
		return nil
	}
	return r.SaveTrainingState(s.dir, nil)
}

// ends are what a run left: weights, moments and history.
func ends(t *testing.T, r *pa.Run, ema *pa.ModelEMA) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for _, p := range nn.StateDict(r.Model()) {
		out[p.Name] = p.Tensor.Bytes()
	}
	for _, p := range r.Optimizer().State() {
		out["optim."+p.Name] = p.Tensor.Bytes()
	}
	for _, p := range ema.Average() {
		out["ema."+p.Name] = p.Tensor.Bytes()
	}
	for _, name := range r.History().MetricNames() {
		out["history."+name] = fmt.Append(nil, r.History().MetricValues(name))
	}
	return out
}

// long is a run of 3 epochs of 9 batches, 4 of them behind an update: 9 updates, with everything
// that has a state.
func long(t *testing.T, dir string, o train, more ...any) (*trainer, *pa.ModelEMA, error) {
	t.Helper()
	ema := &pa.ModelEMA{Decay: new(0.8), SavePath: filepath.Join(dir, "ema.pt"), UpdateEvery: 1}
	stop := &pa.EarlyStopping{Patience: 50}
	tr, err := pa.New(newNet(), mse, optim.Adam{LR: 0.02},
		quiet(append([]any{ema, stop, &pa.SaveBestModel{SavePath: filepath.Join(dir, "best.pt"), NoLoadAtEnd: true}},
			more...)...))
	if err != nil {
		t.Fatal(err)
	}
	o.NumEpochs, o.PerDeviceBatchSize, o.GradientAccumulationSteps, o.EvalDataset = 3, 2, 4, line(5)
	o.CreateSchedulerFn = pa.CosineLR{NumWarmupEpochs: 1}.Create
	return tr, ema, tr.Train(context.Background(), line(18), o)
}

func TestResumeIsBitForBitFromEveryUpdate(t *testing.T) {
	whole, ema, err := long(t, t.TempDir(), train{})
	if err != nil {
		t.Fatal(err)
	}
	want := ends(t, whole.Run, ema)
	for update := 1; update <= 9; update++ {
		t.Run(fmt.Sprint(update), func(t *testing.T) {
			dir := t.TempDir()
			state := filepath.Join(dir, "state")
			_, _, err := long(t, dir, train{}, &atUpdate{update, true, func(r *pa.Run) error {
				return r.SaveTrainingState(state, nil)
			}})
			if !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
			resumed, ema, err := long(t, dir, train{ResumeFrom: state})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, ends(t, resumed.Run, ema)); diff != "" {
				t.Errorf("resumed from update %d (-uninterrupted +resumed):\n%s", update, diff)
			}
		})
	}
}

func TestStateThatIsAskedForWithinAWindowIsOfItsEnd(t *testing.T) {
	whole, ema, err := long(t, t.TempDir(), train{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	if _, _, err := long(t, dir, train{}, &inStep{2, 5, state}); err != nil {
		t.Fatal(err)
	}
	resumed, resumedEMA, err := long(t, dir, train{ResumeFrom: state})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(ends(t, whole.Run, ema), ends(t, resumed.Run, resumedEMA)); diff != "" {
		t.Errorf("(-uninterrupted +resumed):\n%s", diff)
	}
}

// inEvaluation saves in the middle of the evaluation of an epoch.
type inEvaluation struct {
	epoch int
	dir   string
}

func (s *inEvaluation) OnEvalEpochEnd(r *pa.Run, _ pa.EvalEpoch) error {
	if r.History().CurrentEpoch() != s.epoch {
		return nil
	}
	return r.SaveTrainingState(s.dir, nil)
}

func TestStateOfAnEvaluationRepeatsIt(t *testing.T) {
	whole, ema, err := long(t, t.TempDir(), train{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	if _, _, err := long(t, dir, train{}, &inEvaluation{2, state}); err != nil {
		t.Fatal(err)
	}
	resumed, resumedEMA, err := long(t, dir, train{ResumeFrom: state})
	if err != nil {
		t.Fatal(err)
	}
	want, got := ends(t, whole.Run, ema), ends(t, resumed.Run, resumedEMA)
	for name := range want {
		if !strings.HasPrefix(name, "history.") && !slices.Equal(want[name], got[name]) {
			t.Errorf("%s differs", name)
		}
	}
}

func TestDamagedStateIsRefused(t *testing.T) {
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	if _, _, err := long(t, dir, train{},
		&atUpdate{2, false, func(r *pa.Run) error { return r.SaveTrainingState(state, nil) }}); err != nil {
		t.Fatal(err)
	}
	model := filepath.Join(state, "model.safetensors")
	raw, err := os.ReadFile(model)
	if err != nil {
		t.Fatal(err)
	}
	raw[len(raw)-1] ^= 1
	if err := os.WriteFile(model, raw, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, _, err := long(t, dir, train{ResumeFrom: state}); err == nil || !strings.Contains(err.Error(),
		"model.safetensors") {
		t.Errorf("error %v, want one about model.safetensors", err)
	}
}

func TestStateOfOtherSizesIsRefused(t *testing.T) {
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	save := &atUpdate{2, false, func(r *pa.Run) error { return r.SaveTrainingState(state, nil) }}
	if err := run(lineTrainer(quiet(save)), train{}); err != nil {
		t.Fatal(err)
	}
	err := lineTrainer(quiet()).Train(context.Background(), line(8), train{NumEpochs: 2, PerDeviceBatchSize: 1,
		ResumeFrom: state})
	if err == nil || !strings.Contains(err.Error(), "4 batches an epoch") {
		t.Errorf("error %v, want one about the batches of an epoch", err)
	}
}

func TestCancelledRunCompletesItsUpdate(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	tr := lineTrainer(quiet(&cancelAt{3, cancel}))
	err := tr.Train(ctx, line(8), train{NumEpochs: 2, PerDeviceBatchSize: 1, GradientAccumulationSteps: 4})
	if !errors.Is(err, context.Canceled) || tr.Updates() != 1 {
		t.Errorf("error %v after %d updates, want context.Canceled after 1", err, tr.Updates())
	}
}

type cancelAt struct {
	step   int
	cancel func()
}

func (c *cancelAt) OnTrainStepStart(*pa.Run) error {
	if c.step--; c.step == 0 {
		c.cancel()
	}
	return nil
}

func TestPythonCheckpointLoads(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "python.json"))
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		Weight, Bias, Momentum []float32
		LR                     float64
	}
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	model := nn.NewLinear(2, 1, nil)
	tr, err := pa.New(model, mse, optim.SGD{LR: 0.05, Momentum: 0.9}, quiet())
	if err != nil {
		t.Fatal(err)
	}
	c, err := tr.LoadCheckpoint(filepath.Join("testdata", "python.pt"), pa.LoadOptions{NoScheduler: true})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.Weight, torch.Values[float32](model.Weight.View(-1))); diff != "" {
		t.Errorf("weight: %s", diff)
	}
	if diff := cmp.Diff(want.Bias, torch.Values[float32](model.Bias)); diff != "" {
		t.Errorf("bias: %s", diff)
	}
	if diff := cmp.Diff(want.Momentum, torch.Values[float32](tr.Optimizer().State()[0].Tensor.View(-1))); diff != "" {
		t.Errorf("momentum: %s", diff)
	}
	if tr.LearningRate() != want.LR {
		t.Errorf("rate %v, want %v", tr.LearningRate(), want.LR)
	}
	if diff := cmp.Diff(map[string]any{"eval_loss_epoch": 0.75, "note": "by Python"}, c.Extra); diff != "" {
		t.Errorf("extra: %s", diff)
	}
	if _, err := tr.LoadCheckpoint(filepath.Join("testdata", "python.pt"), pa.LoadOptions{}); err == nil ||
		!strings.Contains(err.Error(), "NoScheduler") {
		t.Errorf("a schedule without one in the run: error %v, want one that names NoScheduler", err)
	}
}

func TestCheckpointsOfBothFormatsGoRound(t *testing.T) {
	for _, name := range []string{"a.pt", "a.safetensors"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), name)
			save := &atUpdate{3, true, func(r *pa.Run) error {
				return r.SaveCheckpoint(path, pa.CheckpointOptions{Extra: map[string]any{"note": "x", "loss": 0.5,
					"epoch": 1}})
			}}
			o := train{CreateSchedulerFn: pa.CosineLR{}.Create}
			first, err := pa.New(newNet(), mse, optim.Adam{LR: 0.02}, quiet(save))
			if err != nil {
				t.Fatal(err)
			}
			if err := run(first, o); !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
			load := &loadAtStart{path: path}
			second, err := pa.New(newNet(), mse, optim.Adam{LR: 0.5}, quiet(load, &stopAtOnce{}))
			if err != nil {
				t.Fatal(err)
			}
			if err := run(second, o); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(ends(t, first.Run, &pa.ModelEMA{}), ends(t, second.Run, &pa.ModelEMA{})); diff != "" {
				t.Errorf("(-saved +loaded):\n%s", diff)
			}
			if load.moves != 3 || load.rate != first.LearningRate() {
				t.Errorf("the schedule stands at %d with rate %v, want 3 and %v", load.moves, load.rate,
					first.LearningRate())
			}
			if diff := cmp.Diff(map[string]any{"note": "x", "loss": 0.5, "epoch": 1.0}, load.got.Extra); diff != "" {
				t.Errorf("extra: %s", diff)
			}
			want := []string{"model_state_dict", "optimizer_state_dict", "scheduler_state_dict", "epoch", "loss",
				"note"}
			if diff := cmp.Diff(slices.Sorted(slices.Values(want)),
				slices.Sorted(slices.Values(load.got.Keys))); diff != "" {
				t.Errorf("keys: %s", diff)
			}
		})
	}
}

type loadAtStart struct {
	path  string
	got   pa.Checkpoint
	moves int
	rate  float64
}

func (l *loadAtStart) OnTrainingRunStart(r *pa.Run) (err error) {
	l.got, err = r.LoadCheckpoint(l.path, pa.LoadOptions{})
	l.moves, l.rate = r.ScheduleSteps(), r.LearningRate()
	return err
}

type stopAtOnce struct{}

func (stopAtOnce) OnTrainEpochStart(*pa.Run) error { return pa.StopTraining("enough") }
