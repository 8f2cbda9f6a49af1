package replay

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/conformance/recorded"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/internal/conformance/trace"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// hfRun replays a case of transformers' Trainer with package trainer and semantics.HuggingFace.
// Each phase that trains has its own trainer.
type hfRun struct {
	*session

	args      hfArgs
	options   trainer.Options // of the current trainer
	watch     *watch
	step      *hfStep
	trainer   *trainer.Trainer[row, batch]
	optimizer bool  // exists, because a training has begun
	killed    bool  // the training was interrupted
	kept      bool  // another trainer is created with the same step, which must not draw, seed or record anything
	history   []any // of the checkpoint from which a refused training would have resumed
	result    any   // train_output
	predicted []torch.Named
	rms       []torch.Named // see rootMeanSquares
}

func replayHF(ctx context.Context, c *session) *Run {
	spec.Check(errors.Join(c.spec.More.Done(), c.spec.Data.Options.Done()))
	h := &hfRun{session: c}
	var refused error
	for _, phase := range c.spec.Phases {
		if refused = refusal(func() { h.do(ctx, phase) }); refused != nil {
			break
		}
		h.phase(trace.Of("do", phase.Do))
	}
	return h.end(refused)
}

// do runs a phase.
func (h *hfRun) do(ctx context.Context, p spec.Phase) {
	name, prefix := p.Options.String("on", "eval"), p.Options.String("prefix", "test")
	spec.Check(p.Options.Done())
	switch {
	case h.trainer == nil || p.Do == "train" && !p.SameTrainer:
		h.construct(p)
	case p.Args != nil:
		spec.Refusef("a phase with same_trainer that changes arguments")
	case p.Do == "train":
		h.again(p)
	}
	h.where = p.Do
	var on data.Dataset[row]
	if p.Do == "predict" {
		on = h.split(name)
	}
	// The model stays in this dtype. After a training that was killed, the recorded trainer
	// believes that it is still training.
	if p.Do != "train" && h.args.fullEval != torch.DefaultDType && !h.killed {
		nn.To(h.step.current.model.module, torch.TensorOptions{DType: h.args.fullEval})
	}
	switch p.Do {
	case "train":
		h.train(ctx)
	case "evaluate":
		valid := h.valid()
		if valid == nil {
			spec.Failf("there is no evaluation set")
		}
		spec.Must(h.trainer.Evaluate(ctx, valid))
	default:
		if h.spec.Data.Iterable && name == "train" {
			on = trainer.EvalStream[row]{Stream: data.StreamOf(on, nil)}
		}
		spec.Must(h.trainer.Predict(ctx, on, prefix))
		h.keepPredictions()
	}
}

// construct makes model, step and trainer, as a new process would.
func (h *hfRun) construct(p spec.Phase) {
	h.where = "arguments"
	h.args = readHFArgs(h.spec.PhaseArgs(p))
	h.where = "trainer"
	callbacks, saves := hfCallbacks(h.spec)
	noSet := h.spec.Data.EvalSets == nil && h.sets["eval"] == nil
	kind := h.spec.Model.Kind
	switch {
	case h.args.evaluates() && noSet:
		spec.Failf("evaluations are asked for, but there is no evaluation set")
	case h.spec.Data.Iterable && h.args.trainer.MaxSteps == 0:
		spec.Failf("the training set is a stream, which has no length; set max_steps")
	case h.args.engine.LabelSmoothing != 0 && (kind == "regression" || kind == "causal_lm"):
		spec.Failf("label_smoothing_factor is set, and the recorded model of kind %s has no config that says "+
			"its problem type", kind)
	}
	h.args.settle(h.spec)
	h.needs()
	h.lossAndMetrics()
	h.watch = newWatch(h, p.StopAfterUpdate) // shared by every train() of this object
	h.step, h.optimizer, h.killed, h.history = &hfStep{run: h}, h.args.lateSchedule, false, nil
	h.makeStep()
	o := h.args.trainer
	o.Callbacks = append([]any{h.watch}, callbacks...)
	if h.args.saves() || saves || o.LoadBestAtEnd || o.KeepCheckpoints > 0 {
		o.OutputDir = h.dir
	}
	if o.EvalOnStart && noSet {
		o.EvalOnStart, o.Callbacks = false, append(o.Callbacks, nothingToEvaluate{})
	}
	h.resumeFrom(p, &o)
	if !h.spec.Data.Iterable { // a stream has an order of its own
		h.sampler(&o)
	}
	h.options, h.trainer = o, spec.Must(trainer.New[row, batch](h.step, o))
	h.start(h.step.current.model)
}

// sampler sets the order of the samples if it depends on the samples or the global generator.
func (h *hfRun) sampler(o *trainer.Options) {
	switch {
	case h.args.asked.TrainSamplingStrategy == "group_by_length":
		o.Order = data.GroupedByLength{Lengths: lengths(h.sets["train"]),
			BatchSize: o.BatchSize * o.Accumulate, Random: h.step.GlobalPermutation()}
	case h.args.asked.TrainSamplingStrategy == "batch_rebalance" && o.AutoFindBatchSize:
		spec.Refusef("auto_find_batch_size with train_sampling_strategy batch_rebalance")
	case h.args.asked.TrainSamplingStrategy == "batch_rebalance":
		o.Order = data.BatchRebalance{Lengths: lengths(h.sets["train"]), BatchSize: o.BatchSize,
			Accumulate: o.Accumulate, DropLast: o.DropLast}
	case h.args.asked.TrainSamplingStrategy == "random" && h.args.globalOrder:
		o.Order = h.step.RandomSampler()
	}
}

// lengths returns the lengths of a set's samples in tokens.
func lengths(set data.Dataset[row]) (list []int) {
	for i := range set.Len() {
		ids, ok := spec.Must(set.At(i)).values["input_ids"]
		if !ok || ids.Dim() == 0 {
			spec.Failf("group_by_length wants a column input_ids")
		}
		list = append(list, int(ids.Size(0)))
	}
	return list
}

// nothingToEvaluate makes the start of a training fail because of eval_on_start without an
// evaluation set.
type nothingToEvaluate struct{}

func (nothingToEvaluate) TrainBegin(*trainer.Run) error {
	return fmt.Errorf("eval_on_start is set, but there is no evaluation set")
}

// again makes a trainer with the previous one's step, which resumes or starts over, as
// train(resume_from_checkpoint=...) does on the same object.
func (h *hfRun) again(p spec.Phase) {
	if h.killed && h.args.engine.NEFTuneAlpha != 0 {
		spec.Refusef("neftune_noise_alpha in a phase with same_trainer behind one that was killed: " +
			"the recorded model keeps that one's hook beside its own")
	}
	h.step.tokens = 0
	resumes := p.Resume != "" || p.ResumeNewest
	if !resumes && h.options.ResumeFrom == "" {
		return
	}
	o := h.options
	o.ResumeFrom = ""
	if h.resumeFrom(p, &o); h.args.late != nil {
		return
	}
	h.options = o
	spec.Must(h.step.Report(context.Background())) // discard the losses of a training that ended between two logs
	h.kept = true
	defer func() { h.kept = false }()
	h.trainer = spec.Must(trainer.New[row, batch](h.step, o))
}

// needs refuses, when training begins, options that the model or the samples do not support.
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
	if set := h.sets["train"]; a.byLength() &&
		!h.spec.Data.Iterable && set != nil {
		if _, ok := set.columns["input_ids"]; !ok {
			refuse("train_sampling_strategy " + a.asked.TrainSamplingStrategy + " needs the column input_ids")
			a.asked.TrainSamplingStrategy = "random"
		}
	}
}

// lossAndMetrics sets the engine's options that a case specifies outside the arguments.
func (h *hfRun) lossAndMetrics() {
	e := &h.args.engine
	if h.spec.LossFunc == "ce_per_item" {
		e.Loss, e.LabelSmoothing = perItem, 0 // a custom loss is not smoothed
	}
	if len(h.spec.Metrics) == 0 || h.args.asked.PredictionLossOnly {
		return
	}
	e.ComputeMetrics = func(p *engine.Predictions) (map[string]float64, error) {
		if err := h.step.batchesMatch(); err != nil {
			return nil, err
		}
		var all predictions
		all.add(p.Logits[0], p.Labels[0])
		return all.compute(h.spec.Metrics)
	}
}

// makeStep builds the model and the engine's step.
func (h *hfRun) makeStep() {
	task := func() (t engine.Task[row, batch], err error) {
		err = recorded.Try(func() { h.step.current = &hfTask{run: h, model: build(h.spec)} })
		return h.step.current, err
	}
	e := h.args.engine
	if e.Device = h.device; e.Precision == amp.FP16 { // the recorded trainer ignored fp16 on a CPU
		e.Precision = amp.FP32
	}
	if h.spec.Init.ByPeer {
		h.step.Step = spec.Must(engine.NewFromInit(task, e))
		return
	}
	h.step.Step = spec.Must(engine.New(spec.Must(task()), e))
}

// resumeFrom sets where a training resumes.
func (h *hfRun) resumeFrom(p spec.Phase, o *trainer.Options) {
	names := h.saved("checkpoint-*")
	switch {
	case p.ResumeNewest && len(names) == 0:
		h.args.missing, h.args.late = true, fmt.Errorf("resume is true, but there is no checkpoint")
		return
	case p.Resume != "" && !slices.Contains(names, p.Resume):
		h.args.missing, h.args.late = true, fmt.Errorf("there is no checkpoint %q to resume from", p.Resume)
		return
	case p.ResumeNewest:
		o.ResumeFrom = filepath.Join(h.dir, names[len(names)-1])
	case p.Resume != "":
		o.ResumeFrom = filepath.Join(h.dir, p.Resume)
	default: // the checkpoints of an earlier phase are kept
		return
	}
	o.OutputDir = h.dir
	h.step.tokens = stateInt(readState(o.ResumeFrom), "num_input_tokens_seen")
}

// valid returns the evaluation set, or sets; nil if there is none.
func (h *hfRun) valid() data.Dataset[row] {
	if h.spec.Data.EvalSets == nil {
		if set := h.sets["eval"]; set != nil {
			return set
		}
		return nil
	}
	var sets trainer.EvalSets[row]
	for _, name := range h.spec.Data.EvalSets {
		sets = append(sets, trainer.EvalSet[row]{Name: name, Set: h.split("eval_" + name)})
	}
	return sets
}

// refuse ends a training before its first event. What the recorded trainer did before that is done:
// loading the checkpoint's weights and log, and creating the optimizer if only the schedule is
// refused.
func (h *hfRun) refuse() {
	// The recorded trainer has made a new model, and no optimizer yet.
	if h.args.missing && h.spec.Init.ByPeer && h.optimizer {
		spec.Check(h.step.Step.Seed(uint64(h.args.asked.Seed), trainer.SeedOptions{}))
		h.optimizer = false
	}
	if from := h.options.ResumeFrom; !h.args.missing && from != "" {
		history := readLog(from)
		spec.Check(h.step.Load(from, trainer.LoadOptions{WeightsOnly: true}))
		h.history = history
	}
	spec.Check(h.args.late)
}

func (h *hfRun) train(ctx context.Context) {
	train, valid := h.split("train"), h.valid()
	if h.args.late != nil {
		h.refuse()
	}
	h.optimizer, h.killed = true, true
	var result *trainer.Result
	var err error
	if h.spec.Data.Iterable {
		result, err = h.trainer.FitStream(ctx, data.StreamOf[row](train, nil), valid)
	} else {
		result, err = h.trainer.Fit(ctx, train, valid)
	}
	if errors.Is(err, errKilled) {
		h.window = nil
		h.result = trace.Of("killed_before_update", h.watch.step+1)
		return
	}
	spec.Check(err)
	h.killed = false
	h.watch.best = result.Best
	h.result = trace.Of("global_step", result.GlobalStep, "training_loss", trace.Hex(result.TrainLoss),
		"metrics", logRow(result.Metrics, "step"))
}
