package tensorio_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/tensorio"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/torch"
)

func TestEveryDTypeSurvivesAFile(t *testing.T) {
	testenv.RequireTorch(t)
	path := filepath.Join(t.TempDir(), "x.safetensors")
	var named []torch.Named
	for _, d := range []torch.DType{torch.Bool, torch.Uint8, torch.Int8, torch.Int16, torch.Int32, torch.Int64,
		torch.Float16, torch.BFloat16, torch.Float32, torch.Float64, torch.Complex64} {
		named = append(named, torch.Named{Name: d.String(), Tensor: torch.Arange(6).View(2, 3).ToDType(d)})
	}
	named = append(named, torch.Named{Name: "scalar", Tensor: torch.ScalarTensor[float32](7)},
		torch.Named{Name: "empty", Tensor: torch.Zeros(0, 3)},
		torch.Named{Name: "strided", Tensor: torch.Arange(6).View(2, 3).T()})
	entries, err := tensorio.Entries(named)
	if err != nil {
		t.Fatal(err)
	}
	if err := safetensors.WriteFile(path, entries, map[string]string{"torch": "2.11"}); err != nil {
		t.Fatal(err)
	}
	var g *golden.File
	torch.Scope(func() { g = golden.Load(t, path) })
	if g.Metadata["torch"] != "2.11" || len(g.Names()) != len(named) {
		t.Errorf("metadata %v and names %q, want %d names", g.Metadata, g.Names(), len(named))
	}
	for _, n := range named {
		if g.Has(n.Name) {
			golden.Bits(t, n.Name, g.Tensor(n.Name), n.Tensor)
		} else {
			t.Errorf("%s is missing", n.Name)
		}
	}
	if g.Has("other") {
		t.Error("Has(other) is true")
	}
}

func TestTensorsThatFilesCannotHoldAreRefused(t *testing.T) {
	testenv.RequireTorch(t)
	for name, tensor := range map[string]torch.Tensor{"complex128": torch.From([]complex128{1}), "undefined": {}} {
		if _, err := tensorio.Entry(name, tensor); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("Entry(%s) = %v, want an error that names it", name, err)
		}
	}
}

func TestTensorsThatTorchCannotHaveAreRefused(t *testing.T) {
	testenv.RequireTorch(t)
	path := filepath.Join(t.TempDir(), "x.safetensors")
	entry := safetensors.Entry{Name: "scale", DType: safetensors.F8E8M0, Shape: []int64{2},
		Data: safetensors.Bytes([]byte{1, 2})}
	if err := safetensors.WriteFile(path, []safetensors.Entry{entry}, nil); err != nil {
		t.Fatal(err)
	}
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := tensorio.Read(f.Reader, "scale"); err == nil || !strings.Contains(err.Error(),
		`"scale" has dtype F8_E8M0`) {
		t.Errorf("Read(scale) = %v, want an error that names tensor and dtype", err)
	}
	if _, err := tensorio.Read(f.Reader, "other"); !errors.Is(err, safetensors.ErrNotFound) {
		t.Errorf("Read(other) = %v, want ErrNotFound", err)
	}
}

func TestFreedTensorsAreErrorsWhenTheirTurnComes(t *testing.T) {
	testenv.RequireTorch(t)
	w := torch.Ones(2)
	entry, err := tensorio.Entry("w", w)
	if err != nil {
		t.Fatal(err)
	}
	w.Free()
	err = safetensors.WriteFile(filepath.Join(t.TempDir(), "x.safetensors"), []safetensors.Entry{entry}, nil)
	if !errors.Is(err, torch.ErrFreed) || !strings.Contains(err.Error(), `tensor "w"`) {
		t.Errorf("got %v, want ErrFreed with the name", err)
	}
}
