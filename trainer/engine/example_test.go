package engine_test

import (
	"context"
	"fmt"
	"io"
	"log"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// line is y = w*x + b.
func newLine() *nn.Linear {
	l := nn.NewLinear(1, 1, nil)
	torch.NoGrad(func() { l.Weight.Zero_(); l.Bias.Zero_() })
	return l
}

// points lie on y = 2x + 1; the last is far from it.
var points = data.Slice[[2]float32]{{0, 1}, {1, 3}, {2, 5}, {3, 7}, {4, 90}}

type pointBatch struct{ x, y []float32 }

func collatePoints(ps [][2]float32) (b pointBatch, err error) {
	for _, p := range ps {
		b.x, b.y = append(b.x, p[0]), append(b.y, p[1])
	}
	return b, nil
}

func predictPoints(l *nn.Linear) func(p engine.ForwardPass, b pointBatch) engine.Outputs {
	return func(p engine.ForwardPass, b pointBatch) engine.Outputs {
		n := int64(len(b.x))
		return engine.Outputs{
			Logits: []torch.Tensor{l.Forward(engine.Input(p, b.x, n, 1))},
			Labels: []torch.Tensor{engine.Input(p, b.y, n, 1)}, Rows: len(b.x),
		}
	}
}

func squares(_ engine.ForwardPass, o engine.Outputs) engine.Loss {
	return engine.Mean(o.Logits[0].MSELoss(o.Labels[0], torch.ReductionMean), o.Rows)
}

// fitPoints trains and shows what was learnt.
func fitPoints(step *engine.Step[[2]float32, pointBatch], l *nn.Linear) {
	t, err := trainer.New(step, trainer.Options{Epochs: 300, BatchSize: 5, Order: data.Sequential{},
		Progress: io.Discard})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := t.Fit(context.Background(), points, nil); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("y = %.1f x + %.1f\n", l.Weight.Item(), l.Bias.Item())
}

// A loss of your own instead of the model's: compute_loss_func. The absolute error does not mind
// the outlier.
func ExampleOptions_loss() {
	l := newLine()
	step, err := engine.New(engine.PredictFunc(l, collatePoints, predictPoints(l), squares), engine.Options{
		Optimizer: optim.SGD{LR: 0.2},
		Loss: func(_ engine.ForwardPass, o engine.Outputs) engine.Loss {
			return engine.Mean(o.Logits[0].L1Loss(o.Labels[0], torch.ReductionMean), o.Rows)
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	fitPoints(step, l)
	// Output: y = 2.0 x + 1.0
}

// The Trainer guide's weighted loss: 3 labels with different weights, in Python a compute_loss of
// its own.
func ExampleOptions_weightedLoss() {
	torch.ManualSeed(1)
	model := nn.Sequential{nn.NewLinear(1, 3, nil)}
	weight := torch.From([]float32{1, 2, 3})
	step, err := engine.New(engine.Classify(model), engine.Options{
		Optimizer: optim.AdamW{LR: 0.1},
		Loss: func(_ engine.ForwardPass, o engine.Outputs) engine.Loss { // logits and labels are outputs.logits, labels
			return engine.Mean(o.Logits[0].CrossEntropyLoss(o.Labels[0], weight.ToDevice(o.Logits[0].Device()),
				torch.ReductionMean, engine.IgnoreIndex, 0), o.Rows)
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	three := data.Slice[data.Example]{{Features: []float32{-1}, Class: 0}, {Features: []float32{0}, Class: 1},
		{Features: []float32{1}, Class: 2}}
	t, err := trainer.New(step, trainer.Options{Epochs: 200, Progress: io.Discard})
	if err != nil {
		log.Fatal(err)
	}
	result, err := t.Fit(context.Background(), three, three)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("accuracy %.2f\n", result.Best.Metrics["eval_accuracy"])
	// Output: accuracy 1.00
}

// carefulTask has a training step of its own: training_step. It leaves the worst point of each
// batch out.
type carefulTask struct {
	engine.Task[[2]float32, pointBatch]
	line *nn.Linear
}

func (c carefulTask) TrainingStep(t engine.Training[pointBatch], b pointBatch) torch.Tensor {
	var loss engine.Loss
	t.Autocast(func() {
		o := predictPoints(c.line)(t.ForwardPass, b)
		each := o.Logits[0].MSELoss(o.Labels[0], torch.ReductionNone).View(-1)
		best, _ := each.TopK(int64(o.Rows-1), 0, false, true)
		loss = engine.Mean(best.Mean(torch.DefaultDType), o.Rows)
	})
	return t.Backward(loss)
}

func ExampleTrainingStepper() {
	l := newLine()
	task := carefulTask{engine.PredictFunc(l, collatePoints, predictPoints(l), squares), l}
	step, err := engine.New(task, engine.Options{Optimizer: optim.AdamW{LR: 0.2}})
	if err != nil {
		log.Fatal(err)
	}
	fitPoints(step, l)
	// Output: y = 2.0 x + 1.0
}

// An optimizer for each part of the model: create_optimizer. Groups give parts rates of their own;
// here the bias learns ten times as fast.
func ExampleOptions_groups() {
	l := newLine()
	builder, err := optim.ByName("sgd", optim.Arguments{LearningRate: 0.01, OptimArgs: "momentum=0.9"})
	if err != nil {
		log.Fatal(err)
	}
	step, err := engine.New(engine.PredictFunc(l, collatePoints, predictPoints(l), squares), engine.Options{
		Optimizer: builder,
		Groups: func(_ any, params []torch.Named) []optim.Group {
			return []optim.Group{{Params: params[:1]}, {Params: params[1:], LRScale: 10}}
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, g := range step.Optimizer().Groups() {
		fmt.Println(g.Params[0].Name, g.LRScale)
	}
	// Output:
	// weight 1
	// bias 10
}

// Metrics over all predictions of an evaluation: compute_metrics.
func ExampleOptions_computeMetrics() {
	l := newLine()
	step, err := engine.New(engine.PredictFunc(l, collatePoints, predictPoints(l), squares), engine.Options{
		ComputeMetrics: func(p *engine.Predictions) (map[string]float64, error) {
			off := p.Logits[0].Sub(p.Labels[0]).Abs()
			return map[string]float64{"largest_error": off.Max().Item()}, nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	t, err := trainer.New(step, trainer.Options{EvalBatchSize: 2, Progress: io.Discard})
	if err != nil {
		log.Fatal(err)
	}
	m, err := t.Evaluate(context.Background(), points)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(m["largest_error"], m["loss"])
	// Output: 90 1636.8
}

// A small training set in the device's memory, if it takes no more than a GiB: a step sends the
// indices of its samples only. Device is that of torch.ParseDevice("auto") in a program; here it is
// the CPU.
func ExampleOptions_datasetOnDevice() {
	l := newLine()
	step, err := engine.New(engine.PredictFunc(l, collatePoints, predictPoints(l), squares),
		engine.Options{Optimizer: optim.SGD{LR: 0.1}, DatasetOnDevice: 1 << 30})
	if err != nil {
		log.Fatal(err)
	}
	t, err := trainer.New(step, trainer.Options{Epochs: 200, Progress: io.Discard})
	if err != nil {
		log.Fatal(err)
	}
	if _, err = t.Fit(context.Background(), points[:4], nil); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("y = %.1f x + %.1f\n", l.Weight.Item(), l.Bias.Item())
	// Output: y = 2.0 x + 1.0
}

// The predictions themselves.
func ExampleStep_Predictions() {
	l := newLine()
	step, err := engine.New(engine.PredictFunc(l, collatePoints, predictPoints(l), squares), engine.Options{})
	if err != nil {
		log.Fatal(err)
	}
	t, err := trainer.New(step, trainer.Options{EvalBatchSize: 2, Progress: io.Discard})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := t.Predict(context.Background(), points, ""); err != nil {
		log.Fatal(err)
	}
	p := step.Predictions()
	fmt.Println(p.Rows, torch.Values[float32](p.Logits[0]), torch.Values[float32](p.Labels[0]))
	// Output: 5 [0 0 0 0 0] [1 3 5 7 90]
}
