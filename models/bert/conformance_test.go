package bert_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/bert"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// spec is the part of a recorded run's spec.json that these tests read.
type spec struct {
	Model struct {
		Config    map[string]any
		Attention transformer.Attention `json:"attn_implementation"`
	}
	Init any
	Data struct{ Trim bool }
	Args struct {
		Epochs        float64 `json:"num_train_epochs"`
		BatchSize     int     `json:"per_device_train_batch_size"`
		Accumulate    int     `json:"gradient_accumulation_steps"`
		Rate          float64 `json:"learning_rate"`
		WeightDecay   float64 `json:"weight_decay"`
		Logging       int     `json:"logging_steps"`
		Eval          string  `json:"eval_strategy"`
		Checkpointing bool    `json:"gradient_checkpointing"`
		Sampling      string  `json:"train_sampling_strategy"`
		NEFTune       float64 `json:"neftune_noise_alpha"`
	}
}

type trace struct {
	LogHistory []map[string]float64 `json:"log_history"`
}

// TestRecordedRunsOfTransformersTrainer trains like transformers.Trainer 5.17 and must end with the
// same bits. The runs were recorded with reproducible numbers on a CPU of another vendor.
func TestRecordedRunsOfTransformersTrainer(t *testing.T) {
	testenv.RequireTorch(t)
	const folder = "../../../shared/conformance/cases_reproducible/hf"
	if _, err := os.Stat(folder); err != nil {
		t.Skipf("the recorded runs are not here: %v", err)
	}
	for _, name := range []string{"bert_init_seed", "bert_accum2", "bert_gradient_checkpointing",
		"bert_group_by_length", "bert_neftune"} {
		t.Run(name, func(t *testing.T) { replay(t, filepath.Join(folder, name)) })
	}
}

func readJSON(t *testing.T, path string, v any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// modelOf makes the model of a recorded run.
func modelOf(t *testing.T, dir string, s spec) *bert.Classifier {
	t.Helper()
	s.Model.Config["model_type"] = "bert"
	text, err := json.Marshal(s.Model.Config)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "config.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := bert.ReadConfig(folder)
	if err != nil {
		t.Fatal(err)
	}
	c.Attention = s.Model.Attention
	if seed, ok := s.Init.(map[string]any); ok {
		torch.ManualSeed(uint64(seed["seed"].(float64)))
	}
	m, err := bert.NewClassifier(c)
	if err != nil {
		t.Fatal(err)
	}
	if s.Init == "file" {
		if _, err := nn.Load(filepath.Join(dir, "init.safetensors"), m, nn.LoadOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// samplesOf reads one split of a recorded run.
func samplesOf(g *golden.File, split string, trim bool) data.Slice[bert.Sample] {
	if !g.Has(split + ".input_ids") {
		return nil
	}
	shape := g.Tensor(split + ".input_ids").Shape()
	row := func(name string, i int64) []int64 {
		if !g.Has(split + "." + name) {
			return nil
		}
		return torch.Values[int64](g.Tensor(split+"."+name).Select(0, i))
	}
	labels := torch.Values[int64](g.Tensor(split + ".labels"))
	list := make(data.Slice[bert.Sample], shape[0])
	for i := range shape[0] {
		s := bert.Sample{InputIDs: row("input_ids", i), AttentionMask: row("attention_mask", i),
			TokenTypeIDs: row("token_type_ids", i), Label: labels[i]}
		if trim {
			n := 0
			for _, keep := range s.AttentionMask {
				n += int(keep)
			}
			s.InputIDs, s.AttentionMask = s.InputIDs[:n], nil
		}
		list[i] = s
	}
	return list
}

func replay(t *testing.T, dir string) {
	torch.SetThreads(1)
	var s spec
	readJSON(t, filepath.Join(dir, "spec.json"), &s)
	var want trace
	readJSON(t, filepath.Join(dir, "trace.json"), &want)
	g := golden.Load(t, filepath.Join(dir, "data.safetensors"))
	train, eval := samplesOf(g, "train", s.Data.Trim), samplesOf(g, "eval", s.Data.Trim)
	m := modelOf(t, dir, s)
	step, err := classify.NewStep(m, classify.TaskOptions{SumWindow: true}, engine.Options{
		Optimizer: optim.AdamW{LR: s.Args.Rate, WeightDecay: &s.Args.WeightDecay}, NEFTuneAlpha: s.Args.NEFTune,
		GradientCheckpointing: s.Args.Checkpointing,
	})
	if err != nil {
		t.Fatal(err)
	}
	o := trainer.Options{
		Epochs: s.Args.Epochs, BatchSize: s.Args.BatchSize, Accumulate: s.Args.Accumulate,
		Log: trainer.Every(s.Args.Logging, trainer.Update), Save: trainer.Never, Eval: trainer.Never,
		Semantics: semantics.HuggingFace, Progress: io.Discard, Workers: 1,
	}
	if s.Args.Eval == "epoch" {
		o.Eval = trainer.Every(1, trainer.Epoch)
	}
	if s.Args.Sampling == "group_by_length" {
		o.Order = grouped(train, s.Args.BatchSize)
	}
	tr, err := trainer.New(step, o)
	if err != nil {
		t.Fatal(err)
	}
	var valid data.Dataset[bert.Sample]
	if o.Eval != trainer.Never {
		valid = eval
	}
	result, err := tr.Fit(context.Background(), train, valid)
	if err != nil {
		t.Fatal(err)
	}
	compareLogs(t, result.History, want.LogHistory)
	compareWeights(t, m, golden.Load(t, filepath.Join(dir, "final.safetensors")))
}

// grouped is group_by_length, for which Hugging Face draws the permutation from the global
// generator.
func grouped(samples data.Slice[bert.Sample], batch int) data.Order {
	var lengths []int
	for _, s := range samples {
		lengths = append(lengths, len(s.InputIDs))
	}
	permutation := data.OrderFunc(func(_, n int) []int {
		var order []int
		for _, i := range torch.Values[int64](torch.RandPerm(int64(n))) {
			order = append(order, int(i))
		}
		return order
	})
	return data.GroupedByLength{Lengths: lengths, BatchSize: batch, Random: permutation}
}

// compareLogs compares the numbers that depend on the model.
func compareLogs(t *testing.T, got []trainer.Logs, want []map[string]float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("the log has %d rows, want %d", len(got), len(want))
	}
	for i, row := range want {
		for _, name := range []string{"loss", "grad_norm", "eval_loss", "eval_accuracy", "train_loss"} {
			w, ok := row[name]
			if !ok {
				continue
			}
			g, ok := got[i][name]
			what := fmt.Sprintf("row %d of the log: %s", i, name)
			if !ok {
				t.Errorf("%s is missing", what)
			} else if name != "eval_loss" {
				golden.RecordedNumbers(t, what, []float64{g}, []float64{w})
			} else if math.Abs(g-w) > 1e-4*math.Abs(w) { // it is summed in another order
				t.Errorf("%s is %v, want %v", what, g, w)
			}
		}
	}
}

func compareWeights(t *testing.T, m *bert.Classifier, final *golden.File) {
	t.Helper()
	for _, p := range nn.Params(m) {
		want := final.Tensor(p.Name)
		if testenv.SameBits() {
			golden.Recorded(t, p.Name, p.Tensor.Detach(), want)
			continue
		}
		diff := p.Tensor.Detach().Sub(want).Norm(2).Item()
		if norm := want.Norm(2).Item(); diff > 1e-4*norm && !zeroGradient(p.Name) {
			t.Errorf("%s: the difference has norm %g, the tensor %g", p.Name, diff, norm)
		}
	}
}

// zeroGradient reports whether the gradient of a tensor is nothing but rounding errors, because
// adding a constant does not change a softmax.
func zeroGradient(name string) bool {
	ok, err := filepath.Match("bert.encoder.layer.*.attention.self.key.bias", name)
	if err != nil {
		panic(fmt.Sprint(err))
	}
	return ok
}
