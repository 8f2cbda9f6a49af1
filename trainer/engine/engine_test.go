package engine_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// TestMain is also the main function of the processes that tests start.
func TestMain(m *testing.M) {
	testenv.PinBits()
	if role := os.Getenv("ENGINE_TEST_ROLE"); role != "" {
		os.Exit(oneOfGroup(role))
	}
	if name := os.Getenv(killRun); name != "" {
		os.Exit(runToBeKilled(name))
	}
	if name := os.Getenv(mainRun); name != "" {
		runMain(name)
	}
	os.Exit(testenv.Run(m))
}

// net has everything that makes a resume difficult: dropout, running statistics and two kinds of
// parameters.
type net struct {
	Hidden  *nn.Linear      `module:"hidden"`
	Norm    *nn.BatchNorm1d `module:"norm"`
	Dropout *nn.Dropout     `module:"dropout"`
	Out     *nn.Linear      `module:"out"`
}

func newNet() *net {
	torch.ManualSeed(1)
	return &net{nn.NewLinear(2, 16, nil), nn.NewBatchNorm1d(16, nil), nn.NewDropout(0.2), nn.NewLinear(16, 2, nil)}
}

func (n *net) Forward(x torch.Tensor) torch.Tensor {
	return n.Out.Forward(n.Dropout.Forward(n.Norm.Forward(n.Hidden.Forward(x)).ReLU()))
}

// ring returns points, with the class whether they are inside a circle.
func ring(n int) data.Slice[data.Example] {
	r := rand.New(rand.NewPCG(1, 2))
	set := make(data.Slice[data.Example], n)
	for i := range set {
		x, y := 2*r.Float64()-1, 2*r.Float64()-1
		if x*x+y*y < 0.5 {
			set[i].Class = 1
		}
		set[i].Features = []float32{float32(x), float32(y)}
	}
	return set
}

type step = engine.Step[data.Example, engine.Examples]

func newStep(t testing.TB, o engine.Options) *step {
	t.Helper()
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	s, err := engine.New(engine.Classify(newNet()), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func quiet(o trainer.Options) trainer.Options {
	o.Progress = io.Discard
	return o
}

func fingerprint(s *step) string {
	h := sha256.New()
	for _, p := range nn.StateDict(s.Model()) {
		h.Write(p.Tensor.Bytes())
	}
	for _, p := range s.Optimizer().State() {
		h.Write(p.Tensor.Bytes())
	}
	h.Write(torch.DefaultGenerator(torch.CPU).State())
	return fmt.Sprintf("%x", h.Sum(nil)[:8])
}

func TestStepKeepsThePromisesOfTheLoop(t *testing.T) {
	trainertest.TestStep(t, func(t *testing.T) trainer.Step[data.Example, engine.Examples] {
		return newStep(t, engine.Options{})
	}, ring(8))
}

func TestLearns(t *testing.T) {
	s := newStep(t, engine.Options{Optimizer: optim.AdamW{LR: 0.02}})
	fit, err := trainer.New(s, quiet(trainer.Options{Epochs: 20, BatchSize: 32}))
	if err != nil {
		t.Fatal(err)
	}
	result, err := fit.Fit(context.Background(), ring(1000), ring(300))
	if err != nil {
		t.Fatal(err)
	}
	if accuracy := result.Best.Metrics["eval_accuracy"]; accuracy < 0.95 {
		t.Errorf("accuracy %.3f after %d updates, want at least 0.95", accuracy, result.GlobalStep)
	}
}

func TestResumeFromEveryUpdateIsBitForBit(t *testing.T) {
	options := func(dir string) trainer.Options {
		return quiet(trainer.Options{OutputDir: dir, Epochs: 2, BatchSize: 4, Accumulate: 3, Save: trainer.Every(1,
			trainer.Update), Log: trainer.Every(1, trainer.Update)})
	}
	train, valid := ring(30), ring(10)
	for name, o := range map[string]engine.Options{"fp32": {}, "bf16": {Precision: amp.BF16},
		"sgd": {Optimizer: optim.SGD{LR: 0.1, Momentum: 0.9}}} {
		t.Run(name, func(t *testing.T) {
			whole := newStep(t, o)
			dir := t.TempDir()
			fit, err := trainer.New(whole, options(dir))
			if err != nil {
				t.Fatal(err)
			}
			result, err := fit.Fit(context.Background(), train, valid)
			if err != nil {
				t.Fatal(err)
			}
			want := fingerprint(whole)
			for k := 1; k < result.GlobalStep; k++ {
				part := newStep(t, o)
				resumed := options(t.TempDir())
				resumed.ResumeFrom = filepath.Join(dir, fmt.Sprintf("checkpoint-%d", k))
				fit, err := trainer.New(part, resumed)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := fit.Fit(context.Background(), train, valid); err != nil {
					t.Fatalf("from update %d: %v", k, err)
				}
				if got := fingerprint(part); got != want {
					t.Errorf("resumed from update %d: weights, optimizer or generator differ from those of the whole "+
						"run", k)
				}
			}
		})
	}
}

func TestAccumulatedGradientIsThatOfTheWholeBatch(t *testing.T) {
	testenv.RequireTorch(t)
	gradient := func(accumulate, batch int) []float32 {
		torch.ManualSeed(3)
		model := nn.NewLinear(2, 2, nil)
		s, err := engine.New(engine.Classify(model), engine.Options{Optimizer: optim.SGD{LR: 1}, MaxGradNorm: -1})
		if err != nil {
			t.Fatal(err)
		}
		before := torch.Values[float32](model.Weight)
		fit, err := trainer.New(s, quiet(trainer.Options{MaxSteps: 1, BatchSize: batch, Accumulate: accumulate,
			LearningRate: 1}))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fit.Fit(context.Background(), ring(24), nil); err != nil {
			t.Fatal(err)
		}
		after := torch.Values[float32](model.Weight)
		for i := range after {
			after[i] -= before[i]
		}
		return after
	}
	whole, parts := gradient(1, 24), gradient(3, 8)
	for i := range whole {
		if math.Abs(float64(whole[i]-parts[i])) > 1e-6 {
			t.Errorf("weight %d moved by %g in one batch and by %g in three parts", i, whole[i], parts[i])
		}
	}
}

func TestMemoryAndTensorsStayFlat(t *testing.T) {
	s := newStep(t, engine.Options{})
	testenv.Live()
	var live []int64
	counter := &counter{at: 200, live: &live}
	fit, err := trainer.New(s, quiet(trainer.Options{MaxSteps: 1000, BatchSize: 4, Eval: trainer.Every(200,
		trainer.Update), Callbacks: []any{counter}}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fit.Fit(context.Background(), ring(64), ring(16)); err != nil {
		t.Fatal(err)
	}
	for _, n := range live[1:] {
		if n != live[0] {
			t.Fatalf("live tensors every 200 updates: %v; want the same number each time", live)
		}
	}
}

type counter struct {
	at   int
	live *[]int64
}

func (c *counter) StepEnd(r *trainer.Run) error {
	if r.GlobalStep%c.at == 0 {
		*c.live = append(*c.live, torch.Live())
	}
	return nil
}

func TestRefusals(t *testing.T) {
	testenv.RequireTorch(t)
	missing := filepath.Join(t.TempDir(), "nothing")
	part := nn.NewLinear(2, 2, nil)
	part.SetPart(&nn.LinearPart{Name: "part 0 of 2 of the output features"})
	for name, c := range map[string]struct {
		model nn.Layer
		o     engine.Options
		want  string
	}{
		"fp16 on the CPU": {newNet(), engine.Options{Precision: amp.FP16},
			"fp16, which the CPU cannot train in"},
		"a GPU that is not there":    {newNet(), engine.Options{Device: torch.CUDA(7)}, "cuda:7"},
		"a model without parameters": {nn.Identity{}, engine.Options{}, "has no parameter"},
		"a divided layer": {nn.Sequential{part}, engine.Options{},
			"only parts of the model are here (0, part 0 of 2 of the output features)"},
		"missing initial weights": {newNet(), engine.Options{InitWeightsFrom: missing}, missing},
		"a negative clip value":   {newNet(), engine.Options{MaxGradValue: -1}, "MaxGradValue"},
		"an impossible optimizer": {newNet(), engine.Options{Optimizer: optim.AdamW{LR: -1}}, "LR"},
	} {
		_, err := engine.New(engine.Classify(c.model), c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %q, want one with %q", name, fmt.Sprint(err), c.want)
		}
	}
}

// A frozen model can be evaluated. That its loss has no gradient is noticed at the first backward
// pass, as in PyTorch.
func TestAFrozenModelIsEvaluatedAndNotTrained(t *testing.T) {
	testenv.RequireTorch(t)
	model := newNet()
	for _, p := range nn.Params(model) {
		p.Tensor.SetRequiresGrad(false)
	}
	s, err := engine.New(engine.Classify(model), engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	fit, err := trainer.New(s, quiet(trainer.Options{MaxSteps: 1}))
	if err != nil {
		t.Fatal(err)
	}
	m, err := fit.Evaluate(t.Context(), ring(20))
	if err != nil || math.IsNaN(m["loss"]) || m["loss"] <= 0 {
		t.Errorf("Evaluate = %v, %v, want a loss", m, err)
	}
	before := fingerprint(s)
	if _, err = fit.Fit(t.Context(), ring(20), nil); err == nil || !strings.Contains(err.Error(),
		"all parameters of *engine_test.net are frozen") {
		t.Errorf("Fit = %v, want an error that says that all parameters are frozen", err)
	}
	if len(s.Optimizer().State()) != 0 || before == "" {
		t.Error("the optimizer has a state")
	}
}

func TestALossThatCannotBeTrainedOnSaysWhy(t *testing.T) {
	testenv.RequireTorch(t)
	for want, loss := range map[string]func(y torch.Tensor) torch.Tensor{
		"has no Value; want a scalar":  func(torch.Tensor) torch.Tensor { return torch.Tensor{} },
		"has the shape [5 2]; want a":  func(y torch.Tensor) torch.Tensor { return y.Square() },
		"has no gradient: it was comp": func(y torch.Tensor) torch.Tensor { return y.Sum(torch.DefaultDType).Detach() },
	} {
		s, err := engine.New(chosenLoss(newNet(), loss), engine.Options{})
		require.NoError(t, err)
		fit, err := trainer.New(s, quiet(trainer.Options{MaxSteps: 1, BatchSize: 5}))
		require.NoError(t, err)
		_, err = fit.Fit(t.Context(), ring(20), nil)
		require.ErrorContains(t, err, "the loss of *engine_test.net "+want)
	}
}

func TestShapeErrorBecomesAnErrorOfFit(t *testing.T) {
	s := newStep(t, engine.Options{})
	wrong := data.Slice[data.Example]{{Features: []float32{1, 2, 3}, Class: 1}, {Features: []float32{1, 2, 3}}}
	fit, err := trainer.New(s, quiet(trainer.Options{MaxSteps: 1}))
	if err != nil {
		t.Fatal(err)
	}
	_, err = fit.Fit(context.Background(), wrong, nil)
	var e *torch.Error
	if !errors.As(err, &e) || e.Op != "Linear" || !strings.Contains(err.Error(), "float32[2,3]") {
		t.Errorf("error %v, want a *torch.Error of Linear that names float32[2,3]", err)
	}
}

func TestDamagedStateChangesNothing(t *testing.T) {
	s := newStep(t, engine.Options{})
	fit, err := trainer.New(s, quiet(trainer.Options{MaxSteps: 3, BatchSize: 4}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fit.Fit(context.Background(), ring(12), nil); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := s.Save(dir, trainer.SaveOptions{}); err != nil {
		t.Fatal(err)
	}
	// The step trains on, so that anything loaded by mistake is noticed.
	b, err := s.Collate(ring(4))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Train(t.Context(), b, trainer.Window{Len: 1, Divisor: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Update(t.Context(), 0.1); err != nil {
		t.Fatal(err)
	}
	before := fingerprint(s)
	for _, name := range []string{"model.safetensors", "optimizer.safetensors", "rng_state.safetensors"} {
		path := filepath.Join(dir, name)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for what, content := range map[string][]byte{"cut": whole[:len(whole)/2], "empty": {},
			"other": []byte("hello, this is no tensor file")} {
			if err := os.WriteFile(path, content, 0o644); err != nil {
				t.Fatal(err)
			}
			if err := s.Load(dir, trainer.LoadOptions{}); err == nil {
				t.Errorf("%s, %s: loaded without an error", name, what)
			}
			if fingerprint(s) != before {
				t.Fatalf("%s, %s: a failed load changed the step", name, what)
			}
		}
		if err := os.WriteFile(path, whole, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Load(dir, trainer.LoadOptions{}); err != nil {
		t.Error(err)
	}
}

func TestAboutTellsWhatIsTrainedAndHow(t *testing.T) {
	testenv.RequireTorch(t)
	model := newNet()
	task := engine.Classify(model)
	s, err := engine.New(task, engine.Options{})
	require.NoError(t, err)
	assert.Contains(t, s.About().Text, "114 parameters, fp32")
	before := s.About().Settings
	for _, p := range nn.Params(model.Hidden) {
		p.Tensor.SetRequiresGrad(false)
	}
	s, err = engine.New(task, engine.Options{LabelSmoothing: 0.1,
		Groups: func(_ any, params []torch.Named) []optim.Group {
			return []optim.Group{{Params: params, WeightDecay: new(0.5), LRScale: 2}}
		}})
	require.NoError(t, err)
	assert.Contains(t, s.About().Text, "114 parameters, 66 trained, fp32")
	after := s.About().Settings
	assert.Equal(t, "0.1", after["LabelSmoothing"])
	assert.Equal(t, "weight decay 0.5, rate times 2", after["Groups"])
	assert.NotEqual(t, before["Groups"], after["Groups"])
	assert.Equal(t, before["NEFTuneAlpha"], after["NEFTuneAlpha"])
}
