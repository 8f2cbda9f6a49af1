// Package modeltest contains helpers shared by the tests of models. They compare classifiers with
// transformers' own, bit for bit: initial weights drawn from a seed, logits, losses, all gradients
// and the state of the generator, for the cases listed in golden.py in this folder.
//
//	func TestForwardAndBackward(t *testing.T) {
//		modeltest.Load(t, "bert").Run(t, func(c modeltest.Case) (modeltest.Model, error) { ... })
//	}
package modeltest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Golden is the output of golden.py. Tensors are represented by the first bytes of their SHA-256.
type Golden struct {
	Cases         []Case
	Generator     string // after the classifier was made
	BaseGenerator string `json:"base_generator"` // after the encoder was made
	FineGenerator string `json:"fine_generator"` // after from_pretrained of the encoder as a classifier
	Parameters    []string
	StateDict     []string          `json:"state_dict"`
	Initial       map[string]string // the classifier
	Base          map[string]string // the encoder
	Fine          map[string]string // from_pretrained of the encoder, seed 5

	name string
	file *golden.File
}

// Case is one forward and backward pass in training mode, and one forward pass in evaluation mode.
type Case struct {
	Name              string
	Attention         transformer.Attention
	Masked            bool // there is an attention mask
	Full              bool // all of its elements are ones
	Typed             bool // there are token types
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

// Head returns the head of the case's model.
func (c Case) Head() classify.Head {
	return classify.Head{NumLabels: c.NumLabels, ProblemType: c.Problem}
}

// Model is a classifier to be compared.
type Model interface {
	classify.Model
	SetGradientCheckpointing(on bool)
}

// Load reads testdata/NAME.json and NAME.safetensors.
func Load(t *testing.T, name string) *Golden {
	t.Helper()
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	g := &Golden{name: name, file: golden.Load(t, filepath.Join("testdata", name+".safetensors"))}
	text, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, g); err != nil {
		t.Fatal(err)
	}
	return g
}

// Sum returns the hash by which the JSON file represents a tensor.
func Sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:8])
}

// Generator returns the state of the default generator as represented in the JSON file.
func Generator() string { return Sum(torch.DefaultGenerator(torch.CPU).State()) }

// SameWeights compares the parameters of a model, on machines that draw the same numbers.
func SameWeights(t *testing.T, m any, want map[string]string) {
	t.Helper()
	params := nn.Params(m)
	if len(params) != len(want) {
		t.Errorf("%d parameters, want %d", len(params), len(want))
	}
	for _, p := range params {
		if got := Sum(p.Tensor.Bytes()); testenv.SameBits() && got != want[p.Name] {
			t.Errorf("%s has other bits than transformers'", p.Name)
		}
	}
}

// SameFresh compares a model that was just made from a seed: the state of the generator, the names of
// the parameters in their order, and their bits.
func SameFresh(t *testing.T, m any, generator string, parameters []string, initial map[string]string) {
	t.Helper()
	if testenv.SameBits() {
		assert.Equal(t, generator, Generator(), "the generator has another state")
	}
	require.Equal(t, parameters, names(nn.Params(m)))
	SameWeights(t, m, initial)
}

// SameInitial compares the classifier that build makes, with the configuration of golden.py, with
// the one that transformers makes from the same seed: the weights, their names, and the state of
// the generator afterwards.
func (g *Golden) SameInitial(t *testing.T, build func() (Model, error)) {
	t.Helper()
	torch.ManualSeed(42)
	m, err := build()
	if err != nil {
		t.Fatal(err)
	}
	if Generator() != g.Generator {
		t.Error("the generator has another state than transformers' after the model was made")
	}
	g.names(t, m)
	SameWeights(t, m, g.Initial)
}

// names compares the names of the parameters, in the optimizer's order, and of the state.
func (g *Golden) names(t *testing.T, m any) {
	t.Helper()
	if got := names(nn.Params(m)); !slices.Equal(got, g.Parameters) {
		t.Errorf("the parameters are %q, want %q", got, g.Parameters)
	}
	got, want := names(nn.StateDict(m)), slices.Clone(g.StateDict)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the state is %q, want %q", got, want)
	}
}

func names(ts []torch.Named) []string {
	var list []string
	for _, n := range ts {
		list = append(list, n.Name)
	}
	return list
}

// Run compares all cases. build is called with the generator seeded with 42.
func (g *Golden) Run(t *testing.T, build func(c Case) (Model, error)) {
	for _, c := range g.Cases {
		t.Run(c.Name, func(t *testing.T) {
			goldencount.Start(t, "models", g.name+" "+c.Name)
			torch.Scope(func() {
				torch.ManualSeed(42)
				m, err := build(c)
				if err != nil {
					t.Fatal(err)
				}
				m.SetGradientCheckpointing(c.Checkpointing)
				g.compare(t, c, m)
			})
		})
	}
}

func (g *Golden) compare(t *testing.T, c Case, m Model) {
	precision := amp.FP32
	if c.BF16 {
		precision = amp.BF16
	}
	var mask, types torch.Tensor
	switch {
	case c.Full:
		mask = g.file.Tensor("mask").FullLike(1)
	case c.Masked:
		mask = g.file.Tensor("mask")
	}
	if c.Typed {
		types = g.file.Tensor("types")
	}
	torch.ManualSeed(7)
	var logits, loss torch.Tensor
	amp.Autocast(torch.CPU, precision, func() {
		logits = m.Forward(g.file.Tensor("ids"), mask, types)
		loss = m.Head().Loss(logits, g.file.Tensor("labels."+c.Labels))
	})
	loss.Backward()
	if testenv.SameBits() && Generator() != c.Generator {
		t.Error("the generator has another state than transformers' after forward and backward")
	}
	near(t, "logits", logits.Detach(), g.file.Tensor(c.Name+".logits"))
	near(t, "loss", loss.Detach(), g.file.Tensor(c.Name+".loss"))
	for _, p := range nn.Params(m) {
		compareGrad(t, c, p)
	}
	nn.SetTraining(m, false)
	torch.NoGrad(func() {
		amp.Autocast(torch.CPU, precision, func() {
			near(t, "logits in evaluation mode", m.Forward(g.file.Tensor("ids"), mask, types),
				g.file.Tensor(c.Name+".eval"))
		})
	})
}

func compareGrad(t *testing.T, c Case, p torch.Named) {
	t.Helper()
	grad := p.Tensor.Grad()
	if !grad.Defined() {
		t.Errorf("%s has no gradient", p.Name)
		return
	}
	if testenv.SameBits() && Sum(grad.Bytes()) != c.Grads[p.Name] {
		t.Errorf("the gradient of %s has other bits than transformers'", p.Name)
	}
	tolerance := 1e-4
	if c.BF16 {
		tolerance = 2e-2
	}
	if got, want := grad.ToDType(torch.Float64).Norm(2).Item(),
		c.Norms[p.Name]; math.Abs(got-want) > 1e-6+tolerance*want {
		t.Errorf("the gradient of %s has norm %g, want %g", p.Name, got, want)
	}
}

// near compares two tensors, bit for bit on CPUs that reproduce the recorded bits.
func near(t *testing.T, name string, got, want torch.Tensor) {
	t.Helper()
	golden.Recorded(t, name, got, want)
}
