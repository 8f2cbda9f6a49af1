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
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	pa "github.com/gotrainer/gotrainer/compat/pytorchaccelerated"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/functional"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// net has dropout, so that a resume with the wrong generator state shows.
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

// atUpdate calls f when an update is complete; stop ends the run there.
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

// inStep requests a state within an accumulation window.
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

// ends returns what a run leaves: weights, moments, history and generator state.
func ends(r *pa.Run, ema *pa.ModelEMA) map[string][]byte {
	out := map[string][]byte{"generator": torch.DefaultGenerator(torch.CPU).State()}
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

// long is a run of 3 epochs of 8 batches with 3 batches per update, 2 in the last window of an
// epoch: 9 updates, with all callbacks that have a state.
func long(dir string, o train, more ...any) (*trainer, *pa.ModelEMA, error) {
	return longUnder(context.Background(), dir, o, more...)
}

func longUnder(ctx context.Context, dir string, o train, more ...any) (*trainer, *pa.ModelEMA, error) {
	ema := &pa.ModelEMA{Decay: new(0.8), SavePath: filepath.Join(dir, "ema.pt"), UpdateEvery: 1}
	stop := &pa.EarlyStopping{Patience: 50}
	tr, err := pa.New(newNet(), mse, optim.Adam{LR: 0.02},
		quiet(append([]any{ema, stop, &pa.SaveBestModel{SavePath: filepath.Join(dir, "best.pt"), NoLoadAtEnd: true}},
			more...)...))
	if err != nil {
		return nil, nil, err
	}
	o.NumEpochs, o.PerDeviceBatchSize, o.GradientAccumulationSteps, o.EvalDataset = 3, 2, 3, line(5)
	o.CreateSchedulerFn = pa.CosineLR{NumWarmupEpochs: 1}.Create
	return tr, ema, tr.Train(ctx, line(16), o)
}

func TestResumeIsBitForBitFromEveryUpdate(t *testing.T) {
	whole, ema, err := long(t.TempDir(), train{})
	if err != nil {
		t.Fatal(err)
	}
	want := ends(whole.Run, ema)
	for update := 1; update <= 9; update++ {
		t.Run(fmt.Sprint(update), func(t *testing.T) {
			dir := t.TempDir()
			state := filepath.Join(dir, "state")
			_, _, err := long(dir, train{}, &atUpdate{update, true, func(r *pa.Run) error {
				return r.SaveTrainingState(state, nil)
			}})
			if !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
			resumed, ema, err := long(dir, train{ResumeFrom: state})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, ends(resumed.Run, ema)); diff != "" {
				t.Errorf("resumed from update %d (-uninterrupted +resumed):\n%s", update, diff)
			}
		})
	}
}

func TestStateThatIsAskedForWithinAWindowIsOfItsEnd(t *testing.T) {
	whole, ema, err := long(t.TempDir(), train{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	if _, _, err := long(dir, train{}, &inStep{2, 5, state}); err != nil {
		t.Fatal(err)
	}
	resumed, resumedEMA, err := long(dir, train{ResumeFrom: state})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(ends(whole.Run, ema), ends(resumed.Run, resumedEMA)); diff != "" {
		t.Errorf("(-uninterrupted +resumed):\n%s", diff)
	}
}

// inEvaluation saves in the middle of an epoch's evaluation.
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
	whole, ema, err := long(t.TempDir(), train{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	if _, _, err := long(dir, train{}, &inEvaluation{2, state}); err != nil {
		t.Fatal(err)
	}
	resumed, resumedEMA, err := long(dir, train{ResumeFrom: state})
	if err != nil {
		t.Fatal(err)
	}
	assert.Equal(t, ends(whole.Run, ema), ends(resumed.Run, resumedEMA))
}

// everywhere saves a state at every event outside an accumulation window.
type everywhere struct {
	dir   string
	saved []string
}

func (e *everywhere) save(r *pa.Run, event string) error {
	dir := filepath.Join(e.dir, fmt.Sprintf("%s_%d_%d", event, r.History().CurrentEpoch(), len(e.saved)))
	e.saved = append(e.saved, dir)
	return r.SaveTrainingState(dir, nil)
}

func (e *everywhere) OnTrainingRunStart(r *pa.Run) error { return e.save(r, "run_start") }
func (e *everywhere) OnTrainEpochStart(r *pa.Run) error  { return e.save(r, "epoch_start") }
func (e *everywhere) OnUpdateEnd(r *pa.Run) error        { return e.save(r, "update_end") }
func (e *everywhere) OnTrainEpochEnd(r *pa.Run) error    { return e.save(r, "epoch_end") }
func (e *everywhere) OnEvalStepStart(r *pa.Run) error    { return e.save(r, "eval_step_start") }
func (e *everywhere) OnEvalEpochEnd(r *pa.Run, _ pa.EvalEpoch) error {
	return e.save(r, "eval_epoch_end")
}
func (e *everywhere) OnTrainingRunEpochEnd(r *pa.Run) error { return e.save(r, "run_epoch_end") }
func (e *everywhere) OnTrainingRunEnd(r *pa.Run) error      { return e.save(r, "run_end") }

func TestResumeIsBitForBitFromEveryEvent(t *testing.T) {
	whole, ema, err := long(t.TempDir(), train{})
	require.NoError(t, err)
	want := ends(whole.Run, ema)
	saves := &everywhere{dir: t.TempDir()}
	_, _, err = long(t.TempDir(), train{}, saves)
	require.NoError(t, err)
	require.Greater(t, len(saves.saved), 30)
	for _, state := range saves.saved {
		resumed, ema, err := long(t.TempDir(), train{ResumeFrom: state})
		require.NoError(t, err, filepath.Base(state))
		assert.Equal(t, want, ends(resumed.Run, ema), filepath.Base(state))
	}
}

// A finished run can be extended: its last states continue as if it had been planned longer from
// the start.
func TestFinishedRunIsMadeLonger(t *testing.T) {
	epochs := func(n int, o train, callbacks ...any) *trainer {
		tr, err := pa.New(newNet(), mse, optim.Adam{LR: 0.02}, quiet(callbacks...))
		require.NoError(t, err)
		o.NumEpochs, o.GradientAccumulationSteps = n, 3
		require.NoError(t, run(tr, o))
		return tr
	}
	none := &pa.ModelEMA{}
	want := ends(epochs(3, train{}).Run, none)
	dir := t.TempDir()
	epochs(2, train{}, &pa.SaveTrainingState{SaveDir: dir, SaveEveryNEpochs: 1})
	for _, state := range []string{"epoch_1", "epoch_2", "final"} {
		got := epochs(3, train{ResumeFrom: filepath.Join(dir, state)})
		assert.Equal(t, want, ends(got.Run, none), state)
		assert.Equal(t, 6, got.Updates(), state)
	}
}

// A run that a callback has ended stands at its last update: batches of the incomplete window are
// trained on again.
func TestStoppedRunContinuesBeforeItsWindow(t *testing.T) {
	for _, stop := range []any{&stopIn{epoch: 2, step: 4}, &stopIn{epoch: 2, evaluation: true}} {
		dir := t.TempDir()
		keep := &pa.SaveTrainingState{SaveDir: dir}
		_, _, err := long(dir, train{}, stop, keep)
		require.NoError(t, err)
		resumed, _, err := long(dir, train{ResumeFrom: filepath.Join(dir, "final")})
		require.NoError(t, err)
		assert.Equal(t, 9, resumed.Updates())
		assert.Equal(t, 4, resumed.History().CurrentEpoch())
	}
}

// stopIn ends a run within an accumulation window or an evaluation.
type stopIn struct {
	epoch, step int
	evaluation  bool
}

func (s *stopIn) OnTrainStepEnd(r *pa.Run, e pa.TrainStepEnd) error {
	if !s.evaluation && r.History().CurrentEpoch() == s.epoch && e.Step == s.step {
		return pa.StopTraining("enough")
	}
	return nil
}

func (s *stopIn) OnEvalStepStart(r *pa.Run) error {
	if s.evaluation && r.History().CurrentEpoch() == s.epoch {
		return pa.StopTraining("enough")
	}
	return nil
}

// cancelIn cancels a run in its n-th step, counting training and evaluation.
type cancelIn struct {
	n      int
	cancel func()
}

func (c *cancelIn) count() error {
	if c.n--; c.n == 0 {
		c.cancel()
	}
	return nil
}

func (c *cancelIn) OnTrainStepStart(*pa.Run) error { return c.count() }
func (c *cancelIn) OnEvalStepStart(*pa.Run) error  { return c.count() }

func TestCancelledRunLeavesAStateAndContinues(t *testing.T) {
	whole, ema, err := long(t.TempDir(), train{})
	require.NoError(t, err)
	want := ends(whole.Run, ema)
	for _, n := range []int{4, 8, 9, 10, 11, 12, 17, 24, 30} {
		ctx, cancel := context.WithCancel(t.Context())
		dir := t.TempDir()
		keep := &pa.SaveTrainingState{SaveDir: dir, NotAtEnd: true}
		_, _, err := longUnder(ctx, dir, train{}, keep, &cancelIn{n, cancel})
		require.ErrorIs(t, err, context.Canceled, "step %d", n)
		require.ErrorContains(t, err, "its state is in "+filepath.Join(dir, "interrupted"))
		resumed, ema, err := long(dir, train{ResumeFrom: filepath.Join(dir, "interrupted")})
		require.NoError(t, err, "step %d", n)
		assert.Equal(t, want, ends(resumed.Run, ema), "step %d", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, _, err = longUnder(ctx, t.TempDir(), train{}, &cancelIn{5, cancel})
	assert.ErrorContains(t, err, "no callback SaveTrainingState")
}

// A run that started from the state of another is resumed with the same callback.
func TestResumedRunDoesNotLoadItsInitialCheckpoint(t *testing.T) {
	testenv.RequireTorch(t)
	wsd := pa.WSD{DecayPhaseRatio: new(0.25)}.Create
	initial := t.TempDir()
	first := lineTrainer(quiet(&pa.WSDCheckpoint{SaveDir: initial}))
	require.NoError(t, run(first, train{CreateSchedulerFn: wsd}))
	for _, name := range []string{"checkpoint_6_wsd_pre_decay", "checkpoint_8_wsd_post_decay.pt"} {
		from := filepath.Join(initial, name)
		session := func(dir string, o train, more ...any) (map[string][]byte, error) {
			checkpoint := &pa.WSDCheckpoint{SaveDir: filepath.Join(dir, "wsd"), InitialCheckpoint: from}
			tr := lineTrainer(quiet(append([]any{checkpoint}, more...)...))
			o.NumEpochs, o.CreateSchedulerFn = 4, pa.WSD{DecayPhaseRatio: new(0.25), NumCheckpoints: 2}.Create
			err := run(tr, o)
			return ends(tr.Run, new(pa.ModelEMA)), err
		}
		whole, err := session(t.TempDir(), train{})
		require.NoError(t, err, name)
		dir := t.TempDir()
		state := filepath.Join(dir, "state")
		_, err = session(dir, train{}, &atUpdate{6, true, func(r *pa.Run) error { return r.SaveTrainingState(state, nil) }})
		require.ErrorIs(t, err, errKilled)
		resumed, err := session(dir, train{ResumeFrom: state})
		require.NoError(t, err)
		assert.Equal(t, whole, resumed, name)
	}
}

func TestDoorsToTheLoops(t *testing.T) {
	var seen []string
	o := quiet()
	o.Methods.RunTraining = func(t *trainer) error {
		seen = append(seen, "run(")
		defer func() { seen = append(seen, ")") }()
		return t.RunTraining()
	}
	o.Methods.RunTrainEpoch = func(t *trainer) (bool, error) {
		reached, err := t.RunTrainEpoch()
		seen = append(seen, fmt.Sprint(t.History().CurrentEpoch(), " ", t.Updates(), " ", reached, " ", err))
		return reached || t.Updates() >= 8, err
	}
	tr := lineTrainer(o)
	require.NoError(t, run(tr, train{NumEpochs: 5}))
	assert.Equal(t, []string{"run(", "1 4 false <nil>", "2 8 false <nil>", ")"}, seen)
	_, err := tr.RunTrainEpoch()
	assert.ErrorContains(t, err, "there is no epoch to train")
	assert.ErrorContains(t, lineTrainer(quiet()).RunTraining(), "call Train")

	seen = nil
	o.Callbacks = []any{onStep(func(r *pa.Run, e pa.TrainStepEnd) {
		if r.Updates() == 5 {
			torch.Ones(2).MatMul(torch.Ones(3))
		}
	})}
	assert.ErrorContains(t, run(lineTrainer(o), train{}), "inconsistent tensor size")
}

func TestDamagedStateIsRefused(t *testing.T) {
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	if _, _, err := long(dir, train{},
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
	if _, _, err := long(dir, train{ResumeFrom: state}); err == nil || !strings.Contains(err.Error(),
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
	if err == nil || !strings.Contains(err.Error(), "BatchSize was 2 and is 1") {
		t.Errorf("error %v, want one about the size of batches", err)
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
			if diff := cmp.Diff(ends(first.Run, &pa.ModelEMA{}), ends(second.Run, &pa.ModelEMA{})); diff != "" {
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

// The folders of a second run have the same names as those of the first.
func TestASecondRunKeepsTheStatesThatItHasWritten(t *testing.T) {
	dir := t.TempDir()
	tr := lineTrainer(quiet(&pa.SaveTrainingState{SaveDir: dir, SaveEveryNEpochs: 1, MaxCheckpoints: 3}))
	for range 2 {
		require.NoError(t, run(tr, train{NumEpochs: 2}))
		for _, name := range []string{"epoch_1", "epoch_2", "final"} {
			assert.DirExists(t, filepath.Join(dir, name))
		}
	}
}
