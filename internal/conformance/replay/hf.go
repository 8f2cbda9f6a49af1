package replay

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/internal/conformance/trace"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// hfRun is a case of transformers' Trainer under package trainer with semantics.HuggingFace. Each
// phase that trains has a trainer of its own.
type hfRun struct {
	spec *spec.Spec
	rec  *recorder
	sets map[string]*rows
	out  string // the folder of the run

	args      hfArgs
	options   trainer.Options // of the trainer at hand
	watch     *watch
	step      *hfStep
	trainer   *trainer.Trainer[row, batch]
	optimizer bool  // there is one: a training has begun
	killed    bool  // it has not ended
	history   []any // of the checkpoint that a refused training would have gone on from
	result    any   // train_output
	predicted []tensorBytes
	rms       []tensorBytes // see rootMeanSquares
}

func replayHF(ctx context.Context, s *spec.Spec) (*Run, error) {
	if err := errors.Join(s.More.Done(), s.Data.Options.Done()); err != nil {
		return nil, err
	}
	sets, err := readRows(s)
	if err != nil {
		return nil, err
	}
	out, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(out) }()
	h := &hfRun{spec: s, rec: &recorder{}, sets: sets, out: out}
	for _, phase := range s.Phases {
		before := h.rec.mark()
		if err = h.phase(ctx, phase); err != nil {
			break
		}
		h.rec.phase(trace.Of("do", phase.Do), before)
	}
	if aboutCase(err) {
		return nil, err
	}
	return h.end(err)
}

// phase does what a phase asks for.
func (h *hfRun) phase(ctx context.Context, p spec.Phase) error {
	name, prefix := p.Options.String("on", "eval"), p.Options.String("prefix", "test")
	if err := p.Options.Done(); err != nil {
		return err
	}
	if h.trainer == nil || p.Do == "train" && !p.SameTrainer {
		if err := h.construct(p); err != nil {
			return err
		}
	} else if p.Args != nil {
		return spec.Unsupportedf("a phase with same_trainer that changes arguments")
	} else if p.Do == "train" {
		if h.killed && h.args.engine.NEFTuneAlpha != 0 {
			return spec.Unsupportedf("neftune_noise_alpha in a phase with same_trainer behind one that was killed: " +
				"the recorded model keeps that one's hook beside its own")
		}
		h.step.tokens = 0
		if err := h.again(p); err != nil {
			return err
		}
	}
	h.rec.where = p.Do
	set, ok := h.sets[name]
	if p.Do == "predict" && !ok {
		return fmt.Errorf("there is no split %q", name)
	}
	// and so it stays; after a training that was killed the recorded trainer takes itself to be in
	// it
	if p.Do != "train" && h.args.fullEval != torch.DefaultDType && !h.killed {
		err := torch.Try(func() { nn.To(h.step.task().model.module(), torch.TensorOptions{DType: h.args.fullEval}) })
		if err != nil {
			return err
		}
	}
	switch p.Do {
	case "train":
		return h.train(ctx, p)
	case "evaluate":
		valid, err := h.valid()
		if err == nil && valid == nil {
			err = fmt.Errorf("there is no evaluation set")
		}
		if err == nil {
			_, err = h.trainer.Evaluate(ctx, valid)
		}
		return err
	}
	var on data.Dataset[row] = set
	if h.spec.Data.Iterable && name == "train" {
		on = trainer.EvalStream[row]{Stream: data.StreamOf[row](set, nil)}
	}
	if _, err := h.trainer.Predict(ctx, on, prefix); err != nil {
		return err
	}
	return h.keepPredictions()
}

// construct makes model, step and trainer, as a new process would.
func (h *hfRun) construct(p spec.Phase) (err error) {
	h.rec.where = "arguments"
	if h.args, err = readHFArgs(h.spec.PhaseArgs(p)); err != nil {
		return err
	}
	h.rec.where = "trainer"
	callbacks, saves, err := hfCallbacks(h.spec)
	if err != nil {
		return err
	}
	if h.args.evaluates && h.spec.Data.EvalSets == nil && h.sets["eval"] == nil {
		return fmt.Errorf("evaluations are asked for, but there is no evaluation set")
	}
	if h.spec.Data.Iterable && h.args.trainer.MaxSteps == 0 {
		return fmt.Errorf("the training set is a stream, which has no length; set max_steps")
	}
	if kind := h.spec.Model.Kind; h.args.engine.LabelSmoothing != 0 && (kind == "regression" || kind == "causal_lm") {
		return fmt.Errorf("label_smoothing_factor is set, and the recorded model of kind %s has no config that says "+
			"its problem type", kind)
	}
	if err := h.args.settle(h.spec); err != nil {
		return err
	}
	h.needs()
	if err := h.lossAndMetrics(); err != nil {
		return err
	}
	h.watch = newWatch(h, p.StopAfterUpdate) // of every train() of this object
	h.step, h.optimizer, h.killed, h.history = &hfStep{run: h}, h.args.lateSchedule, false, nil
	if err := h.makeStep(); err != nil {
		return err
	}
	o := h.args.trainer
	o.Callbacks = append([]any{h.watch}, callbacks...)
	if h.args.saves || saves || o.LoadBestAtEnd || o.KeepCheckpoints > 0 {
		o.OutputDir = h.out
	}
	if o.EvalOnStart && h.spec.Data.EvalSets == nil && h.sets["eval"] == nil {
		o.EvalOnStart, o.Callbacks = false, append(o.Callbacks, nothingToEvaluate{})
	}
	if err := h.resumeFrom(p, &o); err != nil {
		return err
	}
	switch {
	case h.spec.Data.Iterable: // a stream has an order of its own
	case h.args.sampling == "group_by_length":
		order, err := h.byLength(h.sets["train"], o.BatchSize*o.Accumulate)
		if err != nil {
			return err
		}
		order.Random = h.step.GlobalPermutation()
		o.Order = order
	case h.args.sampling == "batch_rebalance":
		order, err := h.rebalanced(h.sets["train"], o)
		if err != nil {
			return err
		}
		o.Order = order
	case h.args.sampling == "random" && h.args.globalOrder:
		o.Order = h.step.RandomSampler()
	}
	h.options = o
	made, err := trainer.New[row, batch](h.step, o)
	if err != nil {
		return err
	}
	h.trainer = made
	h.rec.start(h.step.task().model)
	return nil
}

// nothingToEvaluate refuses eval_on_start without an evaluation set when the training has begun.
type nothingToEvaluate struct{}

func (nothingToEvaluate) TrainBegin(*trainer.Run) error {
	return fmt.Errorf("eval_on_start is set, but there is no evaluation set")
}

// again makes a trainer around the step of the one before that resumes or begins anew, which
// train(resume_from_checkpoint=...) does without a new object.
func (h *hfRun) again(p spec.Phase) error {
	resumes := p.Resume != "" || p.ResumeNewest
	if !resumes && h.options.ResumeFrom == "" {
		return nil
	}
	o := h.options
	o.ResumeFrom = ""
	if err := h.resumeFrom(p, &o); err != nil || h.args.late != nil {
		return err
	}
	h.options = o
	// the losses of a training that ended between two logs
	if _, err := h.step.Report(context.Background()); err != nil {
		return err
	}
	h.step.kept, h.watch.kept = true, true
	defer func() { h.step.kept, h.watch.kept = false, false }()
	made, err := trainer.New[row, batch](h.step, o)
	if err != nil {
		return err
	}
	h.trainer = made
	return nil
}

// needs refuses, when the training begins, what the model or the samples do not have.
func (h *hfRun) needs() {
	kind, a := h.spec.Model.Kind, &h.args
	refuse := func(what string) {
		if a.late == nil {
			a.late = fmt.Errorf("%s, which a model of kind %s does not have", what, kind)
		}
	}
	if tokens := kind == "bert" || kind == "causal_lm"; !tokens && a.engine.NEFTuneAlpha != 0 {
		refuse("neftune_noise_alpha needs input embeddings")
		a.engine.NEFTuneAlpha = 0
	}
	if kind != "bert" && a.engine.GradientCheckpointing {
		refuse("gradient_checkpointing needs layers that are made for it")
		a.engine.GradientCheckpointing = false
	}
	if set := h.sets["train"]; (a.sampling == "group_by_length" || a.sampling == "batch_rebalance") &&
		!h.spec.Data.Iterable && set != nil {
		if _, ok := set.columns["input_ids"]; !ok {
			refuse("train_sampling_strategy " + a.sampling + " needs the column input_ids")
			a.sampling = "random"
		}
	}
}

// lossAndMetrics completes the engine's options by what a case says outside of the arguments.
func (h *hfRun) lossAndMetrics() error {
	e := &h.args.engine
	if h.spec.LossFunc == "ce_per_item" {
		e.Loss, e.LabelSmoothing = perItem, 0 // a loss of one's own is not smoothed
	}
	if len(h.spec.Metrics) == 0 || h.args.lossOnly {
		return nil
	}
	e.ComputeMetrics = func(p *engine.Predictions) (map[string]float64, error) {
		if err := h.step.batchesMatch(); err != nil {
			return nil, err
		}
		var all predictions
		all.add(p.Logits[0], p.Labels[0])
		return all.compute(h.spec.Metrics)
	}
	return nil
}

// makeStep builds the model and the engine's step around it.
func (h *hfRun) makeStep() (err error) {
	task := func() (engine.Task[row, batch], error) {
		m, err := build(h.spec)
		if err != nil {
			return nil, err
		}
		t := &hfTask{run: h, model: m}
		h.step.current = t
		return t, nil
	}
	if h.spec.Init.ByPeer {
		h.step.Step, err = engine.NewFromInit(task, h.args.engine)
		return err
	}
	t, err := task()
	if err != nil {
		return err
	}
	h.step.Step, err = engine.New(t, h.args.engine)
	return err
}

// resumeFrom says where a training goes on.
func (h *hfRun) resumeFrom(p spec.Phase, o *trainer.Options) error {
	names, err := h.checkpoints()
	if err != nil {
		return err
	}
	switch {
	case p.ResumeNewest && len(names) == 0:
		h.args.missing, h.args.late = true, fmt.Errorf("resume is true, but there is no checkpoint")
		return nil
	case p.Resume != "" && !slices.Contains(names, p.Resume):
		h.args.missing, h.args.late = true, fmt.Errorf("there is no checkpoint %q to resume from", p.Resume)
		return nil
	case p.ResumeNewest:
		o.ResumeFrom = filepath.Join(h.out, names[len(names)-1])
	case p.Resume != "":
		o.ResumeFrom = filepath.Join(h.out, p.Resume)
	default: // the checkpoints of an earlier phase stay
		return nil
	}
	o.OutputDir = h.out
	state, err := readState(o.ResumeFrom)
	if err != nil {
		return err
	}
	tokens, err := state.int("num_input_tokens_seen")
	h.step.tokens = tokens
	return err
}

// byLength is the order of group_by_length for a set.
func (h *hfRun) byLength(set data.Dataset[row], size int) (data.GroupedByLength, error) {
	order := data.GroupedByLength{BatchSize: size}
	for i := range set.Len() {
		r, err := set.At(i)
		if err != nil {
			return order, err
		}
		ids, ok := r.values["input_ids"]
		if !ok || len(ids.shape) == 0 {
			return order, fmt.Errorf("group_by_length wants a column input_ids")
		}
		order.Lengths = append(order.Lengths, int(ids.shape[0]))
	}
	return order, nil
}

// rebalanced is the order of batch_rebalance.
func (h *hfRun) rebalanced(set data.Dataset[row], o trainer.Options) (data.Order, error) {
	if o.AutoFindBatchSize {
		return nil, spec.Unsupportedf("auto_find_batch_size with train_sampling_strategy batch_rebalance")
	}
	grouped, err := h.byLength(set, 1)
	return data.BatchRebalance{Lengths: grouped.Lengths, BatchSize: o.BatchSize, Accumulate: o.Accumulate,
		DropLast: o.DropLast}, err
}

// valid is the evaluation set, or the sets; nil if there is none.
func (h *hfRun) valid() (data.Dataset[row], error) {
	if h.spec.Data.EvalSets == nil {
		if set := h.sets["eval"]; set != nil {
			return set, nil
		}
		return nil, nil
	}
	var sets trainer.EvalSets[row]
	for _, name := range h.spec.Data.EvalSets {
		set, ok := h.sets["eval_"+name]
		if !ok {
			return nil, fmt.Errorf("there is no split %q", "eval_"+name)
		}
		sets = append(sets, trainer.EvalSet[row]{Name: name, Set: set})
	}
	return sets, nil
}

// refuse ends a training before its first event. What the recorded trainer has done until then it
// has done: it has loaded the checkpoint's weights and log, and made its optimizer if only the
// schedule is refused.
func (h *hfRun) refuse() error {
	from := h.options.ResumeFrom
	// the recorded trainer has made its model anew, and has no optimizer yet
	if h.args.missing && h.spec.Init.ByPeer && h.optimizer {
		if err := h.step.Step.Seed(h.args.seed, trainer.SeedOptions{}); err != nil {
			return err
		}
		h.optimizer = false
	}
	if h.args.missing || from == "" {
		return h.args.late
	}
	state, err := readLog(from)
	if err == nil {
		err = h.step.Load(from, trainer.LoadOptions{WeightsOnly: true})
	}
	if err != nil {
		return err
	}
	h.history = state
	return h.args.late
}

func (h *hfRun) train(ctx context.Context, p spec.Phase) error {
	train, ok := h.sets["train"]
	if !ok {
		return fmt.Errorf("there is no training set")
	}
	valid, err := h.valid()
	if err != nil {
		return err
	}
	if h.args.late != nil {
		return h.refuse()
	}
	h.optimizer, h.killed = true, true
	var result *trainer.Result
	if h.spec.Data.Iterable {
		result, err = h.trainer.FitStream(ctx, data.StreamOf[row](train, nil), valid)
	} else {
		result, err = h.trainer.Fit(ctx, train, valid)
	}
	if errors.Is(err, errKilled) {
		h.rec.window = nil
		h.result = trace.Of("killed_before_update", h.watch.step+1)
		return nil
	}
	if err != nil {
		return err
	}
	h.killed = false
	h.watch.best = result.Best
	h.result = trace.Of("global_step", result.GlobalStep, "training_loss", trace.Hex(result.TrainLoss),
		"metrics", logRow(result.Metrics, "step"))
	return nil
}
