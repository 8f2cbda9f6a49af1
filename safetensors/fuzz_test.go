package safetensors_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/gotrainer/gotrainer/safetensors"
)

// FuzzReader checks that every file that the reader accepts can be written again with the same
// content.
func FuzzReader(f *testing.F) {
	for _, name := range []string{"testdata/golden.safetensors", "testdata/empty.safetensors"} {
		file, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(file)
	}
	f.Add(raw(i32x22, 16))
	f.Add(raw(two+"[2,4]}}", 4))
	f.Add(raw(`{"__metadata__":{"\ud83d\ude00":"\u0000"},"a":{"dtype":"F4","shape":[2,0],"data_offsets":[0,0]}}`, 0))
	f.Fuzz(func(t *testing.T, file []byte) {
		r, err := parse(file)
		if err != nil {
			return
		}
		var entries []safetensors.Entry
		covered := int64(0)
		for _, tensor := range r.Tensors() {
			data, err := r.Read(tensor.Name)
			if err != nil {
				t.Fatalf("Read(%q): %v", tensor.Name, err)
			}
			covered += int64(len(data))
			entries = append(entries, safetensors.Entry{Name: tensor.Name, DType: tensor.DType, Shape: tensor.Shape,
				Data: safetensors.Bytes(data)})
		}
		if covered > int64(len(file)) {
			t.Fatalf("tensors of %d bytes in a file of %d", covered, len(file))
		}
		var again bytes.Buffer
		if err := safetensors.Write(&again, entries, r.Metadata()); err != nil {
			t.Fatalf("cannot write what was read: %v", err)
		}
		second, err := parse(again.Bytes())
		if err != nil {
			t.Fatalf("cannot read what was written: %v", err)
		}
		for _, e := range entries {
			want, _ := r.Read(e.Name)
			if got, err := second.Read(e.Name); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("Read(%q) = %v, %v, want %v", e.Name, got, err, want)
			}
		}
	})
}
