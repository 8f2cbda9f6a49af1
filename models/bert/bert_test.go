package bert_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/bert"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// recorded is testdata/bert.json, made by transformers' own class.
type recorded struct {
	Cases         []goldenCase
	Generator     string
	BaseGenerator string `json:"base_generator"`
	FineGenerator string `json:"fine_generator"`
	Parameters    []string
	StateDict     []string `json:"state_dict"`
	Initial       map[string]string
	Base          map[string]string
	Fine          map[string]string
}

type goldenCase struct {
	Name              string
	Attention         transformer.Attention
	Masked            bool
	Full              bool
	Typed             bool
	Dropout           float64
	Problem           classify.ProblemType
	Labels            string
	NumLabels         int64 `json:"num_labels"`
	BF16              bool
	Checkpointing     bool
	Act               string
	ClassifierDropout *float64 `json:"classifier_dropout"`
	Generator         string
	Grads             map[string]string
	Norms             map[string]float64
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

func load(t *testing.T) recorded {
	t.Helper()
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	var r recorded
	text, err := os.ReadFile("testdata/bert.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func tiny() bert.Config {
	return bert.Config{VocabSize: 50, HiddenSize: 24, NumLayers: 2, NumHeads: 3, IntermediateSize: 40, MaxPositions: 20, Head: bert.Head{NumLabels: 3}}
}

func newClassifier(t *testing.T, c bert.Config) *bert.Classifier {
	t.Helper()
	torch.ManualSeed(42)
	m, err := bert.NewClassifier(c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func generator() string { return sum(torch.DefaultGenerator(torch.CPU).State()) }

// sameBits compares the tensors of a model with recorded sums.
func sameBits(t *testing.T, m any, want map[string]string) {
	t.Helper()
	params := nn.Params(m)
	if len(params) != len(want) {
		t.Errorf("%d parameters, want %d", len(params), len(want))
	}
	for _, p := range params {
		if got := sum(p.Tensor.Bytes()); got != want[p.Name] {
			t.Errorf("%s has other bits than transformers'", p.Name)
		}
	}
}

func names(ts []torch.Named) []string {
	var list []string
	for _, n := range ts {
		list = append(list, n.Name)
	}
	return list
}

func TestSameSeedGivesTransformersWeights(t *testing.T) {
	r := load(t)
	m := newClassifier(t, tiny())
	if got := generator(); got != r.Generator {
		t.Error("the generator stands elsewhere than transformers' after the model was made")
	}
	if got := names(nn.Params(m)); !slices.Equal(got, r.Parameters) {
		t.Errorf("the parameters are %q, want %q", got, r.Parameters)
	}
	if got := names(nn.StateDict(m)); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(r.StateDict))) {
		t.Errorf("the state is %q, want %q", got, r.StateDict)
	}
	sameBits(t, m, r.Initial)
}

func TestSameSeedGivesTransformersEncoder(t *testing.T) {
	r := load(t)
	torch.ManualSeed(42)
	m, err := bert.New(tiny())
	if err != nil {
		t.Fatal(err)
	}
	if got := generator(); got != r.BaseGenerator {
		t.Error("the generator stands elsewhere than transformers' after the encoder was made")
	}
	sameBits(t, m, r.Base)
}

func TestForwardAndBackwardHaveTransformersBits(t *testing.T) {
	r := load(t)
	g := golden.Load(t, "testdata/bert.safetensors")
	for _, c := range r.Cases {
		t.Run(c.Name, func(t *testing.T) {
			goldencount.Start(t, "models", "bert "+c.Name)
			torch.Scope(func() { compareCase(t, g, c) })
		})
	}
}

func compareCase(t *testing.T, g *golden.File, c goldenCase) {
	config := tiny()
	config.HiddenDropout, config.AttentionDropout, config.ClassifierDropout = &c.Dropout, &c.Dropout, c.ClassifierDropout
	config.HiddenAct, config.Attention = c.Act, c.Attention
	config.Head = bert.Head{NumLabels: c.NumLabels, ProblemType: c.Problem}
	m := newClassifier(t, config)
	m.SetGradientCheckpointing(c.Checkpointing)
	precision := amp.FP32
	if c.BF16 {
		precision = amp.BF16
	}
	var mask, types torch.Tensor
	if c.Masked {
		mask = g.Tensor("mask")
	}
	if c.Full {
		mask = g.Tensor("mask").FullLike(1)
	}
	if c.Typed {
		types = g.Tensor("types")
	}
	torch.ManualSeed(7)
	var logits, loss torch.Tensor
	amp.Autocast(torch.CPU, precision, func() {
		logits = m.Forward(g.Tensor("ids"), mask, types)
		loss = m.Head().Loss(logits, g.Tensor("labels."+c.Labels))
	})
	loss.Backward()
	if testenv.SameBits() && generator() != c.Generator {
		t.Error("the generator stands elsewhere than transformers' after forward and backward")
	}
	near(t, "logits", logits.Detach(), g.Tensor(c.Name+".logits"))
	near(t, "loss", loss.Detach(), g.Tensor(c.Name+".loss"))
	for _, p := range nn.Params(m) {
		grad := p.Tensor.Grad()
		if !grad.Defined() {
			t.Errorf("%s has no gradient", p.Name)
			continue
		}
		if testenv.SameBits() && sum(grad.Bytes()) != c.Grads[p.Name] {
			t.Errorf("the gradient of %s has other bits than transformers'", p.Name)
		}
		if got, want := grad.ToDType(torch.Float64).Norm(2).Item(), c.Norms[p.Name]; math.Abs(got-want) > 1e-6+tolerance(c)*want {
			t.Errorf("the gradient of %s has norm %g, want %g", p.Name, got, want)
		}
	}
	nn.SetTraining(m, false)
	torch.NoGrad(func() {
		amp.Autocast(torch.CPU, precision, func() {
			near(t, "logits in evaluation mode", m.Forward(g.Tensor("ids"), mask, types), g.Tensor(c.Name+".eval"))
		})
	})
}

func tolerance(c goldenCase) float64 {
	if c.BF16 {
		return 2e-2
	}
	return 1e-4
}

// near compares bits where this CPU can give them.
func near(t *testing.T, name string, got, want torch.Tensor) {
	t.Helper()
	switch {
	case testenv.SameBits():
		golden.Bits(t, name, got, want)
	case got.DType() == torch.BFloat16:
		golden.Close(t, name, got, want, 2e-2, 1e-2)
	default:
		golden.Close(t, name, got, want, 1e-4, 1e-6)
	}
}
