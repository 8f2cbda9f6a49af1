package engine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/shard"
	"github.com/gotrainer/gotrainer/internal/torchsave"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/run"
	"github.com/gotrainer/gotrainer/torch"
)

// core is what a [Step] does without knowing the types of its samples and batches. Its exported
// methods are those of every Step.
type core struct {
	task      task
	init      func() (task, error) // makes the task again when the run is seeded; nil: the task stays
	fresh     bool                 // Seed has just made the task, which has not been used since
	options   Options
	optimizer optim.Optimizer
	builder   optim.Builder // builder of optimizer: that of the options, or of a checkpoint
	params    *torch.List   // the parameters that are trained
	frozen    bool          // no parameter is trained
	dense     int64         // see denseParams; 0: not counted yet
	elements  int64         // number of elements of all parameters
	trained   int64         // number of those that are not frozen
	scaler    *amp.GradScaler
	momentum  *float64 // last argument of SetMomentum

	remote     bool // the device has its own memory, so reading a number waits for it
	training   bool // the current mode of the model
	modes      []modeReporter
	stepping   bool // a training step is running
	pending    pendingPass
	arrivals   arrivals
	prefetcher *prefetcher // nil: batches are not sent ahead
	resident   *resident   // nil: no data set is on the device
	random     random
	order      globalOrder
	copies     copies
	ema        *average         // nil: none
	python     torchsave.Random // Python's generators: see SaveTransformers

	// What has accumulated since the last report, on the device so that no step waits for it.
	lossSum  torch.Tensor
	gradNorm torch.Tensor
	normed   bool
	// settings of the current window; skip: its gradients are not finite
	skipNonFinite, stopAtNonFinite, skipUnseen, skip bool
	// 1 if the gradients are not finite, for an optimizer that skips the update by itself;
	// undefined: not needed yet
	nonFinite torch.Tensor
	logged    logged
	unseen    bool // the last Update did not wait to learn whether it was skipped

	group     *dist.Group // nil: one process
	parallel  parallel
	sharded   *shard.Model // parallel, with Options.Sharding; nil: without, or not yet
	backwards int          // backward passes since the last forward pass began
	groupErr  error        // why the last call among the processes has failed, if that is not the error of an operator

	graphs      *graphs         // nil: none
	warned      map[string]bool // formats that once has used
	eval        evaluation
	predictions *Predictions
	lowered     []loweredTensor
}

// begin prepares the core of a new Step.
func (s *core) begin(t task, init func() (task, error), o Options) error {
	if err := o.validate(); err != nil {
		return run.Usage(err) // exit code 2, like that of a trainer.OptionError
	}
	if t.given == nil {
		return errors.New("engine: a Step needs a task, got nil")
	}
	s.task, s.init, s.options, s.warned = t, init, o, map[string]bool{}
	if err := try(s.prepare); err != nil {
		return err
	}
	s.warnOfIdleGPU()
	if text := s.options.slowBF16(); text != "" {
		s.warn("%s", text)
	}
	return nil
}

func callInit(init func() (task, error)) (t task, err error) {
	err = try(func() (err error) {
		t, err = init()
		if err == nil && t.given == nil {
			err = errors.New("it returned no task")
		}
		return err
	})
	if err != nil {
		return task{}, fmt.Errorf("engine: the function that makes the model: %w", err)
	}
	return t, nil
}

func (s *core) prepare() error { return s.onDevice(s.prepareOnDevice) }

func (s *core) prepareOnDevice() error {
	s.options.apply()
	s.remote = isRemote(s.options.Device)
	device := s.options.Device
	if s.options.Prefetch {
		s.prefetcher = &prefetcher{device: device, side: newSideStream(device), sent: &s.arrivals}
	}
	if limit := s.options.DatasetOnDevice; limit > 0 {
		s.resident = &resident{device: device, limit: limit, handed: &s.arrivals}
	}
	if s.options.NonPaddingTokens && !s.task.isTokenCounter {
		s.warn("Options.NonPaddingTokens is set, but %T counts no tokens (engine.TokenCounter), so it has no effect",
			s.task.given)
	}
	s.lossSum = torch.TensorOptions{Device: s.options.Device}.Zeros().Keep()
	s.gradNorm = torch.TensorOptions{Device: s.options.Device}.Zeros().Keep()
	if s.options.Optimizer == nil {
		s.options.Optimizer = optim.AdamW{LR: 5e-5, WeightDecay: new(0.0)}
	}
	return s.prepareModel()
}

func (s *core) prepareModel() error {
	if err := s.checkTask(); err != nil {
		return run.Usage(err)
	}
	model := s.task.Model()
	if parts := nn.LinearParts(model); len(parts) > 0 {
		return fmt.Errorf("engine: only parts of the model are here (%s); divided layers (dist/tensor) need a "+
			"training loop of your own", parts[0])
	}
	if !s.drawsByLayer() {
		if err := nn.Materialize(model); err != nil {
			return fmt.Errorf("engine: %w", err)
		}
	}
	if s.options.InitWeightsFrom != "" {
		if err := s.readWeights(s.weightsFile(s.options.InitWeightsFrom)); err != nil {
			return fmt.Errorf("engine: Options.InitWeightsFrom: %w", err)
		}
	}
	if l, ok := s.task.given.(TrainingLogger); ok {
		s.logged.begin(l.TrainingLogs(), s.options.Device)
	}
	if s.options.Device != torch.CPU {
		nn.To(model, torch.TensorOptions{Device: s.options.Device})
	}
	if f := s.options.MemoryFormat; f != torch.ContiguousFormat {
		nn.ToMemoryFormat(model, f)
	}
	nn.SetTraining(model, true)
	s.training, s.modes = true, modesOf(model)
	if s.options.NEFTuneAlpha > 0 {
		if err := s.activateNEFTune(model); err != nil {
			return err
		}
	}
	if s.options.GradientCheckpointing {
		if err := enableGradientCheckpointing(model); err != nil {
			return err
		}
	}
	var trained []torch.Named
	var tensors []torch.Tensor
	s.elements, s.trained = 0, 0
	for _, p := range nn.Params(model) {
		s.elements += p.Tensor.Numel()
		if p.Tensor.NeedsGrad() {
			s.trained += p.Tensor.Numel()
			trained = append(trained, p)
			tensors = append(tensors, p.Tensor)
		}
	}
	if s.elements == 0 && len(nn.Params(model)) == 0 {
		return fmt.Errorf("engine: the model %T has no parameter: are its fields tagged, as in `param:\"weight\"`?",
			model)
	}
	s.params, s.dense, s.frozen = torch.NewList(tensors...), 0, len(trained) == 0
	if s.options.Precision == amp.FP16 {
		s.scaler = amp.NewGradScaler(amp.GradScalerOptions{})
	}
	if err := s.buildOptimizer(model, trained); err != nil {
		return err
	}
	s.buildGraphs()
	return s.buildAverage(model)
}

// checkTask refuses options that this task cannot carry out.
func (s *core) checkTask() error {
	if v, ok := s.task.given.(OptionsValidator); ok {
		if err := v.ValidateOptions(s.options); err != nil {
			return fmt.Errorf("engine: %w", err)
		}
	}
	var r refusals
	s.checkSortedEval(&r)
	o := s.options
	for _, c := range []struct {
		name string
		set  bool
	}{
		{"Loss", o.Loss != nil},
		{"LabelSmoothing", o.LabelSmoothing != 0},
		{"ComputeMetrics", o.ComputeMetrics != nil},
		{"BatchMetrics", o.BatchMetrics != nil},
		{"PreprocessLogits", o.PreprocessLogits != nil},
	} {
		r.when(c.set && !s.task.isPredictor, "%s is set, but %T does not show what its model returns: it must implement "+
			"engine.Predictor", c.name, s.task.given)
		r.when(c.set && s.task.isEvaluator, "%s is set, but %T evaluates by itself (engine.Evaluator); implement "+
			"engine.Observer in its place", c.name, s.task.given)
	}
	return r.first
}

func (s *core) buildOptimizer(model any, params []torch.Named) error {
	var groups []optim.Group
	switch {
	case s.options.lowRank():
		var err error
		if groups, err = s.lowRankGroups(model, params); err != nil {
			return err
		}
	case s.options.Groups != nil:
		groups = s.options.Groups(model, params)
	default:
		groups = noDecayGroups(model, params)
	}
	// like bitsandbytes, keep the states of embeddings in 32 bits in 8-bit optimizers
	embeddings := embeddingWeights(model)
	groups = slices.Clone(groups)
	builder := optim.KeepIn32Bits(s.options.Optimizer, embeddings...)
	for i := range groups {
		groups[i].Optimizer = optim.KeepIn32Bits(groups[i].Optimizer, embeddings...)
	}
	if err := s.makeOptimizer(builder, groups); err != nil {
		return fmt.Errorf("engine: Options.Optimizer: %w", err)
	}
	return nil
}

func (s *core) makeOptimizer(builder optim.Builder, groups []optim.Group) error {
	build := builder.Build
	if s.sharded != nil { // for the parts of this process
		build = func(groups []optim.Group) (optim.Optimizer, error) { return s.sharded.Optimizer(builder, groups) }
	}
	optimizer, err := build(groups)
	if err != nil {
		return err
	}
	if err := s.checkUpdater(optimizer); err != nil {
		return err
	}
	if former, ok := s.optimizer.(optim.BackwardUpdater); ok {
		former.RemoveHooks()
	}
	s.builder, s.optimizer, s.momentum = builder, optimizer, nil
	return nil
}

// SetMomentum sets the momentum of the optimizer, or its beta1, from the next Update on.
func (s *core) SetMomentum(momentum float64) error {
	o, ok := s.optimizer.(optim.MomentumSetter)
	if !ok {
		return fmt.Errorf("engine: the schedule moves the momentum, but the optimizer %T has no method SetMomentum "+
			"(optim.MomentumSetter)", s.optimizer)
	}
	err := try(func() error { return o.SetMomentum(momentum) })
	if err == nil {
		s.momentum = &momentum
	}
	return err
}

// Model returns the task's model.
func (s *core) Model() any {
	s.fresh = false // the caller may change it
	s.copies.wait()
	return s.task.Model()
}

// Optimizer returns the optimizer.
func (s *core) Optimizer() optim.Optimizer {
	s.fresh = false
	s.copies.wait()
	return s.optimizer
}
