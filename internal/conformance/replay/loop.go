package replay

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/conformance/recorded"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/internal/conformance/trace"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/torch"
)

// What the two loops that are written by hand, course and accelerate, have in common.

// loopArgs are their arguments.
type loopArgs struct {
	seed                *uint64 // nil: the stream of the initialisation goes on
	epochs              int
	batchSize           int
	evalBatchSize       int
	shuffle, dropLast   bool
	optimizer           string
	optimizerKwargs     *spec.Object
	learningRate        float64
	weightDecay         *float64
	noDecay             []string
	schedule            scheduleArgs
	trainingSteps       int // that the schedule is planned for; 0: epochs times batches
	accumulate          int
	clipNorm, clipValue *float64
	precision           string
	evaluate            string
	inject              []injection
}

// scheduleArgs name a schedule of transformers, or a class of torch.optim.lr_scheduler.
type scheduleArgs struct {
	name   string
	torch  bool
	kwargs map[string]any
	warmup float64
}

// injection overwrites element 0 of a gradient after the backward pass of a micro-batch.
type injection struct {
	micro int
	param string
	value float64
}

func readLoopArgs(o *spec.Object) loopArgs {
	seed := uint64(o.Int("seed", 42))
	a := loopArgs{
		seed: &seed, epochs: o.Int("num_epochs", 3), batchSize: o.Int("batch_size", 8), shuffle: o.Bool("shuffle",
			true), dropLast: o.Bool("drop_last", false),
		optimizer: o.String("optimizer", "adamw"), optimizerKwargs: o.Object("optimizer_kwargs"),
		learningRate: o.Float("learning_rate", 5e-5),
		weightDecay:  o.FloatOrNil("weight_decay"), noDecay: o.Strings("no_decay"),
		trainingSteps: o.Int("num_training_steps", 0),
		accumulate:    o.Int("gradient_accumulation_steps", 1), clipNorm: o.FloatOrNil("clip_grad_norm"),
		clipValue: o.FloatOrNil("clip_grad_value"),
		precision: o.OneOf("mixed_precision", "no", "no", "bf16", "fp16"), evaluate: o.OneOf("evaluate", "", "no",
			"epoch", "end"),
	}
	if o.Has("seed") && o.Any("seed") == nil {
		a.seed = nil
	}
	a.evalBatchSize = o.Int("eval_batch_size", a.batchSize)
	a.schedule = scheduleArgs{name: o.String("lr_scheduler", "linear"), warmup: o.Float("num_warmup_steps", 0)}
	if name := o.String("torch_scheduler", ""); name != "" {
		a.schedule = scheduleArgs{name: name, torch: true}
	}
	if k := o.Object("scheduler_kwargs"); k != nil {
		a.schedule.kwargs = k.Map()
	}
	for _, i := range o.Objects("inject") {
		text := i.Any("value")
		value, err := strconv.ParseFloat(fmt.Sprint(text), 64)
		if err != nil {
			i.Fail("value", `a number, "inf", "-inf" or "nan"`)
		}
		a.inject = append(a.inject, injection{i.Int("micro", 0), i.String("param", ""), value})
	}
	return a
}

// builder makes the settings of the optimizer from its keyword arguments.
func (a loopArgs) builder() (optim.Builder, error) {
	own := map[string]any{"lr": json.Number(strconv.FormatFloat(a.learningRate, 'g', -1, 64))}
	if a.weightDecay != nil && len(a.noDecay) == 0 { // else it is the groups'
		own["weight_decay"] = json.Number(strconv.FormatFloat(*a.weightDecay, 'g', -1, 64))
	}
	return recorded.Optimizer(a.optimizer, a.optimizerKwargs.Merge(spec.NewObject("args", own)))
}

// buildOptimizer makes one group of the parameters that are trained, or the two groups of the
// course's recipe for weight decay.
func (a loopArgs) buildOptimizer(m model) (optim.Optimizer, error) {
	b, err := a.builder()
	if err != nil {
		return nil, err
	}
	if len(a.noDecay) == 0 {
		var trained []torch.Named
		for _, p := range nn.Params(m.module()) {
			if p.Tensor.NeedsGrad() {
				trained = append(trained, p)
			}
		}
		return b.Build([]optim.Group{{Params: trained}})
	}
	groups := []optim.Group{{WeightDecay: new(0.0)}, {WeightDecay: new(0.0)}}
	if a.weightDecay != nil {
		groups[0].WeightDecay = a.weightDecay
	}
	for _, p := range nn.Params(m.module()) { // frozen ones too, as in the recipe
		g := &groups[0]
		for _, part := range a.noDecay {
			if strings.Contains(p.Name, part) {
				g = &groups[1]
			}
		}
		g.Params = append(g.Params, p)
	}
	return b.Build(groups)
}

// build finds the schedule. An adaptive one comes back as errAdaptive: its scheduler wants a
// measured value at every step, which these loops do not give.
func (s scheduleArgs) build() (lr.Schedule, error) {
	if s.name == "constant" {
		s.warmup = 0 // get_scheduler passes over it
	}
	schedule, err := lr.ByName(s.name, s.kwargs, s.warmup)
	if cycle, ok := schedule.(lr.OneCycleLR); ok && cycle.TotalSteps == 0 { // which ours takes from the run
		return nil, fmt.Errorf("OneCycleLR has neither total_steps nor epochs and steps_per_epoch")
	}
	if err == nil {
		return schedule, nil
	}
	if _, adaptiveErr := lr.AdaptiveByName(s.name, s.kwargs); adaptiveErr == nil {
		return nil, errAdaptive
	}
	return nil, err
}

var errAdaptive = fmt.Errorf("the schedule follows a measured value, and the loop gives it none")

// applyInjections overwrites gradients as the case asks.
func applyInjections(list []injection, m model, micro int) error {
	for _, i := range list {
		if i.micro != micro {
			continue
		}
		found := false
		for _, p := range nn.Params(m.module()) {
			if p.Name != i.param {
				continue
			}
			grad := p.Tensor.Grad()
			if !grad.Defined() {
				return fmt.Errorf("inject: the parameter %q has no gradient", i.param)
			}
			torch.NoGrad(func() { grad.View(-1).Narrow(0, 0, 1).Fill_(i.value) })
			found = true
		}
		if !found {
			return fmt.Errorf("inject: the model has no parameter %q", i.param)
		}
	}
	return nil
}

// drawInt64 is torch.empty((), dtype=torch.int64).random_().
func drawInt64() (number int64) {
	torch.Scope(func() {
		number = torch.Values[int64](torch.TensorOptions{DType: torch.Int64}.Empty().Random_(nil))[0]
	})
	return number
}

// globalShuffle is the order of DataLoader(shuffle=True) without a generator.
var globalShuffle = data.OrderFunc(func(_, n int) []int { return data.Permutation(uint64(drawInt64()), n) })

// takes refuses a batch with a column that the model's forward does not know, as a Python call with
// an unknown keyword does.
func takes(m model, b batch) error {
	known := m.inputs()
next:
	for name := range b.columns {
		for _, k := range known {
			if k == name {
				continue next
			}
		}
		return fmt.Errorf("the model's forward takes no %q, only %s", name, strings.Join(known, ", "))
	}
	return nil
}

// evaluate is the course's evaluation: over the whole set, without gradients, with metrics and the
// mean of the batches' losses. around is the context of a forward pass.
func evaluate(ctx context.Context, s *spec.Spec, rec *recorder, m model, batches iter.Seq2[batch, error],
	around func(func()), where ...any) error {
	nn.SetTraining(m.module(), false)
	names := s.Metrics
	if !s.HasMetrics {
		names = []string{"accuracy"}
	}
	var p predictions
	var losses []float64
	rows := 0
	for b, err := range batches {
		if err == nil {
			err = takes(m, b)
		}
		if err != nil {
			return err
		}
		rec.order = append(rec.order, b.index...)
		if !b.has("labels") {
			return fmt.Errorf("the evaluation set has no labels")
		}
		torch.NoGrad(func() {
			torch.Scope(func() {
				var out output
				around(func() { out = forward(m, b, 0) })
				losses = append(losses, out.loss.Item())
				p.add(out.logits, b.tensor("labels"))
			})
		})
		rows += len(b.index)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	values, err := p.compute(names)
	if err != nil {
		return err
	}
	sum := 0.0
	for _, l := range losses {
		sum += l
	}
	result := trace.Object{}
	for _, name := range names {
		result = result.With(name, values[name])
	}
	result = result.With("mean_batch_loss", sum/float64(len(losses)))
	rec.evaluation(trace.Of(where...).With("num_samples", rows, "metrics", result))
	return nil
}
