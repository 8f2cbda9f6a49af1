package vision

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"
)

// TestProcessorEqualsHezar compares with recorded runs of Hezar 1.0.0's image processor under
// Pillow 13.
func TestProcessorEqualsHezar(t *testing.T) {
	const folder = "../../shared/conformance/cases/hezar_images"
	if _, err := os.Stat(folder); err != nil {
		t.Skipf("the recorded cases are not here: %v", err)
	}
	for part, want := range map[string]int{"real": 6, "synthetic": 15} {
		raw, err := os.ReadFile(filepath.Join(folder, part, "cases.json"))
		if err != nil {
			t.Fatal(err)
		}
		var index struct {
			Cases []struct {
				Case   string
				Config struct {
					GrayScale bool `json:"gray_scale"`
					Mirror    bool
					Size      []int
					Resample  *int
					Rescale   float64
					Mean, Std []float64
				}
			}
		}
		if err := json.Unmarshal(raw, &index); err != nil {
			t.Fatal(err)
		}
		tensors := readTensors(t, filepath.Join(folder, part, "case.safetensors"))
		ran := 0
		for _, c := range index.Cases {
			if c.Case == "three_rows_wide" {
				continue // Hezar mistakes three rows for three channels; this package uses the layout of the image
			}
			ran++
			t.Run(part+"/"+c.Case, func(t *testing.T) {
				in, out := tensors["in."+c.Case], tensors["out."+c.Case]
				o := ProcessorOptions{Gray: c.Config.GrayScale, Mirror: c.Config.Mirror, Rescale: c.Config.Rescale,
					Mean: c.Config.Mean, Std: c.Config.Std}
				o.Wrap8Bit = o.Rescale == 0 && len(o.Mean) > 0
				if len(c.Config.Size) == 2 {
					o.Width, o.Height = c.Config.Size[0], c.Config.Size[1]
				}
				if c.Config.Resample != nil {
					if o.Filter, err = FilterByNumber(*c.Config.Resample); err != nil {
						t.Fatal(err)
					}
				}
				p, err := NewProcessor(o)
				if err != nil {
					t.Fatal(err)
				}
				im := &Image{in.data, in.shape[1], in.shape[0], 3}
				got := make([]float32, p.Len(im))
				if err := p.Process(got, im); err != nil {
					t.Fatal(err)
				}
				if len(out.data) != 4*len(got) {
					t.Fatalf("%d values, Hezar has %d", len(got), len(out.data)/4)
				}
				for i, v := range got {
					if want := math.Float32frombits(binary.LittleEndian.Uint32(out.data[4*i:])); v != want {
						t.Fatalf("value %d is %v, Hezar has %v", i, v, want)
					}
				}
			})
		}
		if ran < want {
			t.Errorf("%s: ran %d cases, want at least %d", part, ran, want)
		}
	}
}

type tensor struct {
	shape []int
	data  []byte
}

// readTensors reads a valid safetensors file. It is here because this package imports no other
// package of the module.
func readTensors(t *testing.T, path string) map[string]tensor {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	n := binary.LittleEndian.Uint64(raw)
	var header map[string]json.RawMessage
	if err := json.Unmarshal(raw[8:8+n], &header); err != nil {
		t.Fatal(err)
	}
	out := map[string]tensor{}
	for name, entry := range header {
		if name == "__metadata__" {
			continue
		}
		var e struct {
			Shape       []int
			DataOffsets [2]int `json:"data_offsets"`
		}
		if err := json.Unmarshal(entry, &e); err != nil {
			t.Fatal(err)
		}
		out[name] = tensor{e.Shape, raw[8+int(n)+e.DataOffsets[0] : 8+int(n)+e.DataOffsets[1]]}
	}
	return out
}
