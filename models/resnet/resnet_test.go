package resnet_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/tensorio"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/resnet"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/functional"
	"github.com/gotrainer/gotrainer/safetensors/pickle"
	"github.com/gotrainer/gotrainer/torch"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

var models = map[string]func(*resnet.Options) *resnet.Model{"resnet18": resnet.ResNet18, "resnet34": resnet.ResNet34,
	"resnet50": resnet.ResNet50}

// recorded is a model in testdata/resnet.json, made by torchvision. Tensors are represented by the
// first bytes of their SHA-256.
type recorded struct {
	StateDict        [][2]any           `json:"state_dict"` // names and shapes
	Modules          []string           `json:"modules"`
	Generator        string             `json:"generator"`
	Initial          map[string]string  `json:"initial"`
	Grad             map[string]string  `json:"grad"`
	GradNorm         map[string]float64 `json:"grad_norm"`
	ZeroInitResidual []string           `json:"zero_init_residual"`
}

func load(t *testing.T) map[string]recorded {
	t.Helper()
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	text, err := os.ReadFile("testdata/resnet.json")
	require.NoError(t, err)
	var all map[string]recorded
	require.NoError(t, json.Unmarshal(text, &all))
	require.Len(t, all, len(models))
	return all
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])[:16]
}

// pictures computes the formula of resnet.py.
func pictures(shape ...int64) torch.Tensor {
	n := int64(1)
	for _, size := range shape {
		n *= size
	}
	values := make([]float32, n)
	for i := range values {
		values[i] = float32(uint32(i)*2654435761>>8)/(1<<23) - 1
	}
	return torch.From(values, shape...)
}

func TestForwardAndBackwardHaveTorchvisionsBits(t *testing.T) {
	all := load(t)
	g := golden.Load(t, "testdata/resnet.safetensors")
	for name, r := range all {
		t.Run(name, func(t *testing.T) {
			goldencount.Start(t, "models", name)
			torch.Scope(func() { compare(t, name, r, g) })
		})
	}
}

// Batch normalisation over so few numbers in such a deep network amplifies differences between
// machines. On CPUs without AVX2, even torchvision's own logits differ by 1,180 units in the last
// place, and its gradient norms by 0.8 %, from those computed with AVX2.
const (
	places = 2048
	share  = 0.02
)

func compare(t *testing.T, name string, r recorded, g *golden.File) {
	torch.ManualSeed(7)
	m := models[name](&resnet.Options{NumClasses: 10})
	assert.Equal(t, r.Generator, sum(torch.DefaultGenerator(torch.CPU).State()), "the generator has another state")
	var modules []string
	for _, n := range nn.Modules(m) {
		modules = append(modules, n.Name)
	}
	assert.Equal(t, r.Modules, modules)
	var state [][2]any
	for _, s := range nn.StateDict(m) {
		shape := []any{}
		for _, size := range s.Tensor.Shape() {
			shape = append(shape, float64(size))
		}
		state = append(state, [2]any{s.Name, shape})
	}
	assert.Equal(t, r.StateDict, state)
	if testenv.SameBits() {
		for _, p := range nn.Params(m) {
			assert.Equal(t, r.Initial[p.Name], sum(p.Tensor.Bytes()), "%s has other bits", p.Name)
		}
	}
	logits := m.Forward(pictures(4, 3, 47, 64))
	loss := functional.CrossEntropy(logits, torch.From([]int64{1, 9, 0, 4}, 4))
	loss.Backward()
	golden.RecordedWithin(t, "logits", logits, g.Tensor(name+".logits"), places)
	golden.RecordedWithin(t, "loss", loss, g.Tensor(name+".loss"), places)
	for _, p := range nn.Params(m) {
		if testenv.SameBits() {
			assert.Equal(t, r.Grad[p.Name], sum(p.Tensor.Grad().Bytes()), "the gradient of %s has other bits", p.Name)
		}
		norm := p.Tensor.Grad().ToDType(torch.Float64).Norm(2).Item()
		assert.InEpsilon(t, r.GradNorm[p.Name], norm, share, p.Name)
	}
	for _, b := range nn.Buffers(m) {
		if b.Name == "layer4.1.bn2.running_var" {
			golden.RecordedWithin(t, b.Name, b.Tensor, g.Tensor(name+".running_var"), places)
		}
	}
	nn.SetTraining(m, false)
	torch.NoGrad(func() {
		golden.RecordedWithin(t, "evaluated", m.Forward(pictures(2, 3, 64, 32)), g.Tensor(name+".evaluated"), places)
	})
}

func TestZeroInitResidual(t *testing.T) {
	want := load(t)["resnet18"].ZeroInitResidual
	m := resnet.ResNet18(&resnet.Options{NumClasses: 10, ZeroInitResidual: true})
	var zero []string
	for _, p := range nn.Params(m) {
		if !strings.HasSuffix(p.Name, "bias") && p.Tensor.Abs().Sum(torch.DefaultDType).Item() == 0 {
			zero = append(zero, p.Name)
		}
	}
	assert.Equal(t, want, zero)
}

// TestWeightFilesLoad writes files like torch.save and in the safetensors format, and loads them
// into another model with a new head for other classes.
func TestWeightFilesLoad(t *testing.T) {
	testenv.RequireTorch(t)
	m := resnet.ResNet18(&resnet.Options{NumClasses: 3})
	dir := t.TempDir()
	files := []string{filepath.Join(dir, "resnet18.safetensors"), filepath.Join(dir, "resnet18.pth")}
	require.NoError(t, nn.Save(files[0], m, nil))
	require.NoError(t, saveTorch(files[1], m))
	for _, path := range files {
		again := resnet.ResNet18(&resnet.Options{NumClasses: 3})
		_, err := nn.Load(path, again, nn.LoadOptions{})
		require.NoError(t, err)
		a, b := nn.StateDict(m), nn.StateDict(again)
		for i := range a {
			golden.Bits(t, a[i].Name, b[i].Tensor, a[i].Tensor)
		}
		_, err = nn.Load(path, resnet.ResNet18(nil), nn.LoadOptions{})
		assert.ErrorContains(t, err, "fc.weight")
		_, err = nn.Load(path, resnet.ResNet34(&resnet.Options{NumClasses: 3}), nn.LoadOptions{})
		assert.ErrorContains(t, err, "layer1.2.conv1.weight")
	}
}

// saveTorch writes the same file as torch.save(m.state_dict(), path).
func saveTorch(path string, m *resnet.Model) error {
	entries, err := tensorio.Entries(nn.StateDict(m))
	if err != nil {
		return err
	}
	state, err := pickle.StateDict(entries)
	if err != nil {
		return err
	}
	return pickle.WriteFile(path, state)
}

// TestEvaluationKeepsNothing counts the tensors that remain after a forward pass without a scope.
func TestEvaluationKeepsNothing(t *testing.T) {
	testenv.RequireTorch(t)
	m := resnet.ResNet50(&resnet.Options{NumClasses: 3})
	nn.SetTraining(m, false)
	x := pictures(1, 3, 32, 32)
	torch.NoGrad(func() {
		before := testenv.Live()
		y := m.Forward(x)
		assert.LessOrEqual(t, testenv.Live()-before, int64(1), "tensors other than the result")
		y.Free()
	})
}

func Example() {
	torch.ManualSeed(1)
	model := resnet.ResNet18(nil)
	// _, err := nn.Load("resnet18-f37072fd.pth", model, nn.LoadOptions{})
	model.FC = nn.NewLinear(model.NumFeatures, 2, nil)
	shapes, err := nn.Shapes(model, func() { model.Forward(torch.Zeros(1, 3, 224, 224)) })
	if err != nil {
		log.Fatal(err)
	}
	last := shapes[len(shapes)-1]
	fmt.Println(last.Name, last.In, last.Out)
	// Output: fc [1 512] [1 2]
}
