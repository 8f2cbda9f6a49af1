package tensorio_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/tensorio"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

func TestWhatSaveWritesLoadReads(t *testing.T) {
	testenv.RequireTorch(t)
	torch.Scope(func() {
		want := []torch.Named{{Name: "a", Tensor: torch.Arange(6).View(2, 3)},
			{Name: "b", Tensor: torch.From([]float32{1.5})}}
		path := filepath.Join(t.TempDir(), "x.safetensors")
		if err := tensorio.Save(path, want, map[string]string{"updates": "7"}); err != nil {
			t.Fatal(err)
		}
		got, metadata, err := tensorio.Load(path)
		if err != nil || len(got) != 2 || metadata["updates"] != "7" {
			t.Fatalf("%d tensors, metadata %v, %v", len(got), metadata, err)
		}
		for _, g := range got {
			for _, w := range want {
				if g.Name == w.Name {
					golden.Bits(t, g.Name, g.Tensor, w.Tensor)
				}
			}
		}
	})
}

func TestATensorThatCannotBeReadFreesTheOthers(t *testing.T) {
	testenv.RequireTorch(t)
	path := filepath.Join(t.TempDir(), "x.safetensors")
	torch.Scope(func() {
		if err := tensorio.Save(path, []torch.Named{{Name: "a", Tensor: torch.Zeros(2)},
			{Name: "b", Tensor: torch.Zeros(2)}}, nil); err != nil {
			t.Fatal(err)
		}
	})
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// Change the type of the second tensor to one of the same size that tensors cannot have.
	at := bytes.LastIndex(text, []byte(`"F32"`))
	copy(text[at:], `"U32"`)
	if err := os.WriteFile(path, text, 0o666); err != nil {
		t.Fatal(err)
	}
	before := testenv.Live()
	if ts, _, err := tensorio.Load(path); err == nil || torch.Live() != before {
		t.Errorf("%d tensors, error %v, and %d tensors more are alive; want an error and none", len(ts), err,
			torch.Live()-before)
	}
}

func TestCreateReturnsWhatTheWriterSays(t *testing.T) {
	failed := errors.New("failed")
	if err := tensorio.Create(filepath.Join(t.TempDir(), "x"), func(io.Writer) error { return failed }); !errors.Is(err,
		failed) {
		t.Errorf("error %v, want %v", err, failed)
	}
	if err := tensorio.Create(filepath.Join(t.TempDir(), "no", "x"),
		func(io.Writer) error { return nil }); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want that the folder is not there", err)
	}
}

func TestEachCallsForAllAndEndsWithTheFirstError(t *testing.T) {
	failed := errors.New("failed")
	for _, goroutines := range []int{0, 1, 3, 100} {
		var seen [20]bool
		if err := tensorio.Each(goroutines, len(seen), func(i int) error { seen[i] = true; return nil }); err != nil ||
			seen != [20]bool{0: true, true, true, true, true, true, true, true, true, true, true, true, true, true, true,
				true, true, true, true, true} {
			t.Errorf("%d goroutines: error %v, seen %v", goroutines, err, seen)
		}
		if err := tensorio.Each(goroutines, 20, func(int) error { return failed }); !errors.Is(err, failed) {
			t.Errorf("%d goroutines: error %v, want %v", goroutines, err, failed)
		}
		if err := tensorio.Each(goroutines, 0, func(int) error { return failed }); err != nil {
			t.Errorf("%d goroutines, nothing to do: %v", goroutines, err)
		}
	}
}
