package safetensors_test

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/gotrainer/gotrainer/safetensors"
)

// model returns as many small tensors as BERT-base has tensors.
func model() []safetensors.Entry {
	var entries []safetensors.Entry
	for i := range 200 {
		name := fmt.Sprintf("bert.encoder.layer.%d.attention.self.query.weight", i)
		entries = append(entries, safetensors.Entry{Name: name, DType: safetensors.F32, Shape: []int64{2, 2},
			Data: safetensors.Bytes(make([]byte, 16))})
	}
	return entries
}

func BenchmarkNewReader200(b *testing.B) {
	var file bytes.Buffer
	if err := safetensors.Write(&file, model(), nil); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := parse(file.Bytes()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkWrite200(b *testing.B) {
	entries := model()
	b.ReportAllocs()
	for b.Loop() {
		if err := safetensors.Write(io.Discard, entries, nil); err != nil {
			b.Fatal(err)
		}
	}
}
