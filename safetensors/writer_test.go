package safetensors_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/safetensors"
	"pgregory.net/rapid"
)

func TestWriteRefuses(t *testing.T) {
	entry := func(name string, d safetensors.DType, data []byte, shape ...int64) safetensors.Entry {
		return safetensors.Entry{Name: name, DType: d, Shape: shape, Data: safetensors.Bytes(data)}
	}
	u8 := entry("a", safetensors.U8, []byte{1}, 1)
	for _, c := range []struct {
		name    string
		entries []safetensors.Entry
		meta    map[string]string
		want    string
	}{
		{"two tensors of one name", []safetensors.Entry{u8, entry("a", safetensors.F32, nil, 0)}, nil,
			"two entries have this name"},
		{"the reserved name", []safetensors.Entry{entry("__metadata__", safetensors.U8, nil, 0)}, nil, "reserved"},
		{"a name that is not UTF-8", []safetensors.Entry{entry("\xff", safetensors.U8, nil, 0)}, nil, "UTF-8"},
		{"metadata that is not UTF-8", nil, map[string]string{"k": "\xff"}, "UTF-8"},
		{"no dtype", []safetensors.Entry{entry("a", 0, nil, 0)}, nil, "unknown dtype"},
		{"a negative dimension", []safetensors.Entry{entry("a", safetensors.U8, nil, -1)}, nil, "negative"},
		{"too few bytes", []safetensors.Entry{entry("a", safetensors.U8, []byte{1}, 2)}, nil, "1 of 2 are missing"},
		{"too many bytes", []safetensors.Entry{entry("a", safetensors.U8, []byte{1, 2}, 1)}, nil,
			"2 bytes where 1 are left"},
		{"a shape that overflows", []safetensors.Entry{entry("a", safetensors.U8, nil, 1<<62, 4)}, nil, "63 bits"},
		{"tensors that overflow together", []safetensors.Entry{entry("a", safetensors.U8, nil, 1<<60),
			entry("b", safetensors.F64, nil, 1<<57), entry("c", safetensors.F64, nil, 1<<60-1)}, nil, "63 bits"},
		{"no data", []safetensors.Entry{{Name: "a", DType: safetensors.U8}}, nil, "Entry.Data is nil"},
		{"a header beyond the limit", nil, map[string]string{"k": strings.Repeat("a", safetensors.MaxHeader)},
			"larger than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := safetensors.Write(io.Discard, c.entries, c.meta); err == nil || !strings.Contains(err.Error(),
				c.want) {
				t.Errorf("Write = %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestWriteFileKeepsTheOldFileWhenItFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.safetensors")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("device lost")
	for name, data := range map[string]func(io.Writer) error{
		"an error":      func(io.Writer) error { return broken },
		"missing bytes": func(io.Writer) error { return nil },
	} {
		err := safetensors.WriteFile(path, []safetensors.Entry{{Name: "a", DType: safetensors.U8, Shape: []int64{1},
			Data: data}}, nil)
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("WriteFile after %s = %v, want an error that names the path", name, err)
		}
		if text, _ := os.ReadFile(path); string(text) != "old" {
			t.Errorf("after %s the file holds %q, want the old one", name, text)
		}
	}
	func() {
		defer func() { _ = recover() }()
		_ = safetensors.WriteFile(path, []safetensors.Entry{{Name: "a", DType: safetensors.U8,
			Data: func(io.Writer) error { panic("bug") }}}, nil)
	}()
	if names, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); len(names) > 0 {
		t.Errorf("left behind: %v", names)
	}
}

func TestWriteFileReplaces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.safetensors")
	for _, want := range []byte{1, 2} {
		err := safetensors.WriteFile(path, []safetensors.Entry{{Name: "a", DType: safetensors.U8,
			Data: safetensors.Bytes([]byte{want})}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		f, err := safetensors.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := f.Read("a"); err != nil || got[0] != want {
			t.Errorf("Read = %v, %v, want %d", got, err, want)
		}
		f.Close()
	}
}

// drawEntries draws up to eight tensors with random types, shapes and names.
func drawEntries(t *rapid.T) []safetensors.Entry {
	names := rapid.SliceOfNDistinct(rapid.String(), 0, 8, rapid.ID[string]).Draw(t, "names")
	var entries []safetensors.Entry
	for i, name := range names {
		if name == "__metadata__" {
			continue
		}
		d := safetensors.DType(rapid.IntRange(int(safetensors.Bool), int(safetensors.U64)).Draw(t, "dtype"))
		shape := rapid.SliceOfN(rapid.Int64Range(0, 5), 0, 3).Draw(t, "shape")
		if d.Bits() < 8 {
			shape = append(shape, 4) // so that the size is a whole number of bytes
		}
		n := safetensors.Tensor{Shape: shape}.Elements() * int64(d.Bits()) / 8
		data := bytes.Repeat([]byte{byte(i + 1)}, int(n))
		entries = append(entries, safetensors.Entry{Name: name, DType: d, Shape: shape, Data: safetensors.Bytes(data)})
	}
	return entries
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := drawEntries(t)
		meta := rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "metadata")
		var file, shuffled bytes.Buffer
		if err := safetensors.Write(&file, entries, meta); err != nil {
			t.Fatal(err)
		}
		slices.Reverse(entries)
		if err := safetensors.Write(&shuffled, entries, meta); err != nil || !bytes.Equal(file.Bytes(),
			shuffled.Bytes()) {
			t.Fatalf("the file depends on the order of the entries (%v)", err)
		}
		r, err := parse(file.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(r.Metadata()) != fmt.Sprint(meta) {
			t.Fatalf("Metadata() = %q, want %q", r.Metadata(), meta)
		}
		if len(r.Tensors()) != len(entries) {
			t.Fatalf("%d tensors, want %d", len(r.Tensors()), len(entries))
		}
		for _, e := range entries {
			got, _ := r.Tensor(e.Name)
			if got.DType != e.DType || !slices.Equal(got.Shape, e.Shape) {
				t.Fatalf("Tensor(%q) = %+v, want %v%v", e.Name, got, e.DType, e.Shape)
			}
			if e.DType.Bits() >= 8 && got.Size > 0 && got.Offset%int64(e.DType.Bits()/8) != 0 {
				t.Fatalf("Tensor(%q) is at %d, which is not aligned for %v", e.Name, got.Offset, e.DType)
			}
			var want bytes.Buffer
			_ = e.Data(&want)
			if data, err := r.Read(e.Name); err != nil || !bytes.Equal(data, want.Bytes()) {
				t.Fatalf("Read(%q) = %v, %v, want %v", e.Name, data, err, want.Bytes())
			}
		}
	})
}
