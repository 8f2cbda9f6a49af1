package main

import (
	"context"
	"io"
	"math"
	"path/filepath"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/data/idx"
	"github.com/gotrainer/gotrainer/data/table"
	"github.com/gotrainer/gotrainer/models/crnn"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/vision"
)

type workload struct {
	name          string
	batch         int
	warmup, steps int
	rate          float64
	hidden        int64
	train         func(o settings, w workload, r *recorder) error

	// Of the BERT workloads.
	layers, heads int64
	width         int     // of every batch; zero: that of its longest text
	dropout       float64 // unless -dropout says otherwise
	decay         bool    // the rate falls to zero, and gradients are clipped to norm 1
}

var workloads = map[string]workload{
	"mlp":      {name: "mlp", batch: 64, warmup: 100, steps: 1000, rate: 1e-3, hidden: 256, train: trainMLP},
	"mlp_tiny": {name: "mlp_tiny", batch: 16, warmup: 300, steps: 3000, rate: 1e-3, hidden: 32, train: trainMLP},
	"startup":  {name: "startup", batch: 64, warmup: 0, steps: 1, rate: 1e-3, hidden: 256, train: trainMLP},
	"crnn":     {name: "crnn", batch: 32, warmup: 3, steps: 20, rate: 1e-3, train: trainCRNN},
	"bert_small": {name: "bert_small", batch: 32, warmup: 3, steps: 30, rate: 1e-4, hidden: 256, train: trainBERT,
		layers: 4, heads: 4, dropout: 0.1, decay: true},
	"bert_base": {name: "bert_base", batch: 8, warmup: 1, steps: 5, rate: 5e-5, hidden: 768, train: trainBERT,
		layers: 12, heads: 12, width: 128, dropout: 0.1, decay: true},
}

const seed = 1234

// order is that of the peers: ten permutations, used in turn.
var order = data.OrderFunc(func(epoch, n int) []int { return data.Permutation(uint64(1000+epoch%10), n) })

// timed is an engine's step that tells the recorder of each update.
type timed[S, B any] struct {
	*engine.Step[S, B]
	r *recorder
}

func (t *timed[S, B]) Update(ctx context.Context, rate float64) (bool, error) {
	applied, err := t.Step.Update(ctx, rate)
	if err != nil || !t.r.wants() {
		t.r.updated(math.NaN())
		return applied, err
	}
	report, err := t.Step.Report(ctx)
	t.r.updated(report.LossSum)
	return applied, err
}

func fit[S, B any](o settings, w workload, r *recorder, task engine.Task[S, B], samples data.Dataset[S]) error {
	precision, err := amp.ParsePrecision(o.precision)
	if err != nil {
		return err
	}
	var schedule lr.Schedule = lr.Constant{}
	clip := -1. // no norm is computed
	if w.decay {
		schedule, clip = lr.Linear{}, 1
	}
	step, err := engine.New(task, engine.Options{
		Optimizer: optim.AdamW{LR: w.rate, WeightDecay: new(0.0)}, MaxGradNorm: clip, Precision: precision,
		InitWeightsFrom: o.init,
	})
	if err != nil {
		return err
	}
	t, err := trainer.New(&timed[S, B]{step, r}, trainer.Options{
		MaxSteps: w.warmup + w.steps, BatchSize: w.batch, DropLast: true, Order: order, Workers: 1, Seed: seed + 1,
		Schedule: schedule, Eval: trainer.Never, Save: trainer.Never, Log: trainer.Never, Progress: io.Discard,
	})
	if err != nil {
		return err
	}
	_, err = t.Fit(context.Background(), samples, nil)
	return err
}

type mlp struct {
	FC1 *nn.Linear `module:"fc1"`
	FC2 *nn.Linear `module:"fc2"`
	FC3 *nn.Linear `module:"fc3"`
}

func (m *mlp) Forward(x torch.Tensor) torch.Tensor {
	return m.FC3.Forward(m.FC2.Forward(m.FC1.Forward(x).ReLU()).ReLU())
}

func trainMLP(o settings, w workload, r *recorder) error {
	set, err := idx.Open(filepath.Join(o.data, "mnist", "train6k"))
	if err != nil {
		return err
	}
	samples := make(data.Slice[engine.Example], set.Len())
	for i := range samples {
		s, err := set.At(i)
		if err != nil {
			return err
		}
		x := make([]float32, len(s.Image))
		for j, v := range s.Image {
			x[j] = (float32(v)/255 - 0.1307) / 0.3081
		}
		samples[i] = engine.Example{Features: x, Class: int64(s.Label)}
	}
	torch.ManualSeed(seed)
	model := &mlp{nn.NewLinear(784, w.hidden, nil), nn.NewLinear(w.hidden, w.hidden, nil), nn.NewLinear(w.hidden, 10,
		nil)}
	return fit(o, w, r, engine.Classify(model), samples)
}

func trainCRNN(o settings, w workload, r *recorder) error {
	folder := filepath.Join(o.data, "cn_plates")
	charset, err := readCharset(filepath.Join(folder, "lprnet_charset.txt"))
	if err != nil {
		return err
	}
	torch.ManualSeed(seed)
	model, err := crnn.New(crnn.Config{Charset: charset})
	if err != nil {
		return err
	}
	model.UseChannelsLast()
	set, err := table.Open(filepath.Join(folder, "train.tsv"), table.Options{Header: true})
	if err != nil {
		return err
	}
	samples := make(data.Slice[crnn.Sample], set.Len())
	for i := range samples {
		row, err := set.At(i)
		if err != nil {
			return err
		}
		image, err := plate(row.Path)
		if err != nil {
			return err
		}
		pixels, err := model.Config().Pixels(image)
		if err != nil {
			return err
		}
		samples[i] = crnn.Sample{Pixels: pixels, Text: row.Label}
	}
	return fit(o, w, r, crnn.NewTask(model), samples)
}

// plate makes a picture 32 pixels high, its proportions kept, with black to the right.
func plate(path string) (*vision.Image, error) {
	image, err := vision.Open(path, vision.DecodeOptions{Gray: true})
	if err != nil {
		return nil, err
	}
	width := min(128, max(1, int(math.RoundToEven(float64(image.Width)*32/float64(image.Height)))))
	if image, err = image.Resized(width, 32, vision.Bilinear); err != nil {
		return nil, err
	}
	return image.Pad(0, 0, 128-width, 0, 0)
}
