package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/internal/conformance/pylambda"
	"github.com/gotrainer/gotrainer/internal/conformance/recorded"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/internal/conformance/trace"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/torch"
)

// loopArgs are the arguments of the hand-written loops, course and accelerate, under their own
// names.
type loopArgs struct {
	Seed            *uint64 // nil: the generator continues after the initialisation
	NumEpochs       int
	BatchSize       int
	EvalBatchSize   int
	Shuffle         bool
	DropLast        bool
	Optimizer       string
	OptimizerKwargs *spec.Object
	LearningRate    float64
	WeightDecay     *float64
	NoDecay         []string
	LRScheduler     string // of transformers
	TorchScheduler  string // a class of torch.optim.lr_scheduler
	SchedulerKwargs map[string]any
	NumWarmupSteps  float64
	// NumTrainingSteps is the length that the schedule is planned for; 0 means epochs times
	// batches.
	NumTrainingSteps          int
	GradientAccumulationSteps int
	ClipGradNorm              *float64
	ClipGradValue             *float64
	MixedPrecision            string
	Evaluate                  string

	inject []injection
}

// injection overwrites element 0 of a gradient after the backward pass of a micro-batch.
type injection struct {
	micro int
	param string
	value float64
}

func readLoopArgs(o *spec.Object) loopArgs {
	batch := o.Int("batch_size", 8)
	a := loopArgs{Seed: new(uint64(42)), NumEpochs: 3, BatchSize: batch, EvalBatchSize: batch, Shuffle: true,
		Optimizer:    "adamw",
		LearningRate: 5e-5, LRScheduler: "linear", GradientAccumulationSteps: 1,
		MixedPrecision: o.OneOf("mixed_precision", "no", "no", "bf16", "fp16"),
		Evaluate:       o.OneOf("evaluate", "", "no", "epoch", "end")}
	for _, i := range o.Objects("inject") {
		value, err := strconv.ParseFloat(fmt.Sprint(i.Any("value")), 64)
		if err != nil {
			i.Fail("value", `a number, "inf", "-inf" or "nan"`)
		}
		a.inject = append(a.inject, injection{i.Int("micro", 0), i.String("param", ""), value})
	}
	o.Fill(&a)
	if o.Has("seed") && o.Any("seed") == nil {
		a.Seed = nil
	}
	return a
}

// buildOptimizer makes one group of all trainable parameters, or the two groups of the course's
// recipe for weight decay.
func (a loopArgs) buildOptimizer(m *model) optim.Optimizer {
	params, own := nn.Params(m.module), map[string]any{"lr": a.LearningRate}
	if a.WeightDecay != nil && len(a.NoDecay) == 0 { // otherwise the groups have it
		own["weight_decay"] = *a.WeightDecay
	}
	builder := spec.Must(recorded.Optimizer(a.Optimizer, a.OptimizerKwargs.Merge(spec.NewObject("args", own))))
	if len(a.NoDecay) == 0 {
		frozen := func(p torch.Named) bool { return !p.Tensor.NeedsGrad() }
		return spec.Must(builder.Build([]optim.Group{{Params: slices.DeleteFunc(params, frozen)}}))
	}
	groups := []optim.Group{{WeightDecay: cmp.Or(a.WeightDecay, new(0.0))}, {WeightDecay: new(0.0)}}
	for _, p := range params { // including frozen ones, as in the recipe
		g := &groups[0]
		if slices.ContainsFunc(a.NoDecay, func(part string) bool { return strings.Contains(p.Name, part) }) {
			g = &groups[1]
		}
		g.Params = append(g.Params, p)
	}
	return spec.Must(builder.Build(groups))
}

// schedule returns a schedule of transformers, or a class of torch.optim.lr_scheduler. For an
// adaptive one it returns errAdaptive: its step needs a measured value, which these loops do not
// provide.
func schedule(name string, kwargs map[string]any, warmup float64) (lr.Schedule, error) {
	if name == "constant" {
		warmup = 0 // get_scheduler ignores it
	}
	schedule, err := lr.ByName(name, kwargs, warmup)
	if cycle, ok := schedule.(lr.OneCycleLR); ok && cycle.TotalSteps == 0 { // package lr would take it from the run
		return nil, fmt.Errorf("OneCycleLR has neither total_steps nor epochs and steps_per_epoch")
	}
	if err == nil {
		return schedule, nil
	}
	if _, adaptiveErr := lr.AdaptiveByName(name, kwargs); adaptiveErr == nil {
		return nil, errAdaptive
	}
	return nil, err
}

var (
	errAdaptive = errors.New("the schedule follows a measured value, and the loop gives it none")
	errNoLength = errors.New("the training set is a stream, which has no length")
)

// parseFactor parses the factor of a schedule: the body of a Python lambda over n, such as "1.0 - n
// / T", in which names are constants.
func parseFactor(text string, names map[string]float64) func(n int) float64 {
	f, err := pylambda.Parse("lambda n: "+text, names)
	if err != nil {
		spec.Refusef("lr_lambda: %v", err)
	}
	return func(n int) float64 { return f(float64(n)) }
}

// without returns a copy of an object without some fields.
func without(fields map[string]any, names ...string) map[string]any {
	fields = maps.Clone(fields) // the specification must not change
	maps.DeleteFunc(fields, func(name string, _ any) bool { return slices.Contains(names, name) })
	return fields
}

// applyInjections overwrites gradients as the case specifies.
func applyInjections(list []injection, m *model, micro int) {
	for _, i := range list {
		if i.micro != micro {
			continue
		}
		params := nn.Params(m.module)
		at := slices.IndexFunc(params, func(p torch.Named) bool { return p.Name == i.param })
		if at < 0 {
			spec.Failf("inject: the model has no parameter %q", i.param)
		}
		grad := params[at].Tensor.Grad()
		if !grad.Defined() {
			spec.Failf("inject: the parameter %q has no gradient", i.param)
		}
		torch.NoGrad(func() { grad.View(-1).Narrow(0, 0, 1).Fill_(i.value) })
	}
}

// takes refuses a batch with a column that the model's forward does not accept, like an unknown
// keyword argument in Python.
func takes(m *model, b batch) {
	for name := range b.columns {
		if !slices.Contains(m.inputs, name) {
			panic(&torch.Error{Op: "forward", Code: torch.ErrValue,
				Msg: fmt.Sprintf("the model takes no %q, only %s", name, strings.Join(m.inputs, ", "))})
		}
	}
}

// evaluation is the course's: over the whole set, without gradients, with metrics and the mean of
// the batches' losses.
func (a *accelerated) evaluation(ctx context.Context, epoch int) {
	nn.SetTraining(a.model.module, false)
	if a.valid == nil {
		spec.Failf("an evaluation is asked for, but there is no evaluation set")
	}
	names := a.spec.Metrics
	if !a.spec.HasMetrics {
		names = []string{"accuracy"}
	}
	around := a.acc.Autocast
	if a.args.raw { // only training uses autocast
		around = func(forward func()) { forward() }
	}
	var p predictions
	sum, count, rows := 0.0, 0, 0
	for b, err := range a.valid.Batches(ctx) {
		spec.Check(err)
		takes(a.model, b)
		a.order = append(a.order, b.index...)
		if !b.has("labels") {
			spec.Failf("the evaluation set has no labels")
		}
		torch.NoGrad(func() {
			torch.Scope(func() {
				var out output
				around(func() { out = a.model.forward(b, 0) })
				sum += out.loss.Item()
				p.add(out.logits, b.tensor("labels"))
			})
		})
		rows += len(b.index)
		count++
	}
	spec.Check(ctx.Err())
	metrics := trace.Object{"mean_batch_loss": sum / float64(count)}
	for name, v := range spec.Must(p.compute(names)) {
		metrics[name] = v
	}
	a.recorder.evaluation(trace.Of("step", a.updates, "epoch", epoch, "num_samples", rows, "metrics", metrics))
}
