package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"reflect"
	"strconv"
	"testing"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// hfRun is a run of transformers.Trainer in testdata/hf.json.
type hfRun struct {
	Name        string
	Batches     [][]int
	EvalBatches [][]int  `json:"eval_batches"`
	Losses      []string // float.hex
	GradNorms   []string `json:"grad_norms"`
	Rates       []string
	EvalLoss    string `json:"eval_loss"`
	Right       float64
	Width       float64
	Evaluations []struct {
		Loss         string
		Right, Width float64
	}
}

type hfMean struct {
	DType      string
	Size, Rows int
	Mean       string
}

func readHF(t *testing.T) (file struct {
	Runs  []hfRun
	Means []hfMean
}) {
	t.Helper()
	text, err := os.ReadFile("testdata/hf.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	return file
}

func parseHex(t *testing.T, text string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// hfData returns the rows of testdata/hf.py: 21 to train on and 11 to evaluate.
func hfData(g *golden.File) (train, valid data.Slice[tokens]) {
	for k := range 32 {
		r := tokens{row: k, ids: torch.Values[int64](g.Tensor(fmt.Sprintf("row.%d.input_ids", k))),
			labels: torch.Values[int64](g.Tensor(fmt.Sprintf("row.%d.labels", k)))}
		if k < 21 {
			train = append(train, r)
		} else {
			r.row -= 21
			valid = append(valid, r)
		}
	}
	return train, valid
}

// hfCase is the corresponding run here for a run of testdata/hf.py.
type hfCase struct {
	task       func(m *tagger) engine.Task[tokens, tokenBatch]
	dropout    float64
	accumulate int
	options    engine.Options
	schedule   lr.Schedule
	oneGroup   bool
	grouped    bool
	evalEvery  int
	init       bool
}

func tag(m *tagger) engine.Task[tokens, tokenBatch]   { return &tagTask{m} }
func count(m *tagger) engine.Task[tokens, tokenBatch] { return &countingTask{tagTask{m}} }

var hfCases = map[string]hfCase{
	"plain":                            {},
	"label smoothing":                  {accumulate: 2, options: engine.Options{LabelSmoothing: 0.1}},
	"label smoothing of counted items": {task: count, accumulate: 4, options: engine.Options{LabelSmoothing: 0.1}},
	"counted items":                    {task: count, accumulate: 4},
	"custom loss":                      {task: count, accumulate: 4, options: engine.Options{Loss: summed}},
	"NEFTune":                          {dropout: 0.2, options: engine.Options{NEFTuneAlpha: 5}},
	"gradient checkpointing":           {dropout: 0.3, options: engine.Options{GradientCheckpointing: true}},
	"bf16":                             {options: engine.Options{Precision: amp.BF16}},
	"bf16 label smoothing":             {options: engine.Options{Precision: amp.BF16, LabelSmoothing: 0.2}},
	"fp16 on a CPU":                    {options: engine.Options{Precision: amp.FP16, IgnoreFP16OnCPU: true}},
	"adafactor": {options: engine.Options{Optimizer: named("adafactor",
		optim.Arguments{LearningRate: 0.02, WeightDecay: 0.05})}},
	"momentum cycling": {oneGroup: true, schedule: lr.OneCycleLR{MaxLR: 0.02, TotalSteps: 12},
		options: engine.Options{Optimizer: named("adamw_torch", optim.Arguments{LearningRate: 0.02})}},
	"momentum cycling of SGD": {oneGroup: true, schedule: lr.CyclicLR{BaseLR: 0.01, MaxLR: 0.1, StepSizeUp: 3},
		options: engine.Options{Optimizer: named("sgd", optim.Arguments{LearningRate: 0.1})}},
	"group by length": {dropout: 0.2, accumulate: 2, grouped: true},
	"model init":      {dropout: 0.3, init: true},
	"evaluations":     {dropout: 0.3, evalEvery: 4, options: engine.Options{LabelSmoothing: 0.1}},
	"training step":   {task: func(m *tagger) engine.Task[tokens, tokenBatch] { return &twiceTask{tagTask{m}} }},
}

func named(name string, a optim.Arguments) optim.Builder {
	b, err := optim.ByName(name, a)
	if err != nil {
		panic(err)
	}
	return b
}

type tagStep = engine.Step[tokens, tokenBatch]

func (c hfCase) step(t *testing.T, g *golden.File, name string) *tagStep {
	t.Helper()
	task := c.task
	if task == nil {
		task = tag
	}
	o := c.options
	o.ComputeMetrics = right
	if o.Optimizer == nil {
		o.Optimizer = named("adamw_torch_fused", optim.Arguments{LearningRate: 0.02})
	}
	if c.oneGroup {
		o.Groups = func(_ any, params []torch.Named) []optim.Group { return []optim.Group{{Params: params}} }
	}
	var s *tagStep
	var err error
	if c.init {
		s, err = engine.NewFromInit(func() (engine.Task[tokens, tokenBatch], error) {
			return task(newTagger(c.dropout)), nil
		}, o)
	} else {
		m := newTagger(c.dropout)
		var initial []torch.Named
		for _, p := range nn.Params(m) {
			initial = append(initial, torch.Named{Name: p.Name, Tensor: g.Tensor(name + "/init/" + p.Name)})
		}
		if _, err := nn.LoadStateDict(m, nn.Tensors(initial), nn.LoadOptions{}); err != nil {
			t.Fatal(err)
		}
		s, err = engine.New(task(m), o)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// seen is a Step that records the rows of every training batch.
type seen struct {
	*tagStep
	batches [][]int
}

func (s *seen) Train(ctx context.Context, b tokenBatch, w trainer.Window) error {
	s.batches = append(s.batches, b.rows)
	return s.tagStep.Train(ctx, b, w)
}

func TestRunsBitsEqualTransformers(t *testing.T) {
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	g := golden.Load(t, "testdata/hf.safetensors")
	train, valid := hfData(g)
	runs := readHF(t).Runs
	if len(runs) != len(hfCases) {
		t.Fatalf("%d runs are recorded, %d repeated", len(runs), len(hfCases))
	}
	for _, r := range runs {
		t.Run(r.Name, func(t *testing.T) {
			c, ok := hfCases[r.Name]
			if !ok {
				t.Fatal("nothing repeats this run")
			}
			s := &seen{tagStep: c.step(t, g, r.Name)}
			o := quiet(trainer.Options{
				Epochs: 2, BatchSize: 4, EvalBatchSize: 4, Accumulate: max(1, c.accumulate), Order: data.Sequential{},
				Schedule: c.schedule,
				Log:      trainer.Every(1, trainer.Update), Semantics: semantics.HuggingFace,
			})
			if c.grouped {
				o.Order = data.GroupedByLength{Lengths: lengths(train), BatchSize: 4 * c.accumulate,
					Random: s.GlobalPermutation()}
			}
			var evaluated data.Dataset[tokens]
			if c.evalEvery > 0 {
				o.Eval, evaluated = trainer.Every(c.evalEvery, trainer.Update), valid
			}
			fit, err := trainer.New(s, o)
			if err != nil {
				t.Fatal(err)
			}
			result, err := fit.Fit(t.Context(), train, evaluated)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(s.batches, r.Batches) {
				t.Fatalf("trained on the rows %v, want %v", s.batches, r.Batches)
			}
			compareLog(t, result.History, r)
			compareEvaluations(t, result.History, r)
			for _, p := range nn.StateDict(s.Model()) {
				golden.Recorded(t, p.Name, p.Tensor, g.Tensor(r.Name+"/final/"+p.Name))
			}
			compareEvaluation(t, s.tagStep, valid, g, r)
			golden.Bits(t, "the next random numbers", torch.Rand(4), g.Tensor(r.Name+"/next"))
		})
	}
}

func lengths(rows data.Slice[tokens]) (n []int) {
	for _, r := range rows {
		n = append(n, len(r.ids))
	}
	return n
}

func compareLog(t *testing.T, history []trainer.Logs, r hfRun) {
	t.Helper()
	updates := 0
	for _, row := range history {
		if _, ok := row["loss"]; !ok {
			continue
		}
		for name, want := range map[string][]string{"loss": r.Losses, "grad_norm": r.GradNorms,
			"learning_rate": r.Rates} {
			if updates >= len(want) {
				t.Fatalf("update %d is more than the %d recorded ones", updates+1, len(want))
			}
			got, want := row[name], parseHex(t, want[updates])
			if name == "learning_rate" && math.Abs(got-want) <= 1e-15*want {
				continue // cosines differ in the last bit: see package optim/lr
			}
			golden.RecordedNumbers(t, fmt.Sprintf("%s of update %d", name, updates+1), []float64{got}, []float64{want})
		}
		updates++
	}
	if updates != len(r.Losses) {
		t.Errorf("%d updates are logged, want %d", updates, len(r.Losses))
	}
}

// compareEvaluations compares the evaluations within the run.
func compareEvaluations(t *testing.T, history []trainer.Logs, r hfRun) {
	t.Helper()
	n := 0
	for _, row := range history {
		loss, ok := row["eval_loss"]
		if !ok {
			continue
		}
		if n >= len(r.Evaluations) {
			t.Fatalf("evaluation %d is more than the %d recorded ones", n+1, len(r.Evaluations))
		}
		want := r.Evaluations[n]
		golden.RecordedNumbers(t, fmt.Sprintf("loss of evaluation %d", n+1), []float64{loss},
			[]float64{parseHex(t, want.Loss)})
		if row["eval_right"] != want.Right || row["eval_width"] != want.Width {
			t.Errorf("evaluation %d gives %v, want %+v", n+1, row, want)
		}
		n++
	}
	if n != len(r.Evaluations) {
		t.Errorf("%d evaluations are logged, want %d", n, len(r.Evaluations))
	}
}

// compareEvaluation predicts the validation set in the recorded order.
func compareEvaluation(t *testing.T, s *tagStep, valid data.Slice[tokens], g *golden.File, r hfRun) {
	t.Helper()
	if err := s.StartLoader(false); err != nil {
		t.Fatal(err)
	}
	if err := s.StartEval(trainer.Evaluation{Name: "test", Rows: len(valid), BatchSize: 4,
		Loss: semantics.RepeatedFloat32, Predict: true}); err != nil {
		t.Fatal(err)
	}
	for _, rows := range r.EvalBatches {
		var samples []tokens
		for _, i := range rows {
			samples = append(samples, valid[i])
		}
		b, err := s.Collate(samples)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Eval(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	m, err := s.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	golden.RecordedNumbers(t, "loss of the evaluation", []float64{m["loss"]}, []float64{parseHex(t, r.EvalLoss)})
	want := trainer.Metrics{"loss": m["loss"], "right": r.Right, "width": r.Width}
	if !reflect.DeepEqual(m, want) {
		t.Errorf("the evaluation gives %v, want %v", m, want)
	}
	p := s.Predictions()
	golden.Recorded(t, "predictions", p.Logits[0], g.Tensor(r.Name+"/predictions"))
	golden.Bits(t, "label_ids", p.Labels[0], g.Tensor(r.Name+"/label_ids"))
	if p.Rows != len(valid) || len(p.Losses) != len(r.EvalBatches) {
		t.Errorf("%d rows and %d losses are predicted, want %d and %d", p.Rows, len(p.Losses), len(valid),
			len(r.EvalBatches))
	}
}
