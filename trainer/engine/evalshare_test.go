package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/ranktest"
	"github.com/gotrainer/gotrainer/internal/tensorio"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// evalCase is a case of testdata/hf_eval_ddp.json: what each process evaluated, and the results of
// all.
type evalCase struct {
	Name     string
	World    int
	Batches  [][][]int // by rank
	Losses   []string
	Metrics  []map[string]float64
	TestLoss string `json:"test_loss"`
}

// evalOutcome is what a process reports for the same case.
type evalOutcome struct {
	Name     string
	Batches  [][]int
	Losses   []float64
	Metrics  []map[string]float64
	TestLoss float64
	Samples  int // samples of the prediction
	Failure  string
}

// widest is the width of all batches of a stream.
const widest = 8

func collateFixed(samples []tokens) (tokenBatch, error) {
	b := tokenBatch{width: widest}
	for _, s := range samples {
		b.rows = append(b.rows, s.row)
		b.ids, b.labels = append(b.ids, s.ids...), append(b.labels, s.labels...)
		for range widest - len(s.ids) {
			b.ids, b.labels = append(b.ids, 0), append(b.labels, engine.IgnoreIndex)
		}
	}
	return b, nil
}

func whole(p *engine.Predictions) (map[string]float64, error) {
	m, err := right(p)
	m["rows"] = float64(p.Logits[0].Size(0))
	if int(m["rows"]) != p.Rows {
		return nil, fmt.Errorf("%d rows of logits, and Rows is %d", p.Logits[0].Size(0), p.Rows)
	}
	if len(p.Inputs) > 0 {
		m["inputs"] = p.Inputs[0].Sum(torch.Float64).Item()
		m["losses"] = m["rows"] // in Python each loss is repeated for its rows
	}
	return m, err
}

func chosen(p *engine.Predictions) (map[string]float64, error) {
	return map[string]float64{
		"right": p.Logits[0].Eq(p.Labels[0]).Sum(torch.DefaultDType).Item(), "rows": float64(p.Logits[0].Size(0)),
		"sum": p.Logits[0].Sum(torch.DefaultDType).Item(),
	}, nil
}

// rightByBatch is the class Batches of the script.
type rightByBatch struct{ right, calls, rows float64 }

func (r *rightByBatch) Add(p *engine.Predictions) error {
	m, err := right(p)
	r.right += m["right"]
	r.calls++
	r.rows += float64(p.Rows)
	return err
}

func (r *rightByBatch) Result() (map[string]float64, error) {
	m := map[string]float64{"right": r.right, "calls": r.calls, "rows": r.rows}
	*r = rightByBatch{}
	return m, nil
}

// inputTask also returns its inputs in its outputs.
type inputTask struct{ tagTask }

func (t *inputTask) Predict(p engine.ForwardPass, b tokenBatch) engine.Outputs {
	o := t.tagTask.Predict(p, b)
	ids := make([]int64, len(b.ids))
	copy(ids, b.ids)
	o.Inputs = []torch.Tensor{engine.Input(p, ids, int64(len(b.rows)), int64(b.width))}
	return o
}

// evalSeen records its batches, in the order of the loader.
type evalSeen struct {
	*tagStep
	fixed   bool
	batches [][]int
}

func (s *evalSeen) Collate(samples []tokens) (tokenBatch, error) {
	if s.fixed {
		return collateFixed(samples)
	}
	return collateTokens(samples)
}

func (s *evalSeen) Train(ctx context.Context, b tokenBatch, w trainer.Window) error {
	s.batches = append(s.batches, b.rows)
	return s.tagStep.Train(ctx, b, w)
}

func (s *evalSeen) Eval(ctx context.Context, b tokenBatch) error {
	s.batches = append(s.batches, b.rows)
	return s.tagStep.Eval(ctx, b)
}

func (s *evalSeen) EvalRound(ctx context.Context, r trainer.EvalRound[tokenBatch]) error {
	if r.Rows > 0 {
		s.batches = append(s.batches, r.Batch.rows)
	}
	return s.tagStep.EvalRound(ctx, r)
}

// evalStep makes the step and the sets of a case.
func evalStep(name string, o trainer.Options) (s *evalSeen, train data.Slice[tokens], valid data.Dataset[tokens],
	opts trainer.Options, err error) {
	var t testing.T
	file, initial := golden.Load(&t, "testdata/hf.safetensors"), golden.Load(&t, "testdata/hf_ddp.safetensors")
	first, rest := hfData(file)
	all := append(append(data.Slice[tokens]{}, first...), rest...)
	for i := range all {
		all[i].row = i
	}
	n := 21
	for _, k := range []int{11, 16, 3, 1} {
		if strings.Contains(" "+name+" ", fmt.Sprintf(" %d ", k)) {
			n = k
		}
	}
	if name == "inputs and losses" || strings.HasPrefix(name, "training") {
		n = 11
	}
	e := engine.Options{Optimizer: named("adamw_torch_fused", optim.Arguments{LearningRate: 0.02}),
		ComputeMetrics: whole}
	m := newTagger(0)
	task := tag(m)
	switch name {
	case "loss only":
		e.ComputeMetrics = nil
	case "counted items", "stream of counted items":
		task = count(m)
	case "chosen classes":
		e.ComputeMetrics = chosen
		e.PreprocessLogits = func(logits, _ []torch.Tensor) []torch.Tensor {
			return []torch.Tensor{logits[0].ArgMax(-1, false)}
		}
	case "batch by batch":
		e.ComputeMetrics, e.BatchMetrics = nil, &rightByBatch{}
	case "accumulation":
		e.EvalAccumulation = 1
	case "inputs and losses":
		task = &inputTask{tagTask{m}}
	}
	var weights []torch.Named
	for _, p := range nn.Params(m) {
		weights = append(weights, torch.Named{Name: p.Name, Tensor: initial.Tensor("plain/init/" + p.Name)})
	}
	if _, err := nn.LoadStateDict(m, nn.Tensors(weights), nn.LoadOptions{}); err != nil {
		return nil, nil, nil, o, err
	}
	inner, err := engine.New(task, e)
	if err != nil {
		return nil, nil, nil, o, err
	}
	o.DropLast = strings.HasSuffix(name, "last dropped")
	if strings.HasPrefix(name, "training") {
		o.Epochs, o.Eval = 2, trainer.Every(1, trainer.Epoch)
	}
	s = &evalSeen{tagStep: inner, fixed: strings.Contains(name, "stream")}
	valid = all[:n]
	if s.fixed {
		valid = trainer.EvalStream[tokens]{Stream: data.StreamOf[tokens](all[:n], nil)}
	}
	return s, all[:21], valid, quiet(o), nil
}

// evaluateCase evaluates, and predicts if the script does.
func evaluateCase(ctx context.Context, name string, o trainer.Options) (out evalOutcome, tensors []torch.Named,
	err error) {
	out.Name = name
	s, train, valid, o, err := evalStep(name, o)
	if err != nil {
		return out, nil, err
	}
	fit, err := trainer.New(s, o)
	if err != nil {
		return out, nil, err
	}
	if !strings.HasPrefix(name, "training") {
		torch.ManualSeed(uint64(5 + o.Group.Rank()))
	}
	add := func(m map[string]float64, prefix string) {
		numbers := map[string]float64{}
		for _, k := range []string{"right", "rows", "width", "sum", "losses", "inputs", "calls"} {
			if v, ok := m[prefix+k]; ok {
				numbers[k] = v
			}
		}
		if loss, ok := m[prefix+"loss"]; ok {
			out.Losses = append(out.Losses, loss)
		}
		out.Metrics = append(out.Metrics, numbers)
	}
	if strings.HasPrefix(name, "training") {
		result, err := fit.Fit(ctx, train, valid)
		if err != nil {
			return out, nil, err
		}
		for _, row := range result.History {
			if _, ok := row["eval_loss"]; ok {
				add(row, "eval_")
			}
		}
	} else {
		m, err := fit.Evaluate(ctx, valid)
		if err != nil {
			return out, nil, err
		}
		add(m, "")
	}
	out.Batches = s.batches
	tensors = append(tensors, torch.Named{Name: name + "/next", Tensor: torch.Rand(2)})
	switch name {
	case "11 rows", "21 rows", "chosen classes", "stream of 11", "stream of 21":
		p, err := fit.Predict(ctx, valid, "")
		if err != nil {
			return out, nil, err
		}
		out.TestLoss, out.Samples = p.Metrics["test_loss"], p.Samples
		found := s.Predictions()
		tensors = append(tensors, torch.Named{Name: name + "/predictions", Tensor: found.Logits[0]},
			torch.Named{Name: name + "/label_ids", Tensor: found.Labels[0]})
	}
	return out, tensors, nil
}

// evaluationsMember is the role of a started process: it runs all cases with the given semantics.
func evaluationsMember(rules string) error {
	ctx := context.Background()
	g, err := dist.Init(ctx, dist.Options{JoinTimeout: time.Minute})
	if err != nil {
		return err
	}
	defer func() { _ = g.Close() }()
	torch.SetThreads(1)
	o := trainer.Options{Group: g, BatchSize: 4, EvalBatchSize: 4, Log: trainer.Every(1, trainer.Update),
		Semantics: rulesNamed(rules)}
	var t testing.T
	var outcomes []evalOutcome
	var all []torch.Named
	for _, c := range evalCases(&t) {
		if c.World != g.World() && !(g.World() == 1 && c.World == 1) {
			continue
		}
		out, tensors, err := evaluateCase(ctx, c.Name, o)
		if err != nil {
			out.Failure = err.Error()
		}
		outcomes, all = append(outcomes, out), append(all, tensors...)
	}
	dir := os.Getenv("ENGINE_TEST_DIR")
	entries, err := tensorio.Entries(all)
	if err != nil {
		return err
	}
	if err := safetensors.WriteFile(filepath.Join(dir, strconv.Itoa(g.Rank())), entries, nil); err != nil {
		return err
	}
	text, err := json.Marshal(outcomes)
	if err != nil {
		return err
	}
	fmt.Println(string(text))
	return g.Barrier(ctx)
}

func rulesNamed(name string) semantics.Rules {
	if name == "huggingface" {
		return semantics.HuggingFace
	}
	return semantics.Default
}

func evalCases(t *testing.T) (cases []evalCase) {
	text, err := os.ReadFile("testdata/hf_eval_ddp.json")
	if err != nil {
		panic(err) // a started process has no *testing.T
	}
	if err := json.Unmarshal(text, &cases); err != nil {
		panic(err)
	}
	return cases
}

// startProcesses starts n processes in a role and returns what each printed. The test fails if a
// process has failed.
func startProcesses(t *testing.T, n int, role, dir string) []string {
	t.Helper()
	testenv.RequireTorch(t)
	var texts []string
	for rank, p := range ranktest.Run(t, n, 3*time.Minute, "ENGINE_TEST_ROLE="+role, "ENGINE_TEST_DIR="+dir) {
		if texts = append(texts, p.Output); p.Code != 0 {
			t.Errorf("rank %d: exit code %d: %s", rank, p.Code, p.Output)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
	return texts
}

func startEvaluations(t *testing.T, world int, rules, dir string) (outcomes [][]evalOutcome) {
	t.Helper()
	for rank, text := range startProcesses(t, world, "evaluations|"+rules, dir) {
		var list []evalOutcome
		if err := (ranktest.Process{Output: text}).Decode(&list); err != nil {
			t.Fatalf("rank %d: %v: %s", rank, err, text)
		}
		outcomes = append(outcomes, list)
	}
	return outcomes
}

func TestSharedEvaluationsEqualTransformersWithGloo(t *testing.T) {
	want := golden.Load(t, "testdata/hf_eval_ddp.safetensors")
	for world := 1; world <= 3; world++ {
		dir := t.TempDir()
		outcomes := startEvaluations(t, world, "huggingface", dir)
		for rank := range world {
			got := golden.Load(t, filepath.Join(dir, strconv.Itoa(rank)))
			i := 0
			for _, c := range evalCases(t) {
				if c.World != world {
					continue
				}
				o := outcomes[rank][i]
				i++
				what := fmt.Sprintf("%s, rank %d of %d", c.Name, rank, world)
				if o.Failure != "" || o.Name != c.Name {
					t.Errorf("%s: %s %s", what, o.Name, o.Failure)
					continue
				}
				// In Python only the main process reads a stream; with several processes, the
				// predictions show which process got which samples.
				if diff := cmp.Diff(c.Batches[rank], o.Batches); diff != "" && (world == 1 || !strings.Contains(c.Name,
					"stream")) {
					t.Errorf("%s: batches (-transformers +here):\n%s", what, diff)
				}
				if diff := cmp.Diff(c.Metrics, o.Metrics); diff != "" {
					t.Errorf("%s: metrics (-transformers +here):\n%s", what, diff)
				}
				for k, loss := range c.Losses {
					if loss == "" && len(o.Losses) == 0 {
						continue // it has no batch
					}
					if k >= len(o.Losses) {
						t.Errorf("%s: there are %d evaluations, want %d", what, len(o.Losses), len(c.Losses))
						break
					}
					golden.RecordedNumbers(t, fmt.Sprintf("%s: loss of evaluation %d", what, k), o.Losses[k:k+1],
						[]float64{parseHex(t, loss)})
				}
				if c.TestLoss != "" {
					golden.RecordedNumbers(t, what+": loss of the prediction", []float64{o.TestLoss},
						[]float64{parseHex(t, c.TestLoss)})
					for _, name := range []string{"predictions", "label_ids"} {
						golden.Recorded(t, what+": "+name, got.Tensor(c.Name+"/"+name),
							want.Tensor(fmt.Sprintf("%d/%s/0/%s", world, c.Name, name)))
					}
				}
				golden.Bits(t, what+": the next random numbers", got.Tensor(c.Name+"/next"),
					want.Tensor(fmt.Sprintf("%d/%s/%d/next", world, c.Name, rank)))
			}
		}
	}
}

func TestBySemanticsDefaultAnyNumberOfProcessesFindsWhatOneFinds(t *testing.T) {
	alone := startEvaluations(t, 1, "default", t.TempDir())[0]
	byName := map[string]evalOutcome{}
	for _, o := range alone {
		byName[o.Name] = o
	}
	for world := 2; world <= 3; world++ {
		for rank, list := range startEvaluations(t, world, "default", t.TempDir()) {
			for _, o := range list {
				want := byName[o.Name]
				if strings.HasPrefix(o.Name, "training") { // several processes train on other batches
					continue
				}
				if o.Failure != "" || want.Failure != "" {
					t.Errorf("%s, rank %d of %d: %s, %s", o.Name, rank, world, o.Failure, want.Failure)
				}
				want.Batches, o.Batches = nil, nil
				if diff := cmp.Diff(want, o); diff != "" {
					t.Errorf("%s, rank %d of %d (-one process +several):\n%s", o.Name, rank, world, diff)
				}
			}
		}
	}
}
