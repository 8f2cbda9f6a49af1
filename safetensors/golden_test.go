package safetensors_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gotrainer/gotrainer/safetensors"
)

// counting returns n bytes that cycle through 0, 1, 2, ... below limit.
func counting(n, limit int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i % limit)
	}
	return b
}

// goldenEntries are the tensors of testdata/golden.py.
func goldenEntries() []safetensors.Entry {
	var entries []safetensors.Entry
	add := func(name string, d safetensors.DType, raw []byte, shape ...int64) {
		entries = append(entries, safetensors.Entry{Name: name, DType: d, Shape: shape, Data: safetensors.Bytes(raw)})
	}
	add("bool", safetensors.Bool, counting(6, 2), 2, 3)
	for name, d := range map[string]safetensors.DType{ // in random order: the writer sorts
		"u8": safetensors.U8, "i8": safetensors.I8, "f8_e5m2": safetensors.F8E5M2, "f8_e4m3": safetensors.F8E4M3,
		"f8_e8m0": safetensors.F8E8M0, "f8_e4m3fnuz": safetensors.F8E4M3FNUZ, "f8_e5m2fnuz": safetensors.F8E5M2FNUZ,
		"i16": safetensors.I16, "u16": safetensors.U16, "f16": safetensors.F16, "bf16": safetensors.BF16,
		"i32": safetensors.I32, "u32": safetensors.U32, "f32": safetensors.F32, "c64": safetensors.C64,
		"f64": safetensors.F64, "i64": safetensors.I64, "u64": safetensors.U64,
	} {
		add(name, d, counting(6*d.Bits()/8, 256), 2, 3)
	}
	add("scalar", safetensors.F32, []byte{0, 0, 0xc0, 0x3f})
	add("none", safetensors.F32, nil, 2, 0)
	for _, name := range []string{`quote"back\slash/`, "tab\tnew\nline\r\b\f\x01\x1f\x7f", "فارسی", "😀", "\u2028<&>",
		""} {
		add(name, safetensors.F32, []byte{0, 0, 0, 0, 0, 0, 0x80, 0x3f, 0, 0, 0, 0x40}, 3)
	}
	return entries
}

func TestWriteMatchesPythonByteForByte(t *testing.T) {
	for _, c := range []struct {
		file     string
		entries  []safetensors.Entry
		metadata map[string]string
	}{
		{"golden.safetensors", goldenEntries(), map[string]string{"format": "pt"}},
		{"empty.safetensors", nil, nil},
	} {
		want, err := os.ReadFile(filepath.Join("testdata", c.file))
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		if err := safetensors.Write(&got, c.entries, c.metadata); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.Bytes()); diff != "" {
			t.Errorf("Write differs from Python's %s (-python +go):\n%s", c.file, diff)
		}
	}
}

func TestReadsPythonsFile(t *testing.T) {
	f, err := safetensors.Open("testdata/golden.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if diff := cmp.Diff(map[string]string{"format": "pt"}, f.Metadata()); diff != "" {
		t.Errorf("Metadata() (-want +got):\n%s", diff)
	}
	entries := goldenEntries()
	if got, want := len(f.Tensors()), len(entries); got != want {
		t.Errorf("len(Tensors()) = %d, want %d", got, want)
	}
	for _, e := range entries {
		got, ok := f.Tensor(e.Name)
		if !ok {
			t.Errorf("Tensor(%q) not found", e.Name)
			continue
		}
		if got.DType != e.DType || fmt.Sprint(got.Shape) != fmt.Sprint(e.Shape) {
			t.Errorf("Tensor(%q) = %v%v, want %v%v", e.Name, got.DType, got.Shape, e.DType, e.Shape)
		}
		var want bytes.Buffer
		if err := e.Data(&want); err != nil {
			t.Fatal(err)
		}
		raw, err := f.Read(e.Name)
		if err != nil || !bytes.Equal(raw, want.Bytes()) {
			t.Errorf("Read(%q) = %v, %v, want %v", e.Name, raw, err, want.Bytes())
		}
	}
}
