package engine_test

import (
	"path/filepath"
	"testing"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/safetensors/pickle"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// saveWeights writes the weights of a net whose biases all have the given value, as torch.save does
// or as safetensors.
func saveWeights(t *testing.T, path string, bias float64) {
	t.Helper()
	n := newNet()
	torch.NoGrad(func() { n.Out.Bias.Fill_(bias) })
	if filepath.Ext(path) == ".safetensors" {
		if err := nn.Save(path, n, nil); err != nil {
			t.Fatal(err)
		}
		return
	}
	var entries []safetensors.Entry
	for _, p := range nn.StateDict(n) {
		dtype := safetensors.F32
		if p.Tensor.DType() == torch.Int64 {
			dtype = safetensors.I64
		}
		entries = append(entries, safetensors.Entry{Name: p.Name, DType: dtype, Shape: p.Tensor.Shape(),
			Data: safetensors.Bytes(p.Tensor.Bytes())})
	}
	state, err := pickle.StateDict(entries)
	if err != nil {
		t.Fatal(err)
	}
	if err := pickle.WriteFile(path, state); err != nil {
		t.Fatal(err)
	}
}

func TestInitialWeightsComeFromFilesAndFolders(t *testing.T) {
	testenv.RequireTorch(t)
	dir, older := t.TempDir(), t.TempDir()
	saveWeights(t, filepath.Join(dir, "model.safetensors"), 1)
	saveWeights(t, filepath.Join(dir, "pytorch_model.bin"), 2)
	saveWeights(t, filepath.Join(older, "pytorch_model.bin"), 3)
	for claim, c := range map[string]struct {
		from string
		want float64
	}{
		"a safetensors file":                   {filepath.Join(dir, "model.safetensors"), 1},
		"a file of torch.save":                 {filepath.Join(dir, "pytorch_model.bin"), 2},
		"a folder with both: the safetensors":  {dir, 1},
		"a folder with pytorch_model.bin only": {older, 3},
	} {
		s := newStep(t, engine.Options{InitWeightsFrom: c.from})
		if got := s.Model().(*net).Out.Bias.Select(0, 0).Item(); got != c.want {
			t.Errorf("%s: the bias is %v, want %v", claim, got, c.want)
		}
	}
}
