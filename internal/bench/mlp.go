package main

import (
	"path/filepath"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/data/idx"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

type mlp struct {
	FC1 *nn.Linear `module:"fc1"`
	FC2 *nn.Linear `module:"fc2"`
	FC3 *nn.Linear `module:"fc3"`
}

func newMLP(hidden int64) *mlp {
	return &mlp{nn.NewLinear(784, hidden, nil), nn.NewLinear(hidden, hidden, nil), nn.NewLinear(hidden, 10, nil)}
}

func (m *mlp) Forward(x torch.Tensor) torch.Tensor {
	return m.FC3.Forward(m.FC2.Forward(m.FC1.Forward(x).ReLU()).ReLU())
}

func trainMLP(o settings, w workload, r *recorder) error {
	set, err := idx.Open(filepath.Join(o.data, "mnist", "train6k"))
	if err != nil {
		return err
	}
	samples := make(data.Slice[data.Example], set.Len())
	for i := range samples {
		s, err := set.At(i)
		if err != nil {
			return err
		}
		x := make([]float32, len(s.Image))
		for j, v := range s.Image {
			x[j] = (float32(v)/255 - 0.1307) / 0.3081
		}
		samples[i] = data.Example{Features: x, Class: int64(s.Label)}
	}
	torch.ManualSeed(seed)
	return fit(o, w, r, engine.Classify(newMLP(w.hidden)), samples)
}
