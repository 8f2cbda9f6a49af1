package replay

import (
	"errors"
	"slices"
	"strings"

	pa "github.com/gotrainer/gotrainer/compat/pytorchaccelerated"
	"github.com/gotrainer/gotrainer/internal/conformance/trace"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/torch"
)

// begin begins the record of an evaluation, with the given fields.
func (p *paCase) begin(epoch int, e trace.Object) {
	p.last, p.open = e, true
	p.add("evaluations", e.With("after_update", p.count("updates"), "epoch", epoch, "samples", []any{},
		"batch_losses", []any{}, "batch_sizes", []any{}))
}

func (p *paCase) event(run *pa.Run, name string, extra ...any) error {
	e := []any{name, p.count("updates"), run.History().CurrentEpoch()}
	if len(extra) > 0 {
		e = append(e, trace.Of(extra...))
	}
	p.add("events", e)
	return nil
}

func (p *paCase) OnTrainStepStart(run *pa.Run) error {
	p.add("train_flag", p.model.training())
	return p.event(run, "on_train_step_start")
}

func (p *paCase) OnTrainStepEnd(run *pa.Run, e pa.TrainStepEnd) error {
	return p.event(run, "on_train_step_end", "step", e.Step)
}

func (p *paCase) OnEvalEpochStart(run *pa.Run, e pa.EvalEpoch) error {
	p.begin(run.History().CurrentEpoch(), trace.Of("intermediate", e.Intermediate, "model_training", p.model.training()))
	return p.event(run, "on_eval_epoch_start", "is_intermediate", e.Intermediate)
}

func (p *paCase) OnEvalEpochEnd(run *pa.Run, e pa.EvalEpoch) error {
	return p.event(run, "on_eval_epoch_end", "is_intermediate", e.Intermediate)
}

// insertionOrder is the order of the keys that WSDCheckpointCallback adds to a dictionary.
var insertionOrder = []string{"step", "checkpoint_type", "total_steps", "decay_fraction", "timestamp"}

func (p *paCase) OnCheckpointSaved(run *pa.Run, path string, c pa.Checkpoint) error {
	keys := slices.DeleteFunc(slices.Clone(c.Keys), func(k string) bool { return slices.Contains(insertionOrder, k) })
	for _, k := range insertionOrder {
		if slices.Contains(c.Keys, k) {
			keys = append(keys, k)
		}
	}
	p.written = append(p.written, trace.Of("path", path, "keys", keys, "extra", extraValues(c.Extra),
		"after_update", p.count("updates"), "epoch", run.History().CurrentEpoch()))
	return nil
}

func (p *paCase) OnTrainingStateSaved(run *pa.Run, dir string, m pa.Metadata) error {
	whole := extraValues(m.Extra)
	whole["current_epoch"] = m.CurrentEpoch
	p.written = append(p.written, trace.Of("path", dir, "extra", extraValues(m.Extra), "metadata", whole,
		"after_update", p.count("updates"), "epoch", run.History().CurrentEpoch()))
	return nil
}

// extraValues returns the extra values of a checkpoint without the timestamp.
func extraValues(extra map[string]any) trace.Object {
	values := trace.Object{}
	for name, v := range extra {
		if f, ok := v.(float64); ok {
			v = trace.Hex(f)
		}
		values[name] = v
	}
	delete(values, "timestamp")
	return values
}

// paEvents calls see for every event without further arguments.
type paEvents struct {
	see func(run *pa.Run, name string) error
}

func (p paEvents) OnInitEnd(run *pa.Run) error          { return p.see(run, "on_init_end") }
func (p paEvents) OnTrainingRunStart(run *pa.Run) error { return p.see(run, "on_training_run_start") }
func (p paEvents) OnTrainEpochStart(run *pa.Run) error  { return p.see(run, "on_train_epoch_start") }
func (p paEvents) OnTrainEpochEnd(run *pa.Run) error    { return p.see(run, "on_train_epoch_end") }
func (p paEvents) OnTrainStepStart(run *pa.Run) error   { return p.see(run, "on_train_step_start") }
func (p paEvents) OnEvalStepStart(run *pa.Run) error    { return p.see(run, "on_eval_step_start") }
func (p paEvents) OnTrainingRunEnd(run *pa.Run) error   { return p.see(run, "on_training_run_end") }
func (p paEvents) OnEvaluationRunStart(run *pa.Run) error {
	return p.see(run, "on_evaluation_run_start")
}
func (p paEvents) OnEvaluationRunEnd(run *pa.Run) error { return p.see(run, "on_evaluation_run_end") }
func (p paEvents) OnTrainingRunEpochEnd(run *pa.Run) error {
	return p.see(run, "on_training_run_epoch_end")
}
func (p paEvents) OnTrainStepEnd(run *pa.Run, _ pa.TrainStepEnd) error {
	return p.see(run, "on_train_step_end")
}
func (p paEvents) OnEvalEpochStart(run *pa.Run, _ pa.EvalEpoch) error {
	return p.see(run, "on_eval_epoch_start")
}
func (p paEvents) OnEvalStepEnd(run *pa.Run, _ pa.EvalStepEnd) error {
	return p.see(run, "on_eval_step_end")
}
func (p paEvents) OnEvalEpochEnd(run *pa.Run, _ pa.EvalEpoch) error {
	return p.see(run, "on_eval_epoch_end")
}
func (p paEvents) OnStopTrainingError(run *pa.Run, _ *pa.StopTrainingError) error {
	return p.see(run, "on_stop_training_error")
}

// paProbeA and paProbeB record their own names at every event.
type (
	paProbeA struct{ paEvents }
	paProbeB struct{ paEvents }
)

func (p *paCase) probe(name string) paEvents {
	return paEvents{func(run *pa.Run, event string) error { return p.event(run, name+event) }}
}

// paHistory records the loss of each epoch together with the tracker that it came from.
type paHistory struct {
	pa.InMemoryRunHistory
	of  *paCase
	run *pa.Run
}

func (h *paHistory) UpdateMetric(name string, value float64) {
	h.InMemoryRunHistory.UpdateMetric(name, value)
	t := h.run.LossTracker()
	h.of.add("loss_tracker", trace.Of("metric", h.MetricNamePrefix()+name,
		"total", trace.Hex(t.TotalLoss), "count", t.RunningCount, "value", trace.Hex(value)))
	h.of.open = h.of.open && name == "train_loss_epoch"
}

// methods are the overrides of the recording: they record the call, and call the Trainer's own
// method.
func (p *paCase) methods() pa.Methods[row, batch] {
	hook := func(name string, own func(*paTrainer) error) func(*paTrainer) error {
		return func(t *paTrainer) error {
			_ = p.event(t.Run, "hook:"+name) // never fails
			return own(t)
		}
	}
	return pa.Methods[row, batch]{
		TrainEpochStart:   hook("train_epoch_start", (*paTrainer).TrainEpochStart),
		OptimizerZeroGrad: hook("optimizer_zero_grad", (*paTrainer).OptimizerZeroGrad),
		TrainEpochEnd:     hook("train_epoch_end", (*paTrainer).TrainEpochEnd), EvalEpochStart: hook("eval_epoch_start",
			(*paTrainer).EvalEpochStart),
		EvalEpochEnd:        hook("eval_epoch_end", (*paTrainer).EvalEpochEnd),
		TrainingRunEpochEnd: hook("training_run_epoch_end", (*paTrainer).TrainingRunEpochEnd),
		TrainingRunEnd:      hook("training_run_end", (*paTrainer).TrainingRunEnd),
		EvaluationRunStart:  hook("evaluation_run_start", (*paTrainer).EvaluationRunStart),
		EvaluationRunEnd:    hook("evaluation_run_end", (*paTrainer).EvaluationRunEnd),
		TrainingRunStart: hook("training_run_start", func(t *paTrainer) error {
			if t.Schedule() != nil && p.args.train.ResumeFrom == "" {
				p.initialRate = hexes(t.LearningRate())
			}
			return t.TrainingRunStart()
		}),
		CreateScheduler: func(t *paTrainer, values pa.Placeholders) (lr.Schedule, error) {
			plan, err := t.CreateScheduler(values)
			if err == nil && plan != nil && p.args.train.ResumeFrom != "" { // before the state is loaded
				p.initialRate = hexes(plan.Plan(t.LearningRate(), values.NumEpochs*values.NumUpdateStepsPerEpoch)(0))
			}
			return plan, err
		},
		SchedulerStep: hook("scheduler_step", func(t *paTrainer) error {
			if err := t.SchedulerStep(); err != nil {
				return err
			}
			p.add("scheduler_steps", trace.Of("after_update", p.count("updates"),
				"lr", hexes(t.LearningRate())))
			return nil
		}),
		OptimizerStep:           hook("optimizer_step", p.update),
		ClipGradients:           p.clip,
		BackwardStep:            p.backward,
		CalculateTrainBatchLoss: p.trainBatch,
		CalculateEvalBatchLoss:  p.evalBatch,
	}
}

func (p *paCase) outputs(b batch) (pa.BatchOutput, error) {
	if !b.has("x") || !b.has("labels") {
		return pa.BatchOutput{}, errors.New("the batch has no x or no labels")
	}
	logits := p.model.predict(b)
	return pa.BatchOutput{Loss: p.model.loss(logits, b.tensor("labels"), 0), ModelOutputs: []torch.Tensor{logits},
		BatchSize: len(b.index)}, nil
}

func (p *paCase) trainBatch(t *paTrainer, b batch) (pa.BatchOutput, error) {
	p.add("batches", b.index)
	_ = p.event(t.Run, "calculate_train_batch_loss") // never fails
	out, err := p.outputs(b)
	if err == nil {
		p.add("micro_losses_unscaled", trace.Hex(out.Loss.Item()))
	}
	return out, err
}

func (p *paCase) evalBatch(t *paTrainer, b batch) (pa.BatchOutput, error) {
	_ = p.event(t.Run, "calculate_eval_batch_loss") // never fails
	out, err := p.outputs(b)
	if err != nil {
		return out, err
	}
	if !p.open {
		p.begin(t.History().CurrentEpoch(), trace.Of("ema", true))
	}
	grow(p.last, "samples", b.index)
	grow(p.last, "batch_losses", trace.Hex(out.Loss.Item()))
	grow(p.last, "batch_sizes", out.BatchSize)
	return out, nil
}

func (p *paCase) backward(t *paTrainer, loss torch.Tensor) error {
	p.add("micro_losses", trace.Hex(loss.Item()))
	_ = p.event(t.Run, "backward_step") // never fails
	return t.BackwardStep(loss)
}

func (p *paCase) clip(t *paTrainer) error {
	before := gradNorm(p.model.module)
	err := t.ClipGradients()
	p.add("clips", trace.Of("after_micro", p.count("micro_losses"), "norm_before", before,
		"norm_after", gradNorm(p.model.module)))
	return err
}

func (p *paCase) update(t *paTrainer) error {
	momentum := p.args.momentum
	if plan := lr.PlanMomentum(t.Schedule(), t.Config().NumEpochs*t.Config().NumUpdateStepsPerEpoch); plan != nil {
		momentum = []float64{plan(t.ScheduleSteps())}
	}
	norm, rate := gradNorm(p.model.module), t.LearningRate()
	if err := t.OptimizerStep(); err != nil {
		return err
	}
	n := p.count("micro_losses")
	p.add("updates", weightsOf(p.model.module).With("update", p.count("updates")+1, "after_micro", n,
		"micro_in_window", n-p.seen, "grad_norm_at_step", norm, "lr", hexes(rate), "momentum", hexes(momentum...),
		"skipped", false))
	p.seen = n
	return nil
}

// finish assembles the trace.
func (p *paCase) finish(failed error, left []string) *Run {
	history, optimizer := trace.Object{}, optim.Optimizer(nil)
	if p.trainer != nil {
		history, optimizer = historyValues(p.trainer.History()), p.trainer.Optimizer()
	}
	run := &Run{final: finalTensors(p.model, optimizer)}
	if p.trainer != nil && p.averageStayed() {
		run.final = withoutParameters(run.final)
	}
	run.Trace = p.trace(failed, "run_history", history, "printed", trace.Of("text", ""),
		"checkpoints", trace.Of("after", left, "written", p.written), "callback_list", trace.Of("type", ""),
		"initial_lr", p.initialRate, "final", weightsOf(p.model.module))
	return run
}

// averageStayed reports whether ModelEMA has left its average, which is frozen, in place of the
// model.
func (p *paCase) averageStayed() bool {
	isAverage := func(c any) bool { _, is := c.(*pa.ModelEMA); return is }
	trained := func(t torch.Named) bool { return t.Tensor.NeedsGrad() }
	return slices.ContainsFunc(p.callbacks, isAverage) && !slices.ContainsFunc(nn.Params(p.model.module), trained)
}

// withoutParameters names the optimizer's tensors like the recording does if it finds none of their
// parameters in the model: all get the same name, so only the last remains.
func withoutParameters(tensors []torch.Named) []torch.Named {
	var out []torch.Named
	for _, t := range tensors {
		if strings.HasPrefix(t.Name, "optim.") {
			t.Name = "optim.?" + t.Name[strings.LastIndexByte(t.Name, '.'):]
			out = slices.DeleteFunc(out, func(o torch.Named) bool { return o.Name == t.Name })
		}
		out = append(out, t)
	}
	return out
}
