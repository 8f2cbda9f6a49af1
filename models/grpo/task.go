package grpo

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/gotrainer/gotrainer/models/dpo"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/internal/logprob"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// Model is a decoder in two parts, so that log probabilities can be computed without the logits of
// a whole batch in memory. The decoders of package auto are such models.
type Model interface {
	dpo.Model
	// AbsolutePositions reports whether padding before a text changes the positions of its tokens,
	// as with learned positions (GPT-2).
	AbsolutePositions() bool
}

// TaskOptions configures [NewTask]. The zero value of a field is the default of TRL's GRPOConfig or,
// with RLOO, of its RLOOConfig.
type TaskOptions struct {
	LossOptions
	Rewards []Reward // required
	RLOO    *RLOO    // nil: GRPO

	// NumGenerations is how many completions of each prompt are generated and compared; zero: 8, and 2
	// with RLOO; at least 2. NumGenerationsEval is that of evaluations; zero: NumGenerations.
	NumGenerations, NumGenerationsEval int
	// StepsPerGeneration is the number of micro-batches that the completions of a batch are split
	// into, in random order. A micro-batch has BatchSize·NumGenerations/StepsPerGeneration
	// completions, where BatchSize, of trainer.Options, counts prompts. Zero: 1; TRL's default is
	// the number of micro-batches of an update.
	StepsPerGeneration int
	// NumIterations is how often the model is trained on all of them; zero: 1.
	NumIterations int

	// MaxCompletionLength is the most tokens of a completion; zero: 512.
	MaxCompletionLength int
	// Temperature divides the logits, in training too; zero: 1.
	Temperature       float64
	TopP              float64 // see auto.Generation; zero: 1
	TopK              int     // zero: all tokens
	MinP              float64 // zero: none
	RepetitionPenalty float64 // zero: 1

	ScaleRewards              ScaleRewards // empty: ScaleGroup
	MultiObjectiveAggregation Aggregation  // empty: SumThenNormalize
	// MaskTruncatedCompletions excludes completions without an end token from the loss.
	MaskTruncatedCompletions bool
	// DisableDropout removes the model's dropout. Otherwise it is active in training passes.
	// Completions are always generated without it.
	DisableDropout bool

	// Reference is the model that the KL divergence is measured from. If its Run is nil and
	// NeedsReference, package auto sets it.
	Reference dpo.Reference
	// Generate completes each prompt n times and returns the completions of the first prompt, then
	// those of the second. It is called without gradients and with the model in evaluation mode.
	// Nil: package auto sets it to the model's own generation with the settings above.
	Generate func(p engine.ForwardPass, prompts [][]int64, n int) ([][]int64, error)
	// Decode converts a completion to text for reward functions. Nil: package auto sets it if the
	// model has a tokenizer.
	Decode func(ids []int64) string
	// EOSTokenIDs end a completion; nil: package auto sets them to those of the tokenizer and of
	// the model.
	EOSTokenIDs []int64

	// LogCompletions gets a line of JSON for each completion of the training: prompt, completion,
	// rewards and advantage. Nil: none. On several processes each has its own, and writes what it has
	// generated.
	LogCompletions io.Writer
}

// Task ties a model to prompts and rewards. It belongs to one run at a time. An evaluation generates
// completions too; see "What is logged" above.
type Task struct {
	engine.Observations[group]
	model   Model
	limits  inputs.Limits
	options TaskOptions
	ends    []int64 // tokens that end a completion

	progress progress
	place    logprob.Place // of a separate reference model
}

var (
	_ engine.Task[Sample, Batch]  = (*Task)(nil)
	_ engine.Evaluator[Batch]     = (*Task)(nil)
	_ engine.ObservationSharer    = (*Task)(nil)
	_ engine.TrainingLogger       = (*Task)(nil)
	_ engine.StateOwner           = (*Task)(nil)
	_ engine.DeviceSpecificSeeder = (*Task)(nil)
	_ engine.Configurer           = (*Task)(nil)
	_ engine.OptionsValidator     = (*Task)(nil)
	_ engine.Lengther[Sample]     = (*Task)(nil)
)

// NewTask makes the task of a model.
func NewTask(m Model, o TaskOptions) (t *Task, err error) {
	t = &Task{model: m, limits: m.Limits()}
	if len(o.EOSTokenIDs) > 0 {
		t.ends = append(slices.Clone(o.EOSTokenIDs), t.limits.PadTokenID)
	}
	if o, err = o.withRLOO(); err != nil {
		return nil, err
	}
	if o.LossOptions, err = o.LossOptions.resolved(); err != nil {
		return nil, err
	}
	if o.RLOO != nil {
		o.LossType = rloo
	}
	if o.Rewards, err = checkRewards(o.Rewards); err != nil {
		return nil, err
	}
	o.NumGenerations = cmp.Or(o.NumGenerations, 8)
	o.NumGenerationsEval = cmp.Or(o.NumGenerationsEval, o.NumGenerations)
	o.StepsPerGeneration, o.NumIterations = cmp.Or(o.StepsPerGeneration, 1), cmp.Or(o.NumIterations, 1)
	o.MaxCompletionLength, o.Temperature = cmp.Or(o.MaxCompletionLength, 512), cmp.Or(o.Temperature, 1)
	o.ScaleRewards = cmp.Or(o.ScaleRewards, ScaleGroup)
	o.MultiObjectiveAggregation = cmp.Or(o.MultiObjectiveAggregation, SumThenNormalize)
	if err := o.check(int(t.limits.MaxLength)); err != nil {
		return nil, err
	}
	if err := logprob.CheckOutput("grpo", m); err != nil {
		return nil, err
	}
	if o.DisableDropout {
		transformer.DisableDropout(m)
	}
	t.options = o
	return t, nil
}

// check refuses invalid values, for a model that takes the given number of tokens.
func (o TaskOptions) check(takes int) error {
	for _, c := range []struct {
		bad  bool
		name string
		is   any
		want string
	}{
		{o.NumGenerations < 2, "NumGenerations", o.NumGenerations, "at least 2, to compare them"},
		{o.NumGenerationsEval < 1, "NumGenerationsEval", o.NumGenerationsEval, "at least 1"},
		{o.StepsPerGeneration < 1, "StepsPerGeneration", o.StepsPerGeneration, "at least 1"},
		{o.NumIterations < 1, "NumIterations", o.NumIterations, "at least 1"},
		{o.MaxCompletionLength < 1 || o.MaxCompletionLength >= takes, "MaxCompletionLength", o.MaxCompletionLength,
			fmt.Sprintf("1 to %d, since the model has positions for %d tokens and a prompt needs some", takes-1, takes)},
		{!(o.Temperature > 0) || math.IsInf(o.Temperature, 0), "Temperature", o.Temperature, "a finite number above 0"},
		{!slices.Contains([]ScaleRewards{ScaleGroup, ScaleBatch, ScaleNone}, o.ScaleRewards), "ScaleRewards",
			o.ScaleRewards, fmt.Sprintf("%s, %s or %s", ScaleGroup, ScaleBatch, ScaleNone)},
		{!slices.Contains([]Aggregation{SumThenNormalize, NormalizeThenSum}, o.MultiObjectiveAggregation),
			"MultiObjectiveAggregation", o.MultiObjectiveAggregation,
			fmt.Sprintf("%s or %s", SumThenNormalize, NormalizeThenSum)},
		{o.MaskTruncatedCompletions && len(o.EOSTokenIDs) == 0, "MaskTruncatedCompletions", true,
			"a model that ends completions with a token, or EOSTokenIDs: nothing would be learned"},
		{o.Generate == nil, "Generate", "nil", "a function; GRPOTask of package auto sets it"},
		{(o.Beta != 0) != (o.Reference.Run != nil), "Beta", o.Beta, "a Reference, with Run, exactly if it is not 0; " +
			"GRPOTask of package auto makes it"},
	} {
		if c.bad {
			return fmt.Errorf("grpo: TaskOptions.%s is %v; want %s", c.name, c.is, c.want)
		}
	}
	return nil
}

// every returns the number of micro-batches between two generations.
func (t *Task) every() int { return t.options.StepsPerGeneration * t.options.NumIterations }

// ValidateOptions refuses options that do not work with generated completions.
func (t *Task) ValidateOptions(o engine.Options) error {
	if o.Graphs.Kinds > 0 {
		return errors.New("grpo: Options.Graphs is set, but Loss generates text, token by token, which cannot be recorded; " +
			"leave it out")
	}
	if inputs.PaddingFree(t.model) {
		return errors.New("grpo: the model is PaddingFree, but completions are padded on both sides, as generation needs " +
			"it; leave SetPaddingFree out")
	}
	if o.NEFTuneAlpha != 0 {
		return errors.New("grpo: Options.NEFTuneAlpha is set, whose noise would make the probabilities that are learned " +
			"others than those that completions are generated with; leave it out")
	}
	if o.Sharding != 0 {
		return fmt.Errorf("grpo: Options.Sharding is %v, and processes would have to generate in step, since each holds a "+
			"part of the weights; leave it out", o.Sharding)
	}
	return nil
}

// DeviceSpecificSeed has each process draw its own completions, as in TRL.
func (t *Task) DeviceSpecificSeed() {}

// Model returns the model.
func (t *Task) Model() any { return t.model }

// WriteConfig writes config.json into a folder.
func (t *Task) WriteConfig(dir string) error { return t.model.WriteConfig(dir) }

// Loss generates completions if they are due, and runs the model on those of this micro-batch.
func (t *Task) Loss(p engine.ForwardPass, b Batch) engine.Loss {
	if p.Part {
		panic(torch.Errorf("grpo.Task.Loss", torch.ErrNotSupported, "the micro-batch did not fit into memory, and it cannot "+
			"be divided, since completions are compared with each other; want a smaller BatchSize, a larger "+
			"StepsPerGeneration, or GradientCheckpointing"))
	}
	g, steps := &t.progress.Generation, t.options.StepsPerGeneration
	if t.progress.Step%t.every() == 0 {
		if n := len(b.Samples) * t.options.NumGenerations; n%steps != 0 {
			panic(torch.Errorf("grpo.Task.Loss", torch.ErrValue, "a batch of %d prompts makes %d completions, which cannot be "+
				"spread over %d micro-batches (TaskOptions.StepsPerGeneration); want a BatchSize that makes a multiple of it, "+
				"and Task.Order, which leaves out what does not fill a batch", len(b.Samples), n, steps))
		}
		made, c := t.generate(p, b.Samples, t.options.NumGenerations, steps)
		t.logCompletions(made, c)
		made.Rollouts = shuffled(made.Rollouts)
		*g = made
	} else if !g.of(b) {
		panic(torch.Errorf("grpo.Task.Loss", torch.ErrValue, "the batch has other prompts than those whose completions are "+
			"learned in %d micro-batches (StepsPerGeneration times NumIterations); want Task.Order in trainer.Options.Order, "+
			"with the BatchSize of trainer.Options times the number of processes; a run goes on with another number of "+
			"processes only between two generations", t.every()))
	}
	n := len(g.Rollouts) / steps
	list := g.Rollouts[t.progress.Step%steps*n:][:n]
	loss := t.loss(p, g, list)
	t.progress.Step++
	return loss
}

// loss returns the loss of a micro-batch of rollouts.
func (t *Task) loss(p engine.ForwardPass, g *generation, list []rollout) engine.Loss {
	value, x, o := t.pass(p, g, list)
	loss := engine.Mean(value, len(list))
	if slices.Contains(perItem, t.options.LossType) {
		loss = engine.PerItem(value, len(list))
	}
	torch.NoGrad(func() { loss.Logged = t.logged(p, g, x, o) })
	return loss
}

// pass runs the model on rollouts.
func (t *Task) pass(p engine.ForwardPass, g *generation, list []rollout) (loss torch.Tensor, x learned, o objective) {
	x = t.learned(p, g, list)
	o = t.options.objective(x)
	items := torch.TensorOptions{Device: p.Device}.Full(float64(max(g.Items, 1)))
	if p.WindowLen > 0 { // items counts a whole generation; a window may have fewer or more micro-batches
		items = items.MulScalar(p.WindowLen).DivScalar(t.options.StepsPerGeneration)
	}
	return t.options.reduced(o.perToken, x.mask, items, t.options.MaxCompletionLength), x, o
}

// of reports whether the completions belong to a batch.
func (g *generation) of(b Batch) bool {
	same := func(ids []int64, s Sample) bool { return slices.Equal(ids, s.PromptIDs) }
	return slices.EqualFunc(g.Prompts, b.Samples, same)
}

// learned returns the input of the loss for rollouts.
func (t *Task) learned(p engine.ForwardPass, g *generation, list []rollout) (x learned) {
	v := t.view(p, g, list)
	s := t.scored(t.model, v)
	x = learned{logps: s.LogProbs, entropy: s.Entropy, mask: v.counts, gather: p.Gather}
	field := func(of func(r rollout) []float32, width int) torch.Tensor {
		if of(list[0]) == nil {
			return torch.Tensor{}
		}
		values := make([]float32, len(list)*width)
		for i, r := range list {
			copy(values[i*width:], of(r))
		}
		return torch.From(values, int64(len(list)), int64(width)).ToDevice(p.Device) // in float32, whatever the precision is
	}
	x.advantages = field(func(r rollout) []float32 { return []float32{r.Advantage} }, 1)
	x.old = field(func(r rollout) []float32 { return r.Old }, g.LongestAnswer)
	x.ref = field(func(r rollout) []float32 { return r.Ref }, g.LongestAnswer)
	return x
}
