package dpo

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// Precompute returns samples with the reference's log probabilities of their answers, so that
// training need not run the reference: precompute_ref_log_probs. If the task has no reference
// (TaskOptions.Precomputed), the reference is the model as it is now, so call Precompute before
// training. It runs on the model's device and in the type of its weights; batch is how many samples
// it takes at a time.
func (t *Task) Precompute(ctx context.Context, samples []Sample, batch int) ([]Sample, error) {
	if batch < 1 {
		return nil, fmt.Errorf("dpo: Precompute with batches of %d samples; want at least 1", batch)
	}
	params := nn.Params(t.model)
	if len(params) == 0 {
		return nil, errors.New("dpo: the model has no parameter")
	}
	p := engine.ForwardPass{Device: params[0].Tensor.Device()}
	samples = slices.Clone(samples)
	for i := range samples {
		samples[i].Reference = nil
	}
	training := t.mode(false)
	defer t.mode(training)
	for part := range slices.Chunk(samples, batch) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		b, err := t.Collate(part)
		if err != nil {
			return nil, err
		}
		err = torch.Try(func() {
			torch.Scope(func() {
				for i, logp := range torch.Values[float32](t.precomputed(p, b)) {
					s := &part[i%len(part)]
					if i < len(part) {
						s.Reference = &LogProbs{Chosen: logp}
					} else {
						s.Reference.Rejected = logp
					}
				}
			})
		})
		if err != nil {
			return nil, fmt.Errorf("dpo: %w", err)
		}
	}
	return samples, nil
}

func (t *Task) precomputed(p engine.ForwardPass, b Batch) (logps torch.Tensor) {
	v := t.view(p, b)
	if t.options.Reference.Run != nil {
		return t.reference(p, v, false)
	}
	torch.NoGrad(func() { logps = t.sequences(v, t.score(t.model, v, false).LogProbs) })
	return logps
}

// mode sets whether the model is in training mode and returns the previous mode.
func (t *Task) mode(training bool) (before bool) {
	for _, m := range nn.Modules(t.model) {
		if moded, ok := m.Module.(interface{ Training() bool }); ok {
			before = before || moded.Training()
		}
	}
	if before != training {
		nn.SetTraining(t.model, training)
	}
	return before
}
