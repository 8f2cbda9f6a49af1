package nn_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/gradcheck"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// notTheDerivative lists cases whose gradient intentionally is not the derivative, as in PyTorch.
var notTheDerivative = map[string]string{
	"gaussiannllloss_row":        "the limit of the variance is set outside of autograd",
	"embedding_padding":          "the padding row gets no gradient",
	"embedding_padding_negative": "the padding row gets no gradient",
	"embedding_scaled":           "gradients are divided by how often a row is used",
	"embedding_max_norm":         "rows are shortened in place before they are looked up",
	"embedding_max_norm_1":       "rows are shortened in place before they are looked up",
	"embeddingbag_frequency":     "gradients are divided by how often a row is used",
	"ctcloss_mean":               "libtorch's gradient takes for granted that the input is a log_softmax",
	"ctcloss_sum":                "as ctcloss_mean",
	"ctcloss_none":               "as ctcloss_mean",
	"ctcloss_options":            "as ctcloss_mean",
}

func TestGradientsAreFiniteDifferences(t *testing.T) {
	testenv.RequireTorch(t)
	files, err := filepath.Glob("testdata/layers/*.safetensors")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	checked := 0
	for i, path := range files {
		if testing.Short() && i%5 > 0 {
			continue
		}
		name := strings.TrimSuffix(filepath.Base(path), ".safetensors")
		if notTheDerivative[name] != "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			torch.Scope(func() {
				if checkGradients(t, golden.Load(t, path)) {
					checked++
				}
			})
		})
	}
	if checked < 300 && !testing.Short() {
		t.Errorf("%d cases have gradients, want 300 and more", checked)
	}
}

// checkGradients runs a case in float64 and reports whether it has gradients.
func checkGradients(t *testing.T, g *golden.File) bool {
	about := read[about]([]byte(g.Metadata["case"]))
	in := map[string]torch.Tensor{}
	for _, name := range g.Names() {
		if !strings.Contains(name, ".") {
			if in[name] = g.Tensor(name); in[name].DType().IsFloatingPoint() {
				in[name] = in[name].ToDType(torch.Float64)
			}
		}
	}
	m := build(about.Module, in)
	if _, err := nn.LoadStateDict(m, nn.Tensors(section(g, "state.")), nn.LoadOptions{}); err != nil {
		t.Fatal(err)
	}
	nn.To(m, torch.TensorOptions{DType: torch.Float64})
	if about.Module.Type == "SpectralNorm" {
		nn.SetTraining(m, false) // in training, every Forward updates the singular vectors
	}
	leaves := nn.Params(m)
	for _, name := range about.Inputs {
		if in[name].DType().IsFloatingPoint() {
			in[name] = in[name].Contiguous().RequiresGrad()
			leaves = append(leaves, torch.Named{Name: name, Tensor: in[name]})
		}
	}
	if len(leaves) == 0 || !g.Has("gy") || !forward(m, about, in)["y"].NeedsGrad() {
		return false
	}
	err := gradcheck.Check(func() []torch.Tensor {
		out := forward(m, about, in)
		return []torch.Tensor{out["y"], out["h"], out["c"]}
	}, leaves, gradcheck.Options{Seed: 13, Elements: 6})
	if err != nil {
		t.Error(err)
	}
	return true
}
