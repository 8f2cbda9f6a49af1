package crnn_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/crnn"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// recorded is the content of testdata/crnn.json, made by Hezar's own class.
type recorded struct {
	Charset         []string           `json:"charset"`
	Parameters      []string           `json:"parameters"`
	InitialSHA256   map[string]string  `json:"initial_sha256"`
	GeneratorSHA256 string             `json:"generator_sha256"`
	StateDict       []string           `json:"state_dict"`
	WithoutGradient []string           `json:"without_gradient"`
	GradNorms       map[string]float64 `json:"grad_norms"`
	GradSHA256      map[string]string  `json:"grad_sha256"`
	Texts           []string           `json:"texts"`
	Scores          []float64          `json:"scores"`
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

func load(t *testing.T) (recorded, *crnn.Model) {
	testenv.RequireTorch(t)
	var r recorded
	text, err := os.ReadFile("testdata/crnn.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	torch.SetThreads(1)
	torch.ManualSeed(7)
	m, err := crnn.New(crnn.Config{Charset: r.Charset, ImageWidth: 64, RNNDim: 24})
	if err != nil {
		t.Fatal(err)
	}
	return r, m
}

func TestSameSeedGivesHezarsWeights(t *testing.T) {
	r, m := load(t)
	if got := sum(torch.DefaultGenerator(torch.CPU).State()); got != r.GeneratorSHA256 {
		t.Errorf("the generator has another state than Hezar's after the model was made")
	}
	var names []string
	for _, p := range nn.Params(m) {
		names = append(names, p.Name)
		if testenv.SameBits() && sum(p.Tensor.Bytes()) != r.InitialSHA256[p.Name] {
			t.Errorf("%s has other bits than Hezar's", p.Name)
		}
	}
	if !slices.Equal(names, r.Parameters) {
		t.Errorf("parameters %v, want %v", names, r.Parameters)
	}
	names = nil
	for _, p := range nn.StateDict(m) {
		names = append(names, p.Name)
	}
	if !slices.Equal(names, r.StateDict) {
		t.Errorf("state dict %v, want %v", names, r.StateDict)
	}
}

func TestForwardBackwardAndReadingAreHezars(t *testing.T) {
	r, m := load(t)
	goldencount.Start(t, "models", "crnn")
	g := golden.Load(t, "testdata/crnn.safetensors")
	x := torch.Values[float32](g.Tensor("x"))
	texts := []string{"abc", "dd12", "3"}
	var samples []crnn.Sample
	for i, text := range texts {
		samples = append(samples, crnn.Sample{Pixels: x[i*32*64 : (i+1)*32*64], Text: text})
	}
	task := crnn.NewTask(m)
	batch, err := task.Collate(samples)
	if err != nil {
		t.Fatal(err)
	}
	loss := task.Loss(engine.ForwardPass{}, batch)
	loss.Value.Backward()
	compare := func(name string, got, want torch.Tensor) {
		t.Helper()
		golden.Recorded(t, name, got, want)
	}
	compare("loss", loss.Value, g.Tensor("loss"))
	var without []string
	for _, p := range nn.Params(m) {
		grad := p.Tensor.Grad()
		if !grad.Defined() {
			without = append(without, p.Name)
			continue
		}
		if testenv.SameBits() && sum(grad.Bytes()) != r.GradSHA256[p.Name] {
			t.Errorf("the gradient of %s has other bits than Hezar's", p.Name)
		}
		// Before a batch norm, the gradient of a bias consists of rounding errors only.
		if got, want := grad.ToDType(torch.Float64).Norm(2).Item(),
			r.GradNorms[p.Name]; math.Abs(got-want) > 1e-6+1e-4*want {
			t.Errorf("the gradient of %s has norm %g, want %g", p.Name, got, want)
		}
	}
	if !slices.Equal(without, r.WithoutGradient) {
		t.Errorf("no gradient for %v, want %v", without, r.WithoutGradient)
	}
	compare("running mean", nn.Buffers(m)[slices.IndexFunc(nn.Buffers(m),
		func(b torch.Named) bool { return b.Name == "cnn.7.bn.running_mean" })].Tensor, g.Tensor("running_mean"))

	readings, err := m.Read(samples[0].Pixels, samples[1].Pixels, samples[2].Pixels)
	if err != nil {
		t.Fatal(err)
	}
	for i, reading := range readings {
		if reading.Text != r.Texts[i] || math.Abs(reading.Score-r.Scores[i]) > 1e-6 {
			t.Errorf("picture %d reads %q (%.6f), want %q (%.6f)", i, reading.Text, reading.Score, r.Texts[i],
				r.Scores[i])
		}
	}
}

func TestPicturesOfAnySizeAreReadAsHezarReadsThem(t *testing.T) {
	r, _ := load(t)
	goldencount.Start(t, "models", "crnn of odd sizes")
	g := golden.Load(t, "testdata/crnn.safetensors")
	for _, c := range []struct{ height, width int64 }{{32, 67}, {32, 126}, {32, 5}, {40, 64}, {17, 30}} {
		torch.ManualSeed(7)
		m, err := crnn.New(crnn.Config{Charset: r.Charset, ImageHeight: c.height, ImageWidth: c.width,
			RNNDim: 24})
		require.NoError(t, err)
		size := int(c.height * c.width)
		x := make([]float32, 2*size) // the formula of crnn.py
		for i := range x {
			x[i] = float32(uint32(i)*2654435761>>8)/(1<<23) - 1
		}
		task := crnn.NewTask(m)
		batch, err := task.Collate([]crnn.Sample{{Pixels: x[:size], Text: "a"}, {Pixels: x[size:], Text: "c"}})
		require.NoError(t, err)
		loss := task.Loss(engine.ForwardPass{}, batch)
		loss.Value.Backward()
		name := fmt.Sprintf("%dx%d.", c.height, c.width)
		golden.Recorded(t, name+"logits", m.Forward(torch.From(x, 2, 1, c.height, c.width)), g.Tensor(name+"logits"))
		golden.Recorded(t, name+"loss", loss.Value, g.Tensor(name+"loss"))
		golden.Recorded(t, name+"grad", m.Classifier.Bias.Grad(), g.Tensor(name+"grad"))
	}
}

func TestSavedModelLoads(t *testing.T) {
	_, m := load(t)
	dir := t.TempDir()
	if err := m.Save(dir); err != nil {
		t.Fatal(err)
	}
	again, err := crnn.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	a, b := nn.StateDict(m), nn.StateDict(again)
	for i := range a {
		golden.Bits(t, a[i].Name, b[i].Tensor, a[i].Tensor)
	}
}
