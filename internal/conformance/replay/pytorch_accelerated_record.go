package replay

import (
	"errors"
	"maps"
	"slices"
	"strings"

	pa "github.com/gotrainer/gotrainer/compat/pytorchaccelerated"
	"github.com/gotrainer/gotrainer/internal/conformance/trace"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/torch"
)

// paRecorder is the recording's callback, the first of the list, and what it and the methods have
// recorded.
type paRecorder struct {
	model model

	phases, batches, losses, unscaled, updates, clips, scheduler, tracker, events, flags, written []any
	evaluations                                                                                   []*paEvaluation
	initialRate                                                                                   any
	// losses at the last update
	seen int
}

// paEvaluation is an evaluation epoch.
type paEvaluation struct {
	head    trace.Object
	samples []any
	losses  []trace.Hex
	sizes   []int
	done    bool
}

func (r *paRecorder) mark() mark {
	return mark{len(r.batches), len(r.updates), len(r.events), len(r.evaluations)}
}

func (r *paRecorder) phase(info trace.Object, from mark) {
	now := r.mark()
	r.phases = append(r.phases, append(info, trace.Object{{Name: "batches", Value: now.batches - from.batches},
		{Name: "updates", Value: now.updates - from.updates},
		{Name: "events", Value: now.events - from.events},
		{Name: "evaluations", Value: now.evaluations - from.evaluations}}...))
}

func (r *paRecorder) event(run *pa.Run, name string, extra ...trace.Pair) error {
	e := []any{name, len(r.updates), run.History().CurrentEpoch()}
	if len(extra) > 0 {
		e = append(e, trace.Object(extra))
	}
	r.events = append(r.events, e)
	return nil
}

func (r *paRecorder) training() bool {
	m, ok := r.model.module().(interface{ Training() bool })
	return ok && m.Training()
}

func (r *paRecorder) OnInitEnd(run *pa.Run) error { return r.event(run, "on_init_end") }
func (r *paRecorder) OnTrainingRunStart(run *pa.Run) error {
	return r.event(run, "on_training_run_start")
}
func (r *paRecorder) OnTrainEpochStart(run *pa.Run) error {
	return r.event(run, "on_train_epoch_start")
}
func (r *paRecorder) OnTrainEpochEnd(run *pa.Run) error  { return r.event(run, "on_train_epoch_end") }
func (r *paRecorder) OnEvalStepStart(run *pa.Run) error  { return r.event(run, "on_eval_step_start") }
func (r *paRecorder) OnTrainingRunEnd(run *pa.Run) error { return r.event(run, "on_training_run_end") }
func (r *paRecorder) OnTrainingRunEpochEnd(run *pa.Run) error {
	return r.event(run, "on_training_run_epoch_end")
}
func (r *paRecorder) OnEvaluationRunStart(run *pa.Run) error {
	return r.event(run, "on_evaluation_run_start")
}
func (r *paRecorder) OnEvaluationRunEnd(run *pa.Run) error {
	return r.event(run, "on_evaluation_run_end")
}

func (r *paRecorder) OnEvalStepEnd(run *pa.Run, _ pa.EvalStepEnd) error {
	return r.event(run, "on_eval_step_end")
}

func (r *paRecorder) OnStopTrainingError(run *pa.Run, _ *pa.StopTrainingError) error {
	return r.event(run, "on_stop_training_error")
}

func (r *paRecorder) OnTrainStepStart(run *pa.Run) error {
	r.flags = append(r.flags, r.training())
	return r.event(run, "on_train_step_start")
}

func (r *paRecorder) OnTrainStepEnd(run *pa.Run, e pa.TrainStepEnd) error {
	return r.event(run, "on_train_step_end", trace.Pair{Name: "step", Value: e.Step})
}

func (r *paRecorder) OnEvalEpochStart(run *pa.Run, e pa.EvalEpoch) error {
	r.evaluations = append(r.evaluations,
		&paEvaluation{head: trace.Object{{Name: "after_update", Value: len(r.updates)},
			{Name: "epoch", Value: run.History().CurrentEpoch()},
			{Name: "intermediate", Value: e.Intermediate}, {Name: "model_training", Value: r.training()}}})
	return r.event(run, "on_eval_epoch_start", trace.Pair{Name: "is_intermediate", Value: e.Intermediate})
}

func (r *paRecorder) OnEvalEpochEnd(run *pa.Run, e pa.EvalEpoch) error {
	return r.event(run, "on_eval_epoch_end", trace.Pair{Name: "is_intermediate", Value: e.Intermediate})
}

// insertionOrder is that of the keys which WSDCheckpointCallback adds to a dictionary.
var insertionOrder = []string{"step", "checkpoint_type", "total_steps", "decay_fraction", "timestamp"}

func (r *paRecorder) OnCheckpointSaved(run *pa.Run, path string, c pa.Checkpoint) error {
	keys := slices.DeleteFunc(slices.Clone(c.Keys), func(k string) bool { return slices.Contains(insertionOrder, k) })
	for _, k := range insertionOrder {
		if slices.Contains(c.Keys, k) {
			keys = append(keys, k)
		}
	}
	r.written = append(r.written, trace.Object{{Name: "path", Value: path}, {Name: "keys", Value: keys},
		{Name: "extra", Value: extraValues(c.Extra)},
		{Name: "after_update", Value: len(r.updates)}, {Name: "epoch", Value: run.History().CurrentEpoch()}})
	return nil
}

func (r *paRecorder) OnTrainingStateSaved(run *pa.Run, dir string, m pa.Metadata) error {
	whole := append(trace.Object{{Name: "current_epoch", Value: m.CurrentEpoch}}, extraValues(m.Extra)...)
	r.written = append(r.written, trace.Object{{Name: "path", Value: dir}, {Name: "extra", Value: extraValues(m.Extra)},
		{Name: "metadata", Value: whole},
		{Name: "after_update", Value: len(r.updates)}, {Name: "epoch", Value: run.History().CurrentEpoch()}})
	return nil
}

// extraValues are what was saved beside the model, without the time.
func extraValues(extra map[string]any) trace.Object {
	o := trace.Object{}
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		v := extra[name]
		if f, ok := v.(float64); ok {
			v = trace.Hex(f)
		}
		if name != "timestamp" {
			o = append(o, trace.Pair{Name: name, Value: v})
		}
	}
	return o
}

// paProbe records its own name at every event.
type paProbe struct {
	rec  *paRecorder
	mark string
}

type (
	paProbeA struct{ paProbe }
	paProbeB struct{ paProbe }
)

func (p paProbe) event(run *pa.Run, name string) error { return p.rec.event(run, p.mark+name) }

func (p paProbe) OnInitEnd(run *pa.Run) error          { return p.event(run, "on_init_end") }
func (p paProbe) OnTrainingRunStart(run *pa.Run) error { return p.event(run, "on_training_run_start") }
func (p paProbe) OnTrainEpochStart(run *pa.Run) error  { return p.event(run, "on_train_epoch_start") }
func (p paProbe) OnTrainStepStart(run *pa.Run) error   { return p.event(run, "on_train_step_start") }
func (p paProbe) OnTrainEpochEnd(run *pa.Run) error    { return p.event(run, "on_train_epoch_end") }
func (p paProbe) OnEvalStepStart(run *pa.Run) error    { return p.event(run, "on_eval_step_start") }
func (p paProbe) OnTrainingRunEnd(run *pa.Run) error   { return p.event(run, "on_training_run_end") }
func (p paProbe) OnTrainingRunEpochEnd(run *pa.Run) error {
	return p.event(run, "on_training_run_epoch_end")
}
func (p paProbe) OnEvaluationRunStart(run *pa.Run) error {
	return p.event(run, "on_evaluation_run_start")
}
func (p paProbe) OnEvaluationRunEnd(run *pa.Run) error { return p.event(run, "on_evaluation_run_end") }
func (p paProbe) OnTrainStepEnd(run *pa.Run, _ pa.TrainStepEnd) error {
	return p.event(run, "on_train_step_end")
}
func (p paProbe) OnEvalEpochStart(run *pa.Run, _ pa.EvalEpoch) error {
	return p.event(run, "on_eval_epoch_start")
}
func (p paProbe) OnEvalStepEnd(run *pa.Run, _ pa.EvalStepEnd) error {
	return p.event(run, "on_eval_step_end")
}
func (p paProbe) OnEvalEpochEnd(run *pa.Run, _ pa.EvalEpoch) error {
	return p.event(run, "on_eval_epoch_end")
}
func (p paProbe) OnStopTrainingError(run *pa.Run, _ *pa.StopTrainingError) error {
	return p.event(run, "on_stop_training_error")
}

// paHistory records the loss of each epoch beside the tracker that it came from.
type paHistory struct {
	pa.InMemoryRunHistory
	rec *paRecorder
	run *pa.Run
}

func (h *paHistory) UpdateMetric(name string, value float64) {
	h.InMemoryRunHistory.UpdateMetric(name, value)
	t := h.run.LossTracker()
	h.rec.tracker = append(h.rec.tracker, trace.Object{{Name: "metric", Value: h.MetricNamePrefix() + name},
		{Name: "total", Value: trace.Hex(t.TotalLoss)},
		{Name: "count", Value: t.RunningCount}, {Name: "value", Value: trace.Hex(value)}})
	if n := len(h.rec.evaluations); n > 0 && name != "train_loss_epoch" {
		h.rec.evaluations[n-1].done = true
	}
}

// methods are the overrides of the recording: they record and call the Trainer's own.
func (p *paCase) methods() pa.Methods[row, batch] {
	r := p.rec
	hook := func(name string, own func(*paTrainer) error) func(*paTrainer) error {
		return func(t *paTrainer) error {
			_ = r.event(t.Run, "hook:"+name) // never fails
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
				r.initialRate = []trace.Hex{trace.Hex(t.LearningRate())}
			}
			return t.TrainingRunStart()
		}),
		CreateScheduler: func(t *paTrainer, values pa.Placeholders) (lr.Schedule, error) {
			plan, err := t.CreateScheduler(values)
			if err == nil && plan != nil && p.args.train.ResumeFrom != "" { // before the state is loaded
				r.initialRate = []trace.Hex{trace.Hex(plan.Plan(t.LearningRate(),
					values.NumEpochs*values.NumUpdateStepsPerEpoch)(0))}
			}
			return plan, err
		},
		SchedulerStep: hook("scheduler_step", func(t *paTrainer) error {
			if err := t.SchedulerStep(); err != nil {
				return err
			}
			r.scheduler = append(r.scheduler, trace.Object{{Name: "after_update", Value: len(r.updates)},
				{Name: "lr", Value: []trace.Hex{trace.Hex(t.LearningRate())}}})
			return nil
		}),
		OptimizerStep:           hook("optimizer_step", p.update),
		ClipGradients:           p.clip,
		BackwardStep:            p.backward,
		CalculateTrainBatchLoss: p.trainBatch,
		CalculateEvalBatchLoss:  p.evalBatch,
	}
}

func (p *paCase) outputs(t *paTrainer, b batch) (pa.BatchOutput, error) {
	if !b.has("x") || !b.has("labels") {
		return pa.BatchOutput{}, errors.New("the batch has no x or no labels")
	}
	logits := p.model.predict(b)
	return pa.BatchOutput{Loss: p.model.loss(logits, b.tensor("labels"), 0), ModelOutputs: []torch.Tensor{logits},
		BatchSize: len(b.index)}, nil
}

func (p *paCase) trainBatch(t *paTrainer, b batch) (pa.BatchOutput, error) {
	p.rec.batches = append(p.rec.batches, slices.Clone(b.index))
	_ = p.rec.event(t.Run, "calculate_train_batch_loss") // never fails
	out, err := p.outputs(t, b)
	if err == nil {
		p.rec.unscaled = append(p.rec.unscaled, trace.Hex(out.Loss.Item()))
	}
	return out, err
}

func (p *paCase) evalBatch(t *paTrainer, b batch) (pa.BatchOutput, error) {
	r := p.rec
	_ = r.event(t.Run, "calculate_eval_batch_loss") // never fails
	out, err := p.outputs(t, b)
	if err != nil {
		return out, err
	}
	if n := len(r.evaluations); n == 0 || r.evaluations[n-1].done {
		r.evaluations = append(r.evaluations,
			&paEvaluation{head: trace.Object{{Name: "after_update", Value: len(r.updates)},
				{Name: "epoch", Value: t.History().CurrentEpoch()}, {Name: "ema", Value: true}}})
	}
	e := r.evaluations[len(r.evaluations)-1]
	e.samples, e.losses, e.sizes = append(e.samples, slices.Clone(b.index)),
		append(e.losses, trace.Hex(out.Loss.Item())), append(e.sizes, out.BatchSize)
	return out, nil
}

func (p *paCase) backward(t *paTrainer, loss torch.Tensor) error {
	p.rec.losses = append(p.rec.losses, trace.Hex(loss.Item()))
	_ = p.rec.event(t.Run, "backward_step") // never fails
	return t.BackwardStep(loss)
}

func (p *paCase) clip(t *paTrainer) error {
	before := p.gradNorm()
	err := t.ClipGradients()
	p.rec.clips = append(p.rec.clips, trace.Object{{Name: "after_micro", Value: len(p.rec.losses)},
		{Name: "norm_before", Value: before}, {Name: "norm_after", Value: p.gradNorm()}})
	return err
}

func (p *paCase) update(t *paTrainer) error {
	r := p.rec
	momentum := p.args.momentum
	if m, ok := t.Schedule().(lr.MomentumSchedule); ok {
		if plan := m.PlanMomentum(t.Config().NumEpochs * t.Config().NumUpdateStepsPerEpoch); plan != nil {
			momentum = []float64{plan(t.ScheduleSteps())}
		}
	}
	norm, rate := p.gradNorm(), t.LearningRate()
	if err := t.OptimizerStep(); err != nil {
		return err
	}
	n := len(r.losses) - r.seen
	r.seen = len(r.losses)
	r.updates = append(r.updates, trace.Object{{Name: "update", Value: len(r.updates) + 1},
		{Name: "after_micro", Value: len(r.losses)}, {Name: "micro_in_window", Value: n},
		{Name: "grad_norm_at_step", Value: norm}, {Name: "lr", Value: []trace.Hex{trace.Hex(rate)}},
		{Name: "momentum", Value: hexes(momentum)}, {Name: "skipped", Value: false},
		{Name: "weights_norm", Value: weightsNorm(p.model)}, {Name: "weights_sha256",
			Value: weightsSHA(nn.Params(p.model.module()))}})
	return nil
}

// gradNorm is the total 2-norm of the gradients that there are.
func (p *paCase) gradNorm() any {
	value := any(nil)
	torch.NoGrad(func() {
		torch.Scope(func() {
			var norms []torch.Tensor
			for _, param := range nn.Params(p.model.module()) {
				if g := param.Tensor.Grad(); g.Defined() {
					norms = append(norms, g.Norm(2))
				}
			}
			if len(norms) > 0 {
				value = trace.Hex(torch.Stack(norms, 0).Norm(2).Item())
			}
		})
	})
	return value
}

// tensorStats are shape, hash, sums and first elements of tensors by name.
func tensorStats(list []torch.Named) trace.Object {
	const keep = 6
	o := trace.Object{}
	for _, t := range sorted(list) {
		torch.Scope(func() {
			wide := t.Tensor.ToDType(torch.Float64)
			first := torch.Values[float64](wide.View(-1))
			o = append(o, trace.Pair{Name: t.Name, Value: trace.Object{{Name: "shape", Value: sizes(t.Tensor)},
				{Name: "dtype", Value: t.Tensor.DType().String()},
				{Name: "weights_sha256", Value: weightsSHA([]torch.Named{t})},
				{Name: "abs_sum", Value: trace.Hex(wide.Abs().Sum(torch.DefaultDType).Item())},
				{Name: "l2", Value: trace.Hex(wide.Norm(2).Item())},
				{Name: "first", Value: hexes(first[:min(keep, len(first))])}}})
		})
	}
	return o
}

// finish puts the trace together.
func (p *paCase) finish(failed error, left []string) *Run {
	r := p.rec
	refused := any(nil)
	if failed != nil {
		refused = trace.Object{{Name: "text", Value: failed.Error()}}
	}
	evaluations := []any{}
	for _, e := range r.evaluations {
		evaluations = append(evaluations, append(slices.Clone(e.head), trace.Object{{Name: "samples", Value: e.samples},
			{Name: "batch_losses", Value: e.losses}, {Name: "batch_sizes", Value: e.sizes}}...))
	}
	history := trace.Object{}
	run := &Run{}
	if p.trainer != nil {
		history = historyValues(p.trainer.History())
		run.final = finalTensors(p.model, p.trainer.Optimizer())
		if p.averageStayed() {
			run.final = withoutParameters(run.final)
		}
	} else {
		run.final = finalTensors(p.model, nil)
	}
	list := func(v []any) []any { return append([]any{}, v...) }
	run.Trace = trace.Object{{Name: "env", Value: environment()}, {Name: "phases", Value: list(r.phases)},
		{Name: "batches", Value: list(r.batches)}, {Name: "micro_losses", Value: list(r.losses)},
		{Name: "micro_losses_unscaled", Value: list(r.unscaled)}, {Name: "updates", Value: list(r.updates)},
		{Name: "clips", Value: list(r.clips)}, {Name: "scheduler_steps", Value: list(r.scheduler)},
		{Name: "loss_tracker", Value: list(r.tracker)}, {Name: "run_history", Value: history},
		{Name: "events", Value: list(r.events)}, {Name: "train_flag", Value: list(r.flags)},
		{Name: "evaluations", Value: evaluations},
		{Name: "checkpoints", Value: trace.Object{{Name: "after", Value: left},
			{Name: "written", Value: list(r.written)}}},
		{Name: "printed", Value: trace.Object{{Name: "text", Value: ""}}}, {Name: "callback_list",
			Value: trace.Object{{Name: "type", Value: ""}}}, {Name: "error", Value: refused},
		{Name: "initial_lr", Value: r.initialRate},
		{Name: "final", Value: trace.Object{{Name: "weights_norm", Value: weightsNorm(p.model)},
			{Name: "weights_sha256", Value: weightsSHA(nn.Params(p.model.module()))}}}}
	return run
}

// averageStayed tells whether ModelEMA has left its average, which is not trained, in the place of
// the model.
func (p *paCase) averageStayed() bool {
	params := nn.Params(p.model.module())
	return p.setup.ema != nil && !slices.ContainsFunc(params, func(t torch.Named) bool { return t.Tensor.NeedsGrad() })
}

// withoutParameters names the optimizer's tensors as the recording does where it finds none of
// their parameters in the model: all alike, so that the last stays.
func withoutParameters(tensors []tensorBytes) []tensorBytes {
	var out []tensorBytes
	for _, t := range tensors {
		if strings.HasPrefix(t.name, "optim.") {
			t.name = "optim.?" + t.name[strings.LastIndexByte(t.name, '.'):]
			out = slices.DeleteFunc(out, func(o tensorBytes) bool { return o.name == t.name })
		}
		out = append(out, t)
	}
	return out
}

func sizes(t torch.Tensor) []int {
	out := []int{}
	for _, n := range t.Shape() {
		out = append(out, int(n))
	}
	return out
}
