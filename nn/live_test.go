package nn_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

func TestForwardLeavesNothingButItsResults(t *testing.T) {
	testenv.RequireTorch(t)
	files, err := filepath.Glob("testdata/layers/*.safetensors")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".safetensors"), func(t *testing.T) {
			torch.Scope(func() {
				g := golden.Load(t, path)
				about := read[about]([]byte(g.Metadata["case"]))
				in := map[string]torch.Tensor{}
				for _, name := range g.Names() {
					if !strings.Contains(name, ".") {
						in[name] = g.Tensor(name)
					}
				}
				m := build(about.Module, in)
				nn.SetTraining(m, false)
				torch.NoGrad(func() {
					before := torch.Live()
					results := int64(0)
					for _, y := range forward(m, about, in) {
						results++
						for _, x := range in {
							if y.Is(x) {
								results-- // not a new tensor
							}
						}
					}
					if left := torch.Live() - before; left > results {
						t.Errorf("%d tensors are left, want %d", left, results)
					}
				})
			})
		})
	}
}
