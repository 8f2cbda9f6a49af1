package tensorio_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/gotrainer/gotrainer/internal/tensorio"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

// state returns 256 MB of weights, in tensors of the size in a small BERT.
func state() []torch.Named {
	var list []torch.Named
	for i := range 64 {
		list = append(list, torch.Named{Name: fmt.Sprint("layer.", i, ".weight"), Tensor: torch.Ones(1024,
			1024).Keep()})
	}
	return list
}

// The files are in the page cache, so this measures our work and the kernel's copy.
func BenchmarkSave256MB(b *testing.B) {
	testenv.RequireTorch(b)
	list := state()
	defer tensorio.Free(list)
	path := filepath.Join(b.TempDir(), "x.safetensors")
	b.SetBytes(256 << 20)
	b.ReportAllocs()
	defer cpu(b)()
	for b.Loop() {
		if err := tensorio.Save(path, list, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLoad256MB(b *testing.B) {
	testenv.RequireTorch(b)
	list := state()
	path := filepath.Join(b.TempDir(), "x.safetensors")
	if err := tensorio.Save(path, list, nil); err != nil {
		b.Fatal(err)
	}
	tensorio.Free(list)
	b.SetBytes(256 << 20)
	b.ReportAllocs()
	defer cpu(b)()
	for b.Loop() {
		list, _, err := tensorio.Load(path)
		if err != nil {
			b.Fatal(err)
		}
		tensorio.Free(list)
	}
}
