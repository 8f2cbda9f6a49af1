package bert_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/bert"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// hezarCase is the result.json of a forward and backward pass of Hezar's BertTextClassification.
type hezarCase struct {
	Model       struct{ Config map[string]any }
	Init        struct{ Formula uint64 }
	Mode        string
	DropoutSeed *uint64 `json:"dropout_seed"`
	Loss        string
	Gradients   map[string]struct {
		L2 string
	} `json:"gradient_stats"`
}

// TestHezarsClassifierIsTheSame compares with recorded passes of Hezar's model, whose weights are
// computed by a formula. They were recorded with other CPU code paths than the golden files; with
// the same code paths, internal/conformance compares them bit for bit.
func TestHezarsClassifierIsTheSame(t *testing.T) {
	testenv.RequireTorch(t)
	const folder = "../../../shared/conformance/cases/hezar_forward"
	if _, err := os.Stat(folder); err != nil {
		t.Skipf("the recorded passes are not here: %v", err)
	}
	for _, name := range []string{"bert_eval_ragged", "bert_token_types_ignored", "bert_relu_2_heads_eps",
		"bert_train_dropout"} {
		t.Run(name, func(t *testing.T) {
			torch.SetThreads(1)
			var c hezarCase
			readJSON(t, filepath.Join(folder, name, "result.json"), &c)
			torch.Scope(func() { compareHezar(t, c, golden.Load(t, filepath.Join(folder, name, "case.safetensors"))) })
		})
	}
}

// hezarModel makes a model from Hezar's config.json, which has a name instead of a model_type.
func hezarModel(t *testing.T, config map[string]any) *bert.Classifier {
	t.Helper()
	config["name"] = "bert_text_classification"
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := bert.ReadConfig(dir)
	if err != nil {
		t.Fatal(err)
	}
	m, err := bert.NewClassifier(c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestHezarsFolderLoads reads a folder written by Hezar's Model.save.
func TestHezarsFolderLoads(t *testing.T) {
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	m, report, err := bert.LoadClassifier("testdata/hezar_folder", bert.Head{})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Missing)+len(report.Unexpected)+len(report.Initialized) > 0 {
		t.Errorf("the report is\n%s", report)
	}
	if got := m.Head().ID2Label; !slices.Equal(got, []string{"bad", "fair", "good"}) {
		t.Errorf("the labels are %q", got)
	}
	g := golden.Load(t, "testdata/hezar_folder.safetensors")
	nn.SetTraining(m, false)
	torch.NoGrad(func() {
		golden.Recorded(t, "logits", m.Forward(g.Tensor("ids"), g.Tensor("mask"), g.Tensor("ids").FullLike(1)),
			g.Tensor("logits"))
	})
}

func compareHezar(t *testing.T, c hezarCase, g *golden.File) {
	m := hezarModel(t, c.Model.Config)
	formula(m, c.Init.Formula)
	var types torch.Tensor
	if g.Has("in.token_type_ids") {
		types = g.Tensor("in.token_type_ids")
	}
	nn.SetTraining(m, c.Mode == "train")
	if c.DropoutSeed != nil {
		torch.ManualSeed(*c.DropoutSeed)
	}
	logits := m.Forward(g.Tensor("in.token_ids"), g.Tensor("in.attention_mask"), types)
	loss := m.Head().Loss(logits, g.Tensor("in.labels"))
	loss.Backward()
	golden.Close(t, "logits", logits.Detach(), g.Tensor("out.logits"), 1e-4, 1e-6)
	want, err := strconv.ParseFloat(c.Loss, 64)
	if err != nil {
		t.Fatal(err)
	}
	if got := loss.Item(); math.Abs(got-want) > 1e-5 {
		t.Errorf("the loss is %g, want %g", got, want)
	}
	for _, p := range nn.Params(m) {
		grad := p.Tensor.Grad()
		norm, err := strconv.ParseFloat(c.Gradients[p.Name].L2, 64)
		if err != nil {
			t.Fatalf("%s: %v", p.Name, err)
		}
		if got := grad.ToDType(torch.Float64).Norm(2).Item(); math.Abs(got-norm) > 1e-7+1e-5*norm {
			t.Errorf("the gradient of %s has norm %g, want %g", p.Name, got, norm)
		}
	}
	nn.SetTraining(m, false)
	torch.NoGrad(func() {
		golden.Close(t, "logits in evaluation mode", m.Forward(g.Tensor("in.token_ids"), g.Tensor("in.attention_mask"),
			types), g.Tensor("out.logits_eval"), 1e-4, 1e-6)
	})
}

// formula fills a model without a generator, as for the recorded passes: element i of tensor t, in
// the order of names, is bound*(2u-1), where u is number i of a stream that depends on seed and t.
func formula(m any, seed uint64) {
	state := nn.StateDict(m)
	slices.SortFunc(state, func(a, b torch.Named) int { return strings.Compare(a.Name, b.Name) })
	torch.NoGrad(func() {
		for i, p := range state {
			if strings.HasSuffix(p.Name, "LayerNorm.weight") {
				p.Tensor.Fill_(1)
				continue
			}
			shape := p.Tensor.Shape()
			values := make([]float32, p.Tensor.Numel())
			bound := 0.05
			if len(shape) > 1 {
				bound = 1 / math.Sqrt(float64(int64(len(values))/shape[0]))
			}
			for k := range values {
				values[k] = float32(bound * (2*uniform(seed<<48^uint64(i)<<32^uint64(k)) - 1))
			}
			p.Tensor.Copy_(torch.From(values, shape...))
		}
	})
}

// uniform returns a number from 0 to 1: the upper 24 bits of splitmix64(x).
func uniform(x uint64) float64 {
	x += 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	x ^= x >> 31
	return float64(x>>40) / (1 << 24)
}
