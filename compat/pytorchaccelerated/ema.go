package pytorchaccelerated

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"

	"github.com/gotrainer/gotrainer/internal/tensorio"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/torch"
)

// ModelEMA keeps an exponential moving average of the parameters and buffers of the model,
// evaluates it after each evaluation epoch, and saves the best one. The weights of the run itself
// do not change, not even at its end.
//
// Put it after callbacks that change state, such as metrics, and before callbacks that read it,
// such as loggers.
type ModelEMA struct {
	Decay           *float64 // weight of the old average at each update; nil: 0.99
	NoEvaluation    bool     // evaluate_during_training=False: save the average after each epoch, however good it is
	SavePath        string   // empty: "ema_model.pt"
	WatchMetric     string   // empty: "ema_model_eval_loss_epoch"
	GreaterIsBetter bool
	UpdateEvery     int   // updates of the optimizer between two updates of the average; zero: an epoch, as in Python
	Callbacks       []any // for the evaluation of the average

	watched
	average  []torch.Named // stored in a separate file of a training state
	restored bool
}

const emaPrefix = "ema_model_"

// Average returns the averaged tensors under the names of the model's tensors, to load into
// another model with nn.LoadStateDict. The next update changes them.
func (e *ModelEMA) Average() []torch.Named { return e.average }

// Best returns the best value of the watched metric so far and its epoch; ok is false before the
// first.
func (e *ModelEMA) Best() (value float64, epoch int, ok bool) { return e.best() }

// prepareState creates the average before a training state may be loaded into it.
func (e *ModelEMA) prepareState(r *Run) error {
	if d := e.decay(); !(d >= 0 && d <= 1) || e.UpdateEvery < 0 {
		return fmt.Errorf("pytorchaccelerated: ModelEMA: its Decay is %v and its UpdateEvery %d: want a Decay "+
			"between 0 and 1, and 0 updates or more", d, e.UpdateEvery)
	}
	if err := checkCallbacks(e.Callbacks, nil); err != nil {
		return fmt.Errorf("ModelEMA: %w", err)
	}
	e.restored = false
	e.copyWeights(r)
	if !r.rules.ForgetCallbacksAtResume {
		r.accelerator.RegisterForCheckpointing((*averageState)(e))
	}
	return nil
}

func (e *ModelEMA) copyWeights(r *Run) {
	tensorio.Free(e.average)
	e.average = copies(nn.StateDict(r.model))
}

// copies returns copies of tensors, detached and kept.
func copies(of []torch.Named) []torch.Named {
	return detached(of, torch.Tensor.Clone)
}

// detached applies f to the detached tensors and keeps the results.
func detached(of []torch.Named, f func(torch.Tensor) torch.Tensor) (out []torch.Named) {
	torch.NoGrad(func() {
		for _, t := range of {
			out = append(out, torch.Named{Name: t.Name, Tensor: f(t.Tensor.Detach()).Keep()})
		}
	})
	return out
}

// OnTrainingRunStart starts with the weights of the model, or with the average of the resumed run.
func (e *ModelEMA) OnTrainingRunStart(r *Run) error {
	if !e.restored {
		e.copyWeights(r)
	}
	return nil
}

func (e *ModelEMA) OnUpdateEnd(r *Run) error {
	if e.UpdateEvery > 0 && r.Updates()%e.UpdateEvery == 0 {
		e.update(r)
	}
	return nil
}

func (e *ModelEMA) OnTrainEpochEnd(r *Run) error {
	if e.UpdateEvery == 0 {
		e.update(r)
	}
	return nil
}

func (e *ModelEMA) decay() float64 { return *cmp.Or(e.Decay, new(0.99)) }

// update sets average = decay*average + (1-decay)*weights.
func (e *ModelEMA) update(r *Run) {
	decay := e.decay()
	torch.NoGrad(func() {
		torch.Scope(func() {
			for i, t := range nn.StateDict(r.model) {
				average := e.average[i].Tensor
				if !t.Tensor.DType().IsFloatingPoint() && !r.rules.EMAOfIntegers {
					average.Copy_(t.Tensor)
					continue
				}
				average.Copy_(average.MulScalar(decay).Add(t.Tensor.MulScalar(1 - decay)))
			}
		})
	})
}

// with runs f while the model uses the averages as its weights. It swaps the storage of the tensors
// rather than copying into them, because the graph of a batch may still need the old values.
func (e *ModelEMA) with(r *Run, f func() error) (err error) {
	weights := nn.StateDict(r.model)
	own, averages := detached(weights, func(t torch.Tensor) torch.Tensor { return t }), copies(e.average)
	put := func(from []torch.Named) {
		for i, t := range weights {
			t.Tensor.SetData_(from[i].Tensor)
		}
	}
	put(averages)
	defer func() {
		if err != nil && r.rules.EMAStaysAfterError {
			setRequiresGrad(nn.Params(r.model), false)
		} else {
			put(own)
		}
		tensorio.Free(own)
		tensorio.Free(averages)
	}()
	return f()
}

// OnEvalEpochEnd evaluates the average. Its metrics are recorded with the prefix "ema_model_".
func (e *ModelEMA) OnEvalEpochEnd(r *Run, epoch EvalEpoch) error {
	if e.NoEvaluation || epoch.Evaluation && !r.rules.EMAInEvaluate {
		return nil
	}
	if e.average == nil {
		return errors.New("there is no average to evaluate before the first training run")
	}
	r.Print("Running evaluation on EMA model")
	return e.with(r, func() error {
		own, prefix := r.callbacks, r.history.MetricNamePrefix()
		r.callbacks = e.Callbacks
		r.history.SetMetricNamePrefix(emaPrefix)
		defer func() {
			r.callbacks = own
			r.history.SetMetricNamePrefix(prefix)
		}()
		return r.EvaluateNow(EvalEpoch{})
	})
}

// OnTrainingRunEpochEnd saves the average after every epoch or, by default, if it is the best so
// far.
func (e *ModelEMA) OnTrainingRunEpochEnd(r *Run) error {
	best := SaveBestModel{SavePath: cmp.Or(e.SavePath, "ema_model.pt"), NoOptimizer: true, watched: e.watched,
		WatchMetric: cmp.Or(e.WatchMetric, emaPrefix+"eval_loss_epoch"), GreaterIsBetter: e.GreaterIsBetter}
	defer func() { e.watched = best.watched }()
	return e.with(r, func() error {
		if !e.NoEvaluation {
			return best.OnTrainingRunEpochEnd(r)
		}
		return r.SaveCheckpoint(best.SavePath, CheckpointOptions{NoOptimizer: true})
	})
}

// averageState is the average as part of a training state.
type averageState ModelEMA

func (a *averageState) MarshalState() ([]byte, error) {
	entries, err := tensorio.Entries(a.average)
	if err != nil {
		return nil, err
	}
	var file bytes.Buffer
	err = safetensors.Write(&file, entries, nil)
	return file.Bytes(), err
}

func (a *averageState) UnmarshalState(state []byte) error {
	f, err := safetensors.NewReader(bytes.NewReader(state), int64(len(state)))
	if err != nil {
		return err
	}
	for _, t := range a.average {
		if err := tensorio.ReadInto(t.Tensor, f, t.Name); err != nil {
			return err
		}
	}
	a.restored = true
	return nil
}
