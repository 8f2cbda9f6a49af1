package expected

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/compat/pytorchaccelerated"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/semantics"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// Claims about order and counting, which need no tensors.

// loop runs a recording step over a number of samples.
func loop(step *trainertest.Step, o trainer.Options, samples, evaluated int) *trainer.Result {
	o.Progress = io.Discard
	t := spec.Must(trainer.New[int, []int](step, o))
	var valid data.Dataset[int]
	if evaluated > 0 {
		valid = trainertest.Samples(evaluated)
	}
	return spec.Must(t.Fit(context.Background(), trainertest.Samples(samples), valid))
}

// defaults are the defaults of Hugging Face's TrainingArguments, with the resulting number of
// updates for a data set.
type defaults struct {
	Epochs    float64 `json:"num_train_epochs"`
	BatchSize int     `json:"per_device_train_batch_size"`
	Rate      float64 `json:"learning_rate"`
	Scheduler string  `json:"lr_scheduler_type"`
	Samples   int     `json:"train_len"`
	Steps     int     `json:"steps_default"`
}

func (c defaults) run() {
	schedule := supported(lr.ByName(c.Scheduler, nil, 0))
	info := &planned{}
	o := trainer.Options{Semantics: semantics.HuggingFace, Callbacks: []any{info}}
	r := loop(new(trainertest.Step), o, c.Samples, 0)
	equal("the number of updates", r.GlobalStep, c.Steps)
	equal("the number of epochs", info.Epochs, c.Epochs)
	equal("the batch size", info.BatchSize, c.BatchSize)
	equal("the learning rate", info.LearningRate, c.Rate)
	equal("the default schedule", fmt.Sprintf("%T", lr.Schedule(lr.Linear{})), fmt.Sprintf("%T", schedule))
}

// planned records the Info of a run, and can stop the run at once.
type planned struct {
	trainer.Info
	maxSteps int
	stop     bool
}

func (p *planned) TrainBegin(r *trainer.Run) error {
	p.Info, p.maxSteps = r.Info, r.MaxSteps
	if p.stop {
		r.Stop("the plan is all that was asked for")
	}
	return nil
}

// rotation is Hugging Face's test of save_total_limit: which checkpoints are kept for a limit, with
// and without a best checkpoint.
func rotation(_ Options, raw json.RawMessage) {
	var members map[string]json.RawMessage
	spec.Check(json.Unmarshal(raw, &members))
	var dirs []int
	if err := json.Unmarshal(members["dirs"], &dirs); err != nil || len(dirs) == 0 {
		unsupported("dirs is %s; want the steps of the checkpoints", members["dirs"])
	}
	compared := 0
	for _, name := range names(members) {
		if name == "dirs" || members[name][0] == '"' {
			continue
		}
		text, best, _ := strings.Cut(strings.TrimPrefix(name, "limit"), "_best")
		limit, err := strconv.Atoi(text)
		step, errBest := strconv.Atoi(best)
		if err != nil || best != "" && errBest != nil {
			unsupported("unknown field %q; want limitN or limitN_bestSTEP", name)
		}
		var want []int
		supported(0, json.Unmarshal(members[name], &want))
		if got := kept(dirs, limit, step); !slices.Equal(got, want) {
			spec.Failf("%s: the checkpoints %v stay, want %v", name, got, want)
		}
		compared++
	}
	if compared == 0 {
		unsupported("there is no limit to try")
	}
}

// kept trains with a checkpoint at each of the steps, the best of them at step best (0: none), and
// returns those that are left.
func kept(steps []int, limit, best int) (left []int) {
	dir := spec.Must(os.MkdirTemp("", "expected-"))
	defer os.RemoveAll(dir)
	every := steps[0]
	for i, s := range steps {
		if s != every*(i+1) || every <= 0 {
			unsupported("the checkpoints %v are not at regular steps", steps)
		}
	}
	rules := semantics.HuggingFace
	// The peer's test covers only the rotation, not what happens at the end of a run.
	rules.OnlyBestAtEnd = false
	o := trainer.Options{OutputDir: dir, MaxSteps: steps[len(steps)-1], BatchSize: 1, KeepCheckpoints: limit,
		Save: trainer.Every(every, trainer.Update), Eval: trainer.Never, Semantics: rules}
	step, evaluated := new(trainertest.Step), 0
	if best > 0 {
		evaluated, o.Eval, o.MetricForBest = 1, o.Save, "loss"
		step.EvalMetrics = func(evaluation int, _ []int) trainer.Metrics {
			return trainer.Metrics{"loss": math.Abs(float64(evaluation*every - best))}
		}
	}
	loop(step, o, 1, evaluated)
	for _, f := range spec.Must(filepath.Glob(filepath.Join(dir, "checkpoint-*"))) {
		left = append(left, spec.Must(strconv.Atoi(strings.TrimPrefix(filepath.Base(f), "checkpoint-"))))
	}
	slices.Sort(left)
	return left
}

// skipped is the rest of an epoch after skipping batches: Accelerate's skip_first_batches.
type skipped struct {
	Dataset, Batch, Skip int
	Expected             [][]int
}

func (c skipped) run() {
	got := batches(c.Dataset, c.Skip, data.LoaderOptions{BatchSize: c.Batch})
	if !slices.EqualFunc(got, c.Expected, slices.Equal) {
		spec.Failf("the batches are %v, want %v", got, c.Expected)
	}
}

// shards are the parts of an epoch that each process sees: Accelerate's BatchSamplerShard.
type shards struct {
	prose
	Samples      int       `json:"dataset_size"`
	BatchSize    int       `json:"batch_size"`
	DropLast     bool      `json:"drop_last"`
	Processes    int       `json:"num_processes"`
	SplitBatches bool      `json:"split_batches"`
	EvenBatches  bool      `json:"even_batches"`
	Expected     [][][]int `json:"expected_per_process"`
}

func (c shards) run() {
	equal("the number of processes", len(c.Expected), c.Processes)
	for rank, want := range c.Expected {
		got := batches(c.Samples, 0, data.LoaderOptions{BatchSize: c.BatchSize, DropLast: c.DropLast,
			Shard: data.Shard{Rank: rank, WorldSize: c.Processes, SplitBatches: c.SplitBatches,
				Uneven: !c.EvenBatches}})
		if !slices.EqualFunc(got, want, slices.Equal) {
			spec.Failf("the batches of process %d are %v, want %v", rank, got, want)
		}
	}
}

// batches returns the indices in the batches of a loader.
func batches(samples, skip int, o data.LoaderOptions) (got [][]int) {
	collate := func(samples []int) ([]int, error) { return slices.Clone(samples), nil }
	loader := supported(data.NewLoader(trainertest.Samples(samples), collate, o))
	for b, err := range loader.Epoch(context.Background(), 0, skip) {
		spec.Check(err)
		got = append(got, b)
	}
	return got
}

// maxSteps is the number of updates of a run that is limited by epochs or by a number of updates.
type maxSteps struct {
	Batches, Accumulation, Epochs int
	MaxSteps                      int `json:"max_steps"` // null: limited by epochs
	Updates                       int
}

func (c maxSteps) run() {
	rules := semantics.PytorchAccelerated
	rules.ClipEveryBatch = false // a recording step has no gradients
	o := trainer.Options{BatchSize: 1, Accumulate: c.Accumulation, MaxSteps: c.MaxSteps, Epochs: float64(c.Epochs),
		Semantics: rules}
	if c.MaxSteps > 0 {
		o.Epochs = 0
	}
	equal("the number of updates", loop(new(trainertest.Step), o, c.Batches, 0).GlobalStep, c.Updates)
}

// lossTracker is pytorch-accelerated's mean of losses.
type lossTracker struct {
	Losses     []float64
	BatchSizes []int `json:"batch_sizes"` // null: every batch has weight one
	Average    float64
}

func (c lossTracker) run() {
	sizes := c.BatchSizes
	if sizes == nil {
		sizes = slices.Repeat([]int{1}, len(c.Losses))
	}
	if len(sizes) != len(c.Losses) {
		unsupported("there are %d batch sizes for %d losses", len(sizes), len(c.Losses))
	}
	var tracker pytorchaccelerated.LossTracker
	for i, loss := range c.Losses {
		tracker.Update(loss, sizes[i])
	}
	near("the mean loss", tracker.Average(), c.Average, 1e-12, 0)
}

// tutorial holds the numbers of a training of the plate reader in Hezar's documentation. The
// planned numbers can be checked quickly; those of the training itself cannot.
type tutorial struct {
	File          string
	Train         int
	InvalidTrain  int `json:"invalid_train"`
	Eval          int
	InvalidEval   int `json:"invalid_eval"`
	Batch, Epochs int
	TotalSteps    int `json:"total_steps"`
	StepsPerEpoch int `json:"steps_per_epoch"`
	EvalBatches   int `json:"eval_batches"`
	Optimizer     string
	Parameters    int
	CER           []float64 `json:"cer_by_epoch"`
	EvalLoss      []float64 `json:"eval_loss_by_epoch"`
	TrainLoss     []float64 `json:"train_loss_running"`
}

func (c tutorial) run() {
	plan := &planned{stop: true}
	loop(new(trainertest.Step), trainer.Options{BatchSize: c.Batch, EvalBatchSize: c.Batch,
		Epochs: float64(c.Epochs), Callbacks: []any{plan}}, c.Train, c.Eval)
	equal("the number of updates", plan.maxSteps, c.TotalSteps)
	equal("updates in an epoch", plan.UpdatesPerEpoch, c.StepsPerEpoch)
	equal("the number of batches of an evaluation", plan.EvalBatches, c.EvalBatches)
	unsupported("the plan is right; losses and error rates are those of a training on %d pictures, which are "+
		"not in the data folder", c.Train)
}
