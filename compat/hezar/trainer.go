package hezar

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/callback"
)

// Trainer trains a model as Hezar's Trainer does. It is used by one goroutine at a time.
type Trainer[S, B any] struct {
	Config TrainerConfig // with defaults, shares and names resolved
	State  TrainerState  // kept up to date while it trains

	NumBatches   int // of an epoch: those of the training set
	TotalSteps   int // batches of the run
	StepsInEpoch int // batches of an epoch, no more than TotalSteps
	SavesInEpoch int

	options Options[S, B]
	call    *Overrides[S, B] // of options, complete
	model   Model[S, B]
	train   data.Dataset[S]
	device  torch.Device
	collate func([]S) (B, error)

	optimizer optim.Optimizer
	scheduler *scheduler // nil: the rate stays
	scaler    *amp.GradScaler
	precision amp.Precision

	handler  MetricsHandler
	maximize bool
	loss     trainer.RunningLoss
	csv      *CSVLog
	events   *callback.EventWriter

	initReport *nn.Report
	from       string // the checkpoint that the run continues from; empty: none
	runState   []byte // of the run, in that checkpoint; nil: it has none
	// the family of the optimizer whose checkpoint cannot be gone on from, by
	// Rules.CheckpointSettings; empty: it can
	foreign string
	rate    float64 // without a schedule, and what one is planned from
	every   int     // batches from one move of the schedule to the next

	window  trainer.Window // of the current batch
	session *session[S, B] // nil unless Train is running
}

// Files and folders of a run, under Hezar's names.
const (
	stateFile     = "trainer_state.yaml"
	csvFile       = "training_logs.csv"
	trainFolder   = "train"
	configFile    = "train_config.yaml"
	datasetFile   = "dataset_config.yaml"
	optimizerFile = "optimizer.pt"
	schedulerFile = "lr_scheduler.pt"
	modelFile     = "model.pt"
	modelConfig   = "model_config.yaml"
	runFile       = "gotrainer_state.json"
)

// New makes a Trainer: the optimizer, the schedule, the metrics and the logs of a configuration,
// with the weights and the state that it says to start from. What cannot be is refused here, before
// anything is written.
func New[S, B any](config TrainerConfig, model Model[S, B], train data.Dataset[S], o Options[S, B]) (*Trainer[S, B],
	error) {
	t := &Trainer[S, B]{options: o, model: model, train: train, collate: o.DataCollator}
	t.call = &t.options.Overrides
	t.call.complete()
	var err error
	if t.Config, err = config.resolved(o.Rules); err != nil {
		return nil, err
	}
	if err := t.check(); err != nil {
		return nil, err
	}
	if err := errors.Join(torch.Try(func() { err = t.build() }), err); err != nil {
		return nil, err
	}
	return t, nil
}

// check looks at the arguments that are no settings, and fills in defaults.
func (t *Trainer[S, B]) check() error {
	switch {
	case t.model == nil:
		return refuse("model", nil, "a model")
	case t.train == nil || t.train.Len() == 0:
		return refuse("train", "an empty data set", "at least one sample")
	case !isTrue(t.Config.DoEvaluate) || t.options.Rules.EmptyEvaluation:
	case t.options.EvalDataset == nil:
		return refuse("Options.EvalDataset", nil, "a data set, or DoEvaluate false")
	case t.options.EvalDataset.Len() == 0:
		return refuse("Options.EvalDataset", "an empty data set", "at least one sample, or DoEvaluate false")
	}
	if t.collate == nil {
		t.collate = t.model.Collate
	}
	if t.options.Output == nil {
		t.options.Output = os.Stderr
	}
	if t.options.Logger == nil {
		t.options.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

func (t *Trainer[S, B]) build() error {
	t.countSteps()
	if err := t.chooseDevice(); err != nil {
		return err
	}
	if t.handler = t.options.MetricsHandler; t.handler == nil {
		var err error
		if t.handler, err = newHandler(t.Config, t.model, t.options.Rules); err != nil {
			return err
		}
	}
	if err := t.chooseObjective(); err != nil {
		return err
	}
	var err error
	if t.State, err = startState(t.Config, t.StepsInEpoch, filepath.Join(t.Config.OutputDir, t.Config.LogsDir,
		t.runName())); err != nil {
		return err
	}
	if t.State.GlobalStep > 0 && t.State.EpochStep > t.StepsInEpoch {
		return fmt.Errorf("hezar: the run to resume stands at batch %d of its epoch, and an epoch has %d now; resume "+
			"with the same data and BatchSize", t.State.EpochStep, t.StepsInEpoch)
	}
	from, err := t.checkpoint()
	if err != nil {
		return err
	}
	torch.ManualSeed(t.seed())
	nn.ToDevice(t.model.Model(), t.device)
	if err := t.loadWeights(from); err != nil {
		return err
	}
	if err := t.buildOptimizer(from); err != nil {
		return err
	}
	if err := t.restore(from); err != nil {
		return err
	}
	return t.openLogs()
}

// countSteps resolves counts and shares.
func (t *Trainer[S, B]) countSteps() {
	c := &t.Config
	t.NumBatches = (t.train.Len() + c.BatchSize - 1) / c.BatchSize
	all := t.NumBatches * c.NumEpochs
	t.TotalSteps = all
	if c.MaxSteps.share != 0 {
		c.MaxSteps = Count(c.MaxSteps.of(t.NumBatches) * c.NumEpochs)
	}
	if c.MaxSteps.n > 0 {
		t.TotalSteps = min(c.MaxSteps.n, all)
	}
	c.SaveSteps, c.LogSteps = c.SaveSteps.counted(t.TotalSteps), c.LogSteps.counted(t.TotalSteps)
	t.StepsInEpoch = min(t.NumBatches, t.TotalSteps)
	if c.SaveSteps.isZero() {
		c.SaveSteps = Count(t.StepsInEpoch)
	}
	t.SavesInEpoch = t.StepsInEpoch / c.SaveSteps.n
}

func (t *Trainer[S, B]) chooseDevice() error {
	device := t.Config.Device
	if t.options.Rules.DeviceIgnored {
		device = "cuda"
	}
	if device == "cuda" && torch.CUDADevices() == 0 || t.Config.UseCPU {
		device = "cpu"
	}
	var err error
	if t.device, err = torch.ParseDevice(device); err != nil {
		return refuse("Device", t.Config.Device, `"cpu", "cuda" or "cuda:1"`)
	}
	switch t.Config.MixedPrecision {
	case "bf16":
		t.precision = amp.BF16
	case "fp16":
		if t.device.IsCUDA() {
			t.precision = amp.FP16
			t.scaler = amp.NewGradScaler(amp.GradScalerOptions{})
		} else if !t.options.Rules.FP16IgnoredOnCPU {
			return refuse("MixedPrecision", "fp16", "bf16 or no on a CPU, which has no float16 to gain from")
		}
	}
	return nil
}

// chooseObjective finds out whether the metric for the best model is better when greater.
func (t *Trainer[S, B]) chooseObjective() error {
	late, target := t.options.Rules.LateMetricCheck, t.Config.MetricForBestModel
	parts := strings.Split(target, ".")
	metric := parts[min(1, len(parts)-1)]
	evaluated := strings.HasPrefix(target, "evaluation.") && isTrue(t.Config.DoEvaluate)
	objective := t.handler.Objective(metric)
	switch {
	case target == "train.loss" || evaluated && metric == "loss":
		return nil
	case late && strings.Contains(metric, "loss"):
		return nil
	case objective != "" && (late || evaluated && slices.Contains(t.handler.Keys(), metric)):
		t.maximize = objective == "maximize"
		return nil
	}
	return refuse("MetricForBestModel", target, fmt.Sprintf("train.loss, evaluation.loss, or evaluation. and one of %q",
		t.handler.Keys()))
}

func (t *Trainer[S, B]) runName() string {
	if t.options.RunName != "" {
		return t.options.RunName
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return time.Now().Format("Jan02_15-04-05") + "_" + host
}

func (t *Trainer[S, B]) seed() uint64 { return uint64(*t.Config.Seed) }

// buildOptimizer makes optimizer and schedule, and continues those of a checkpoint.
func (t *Trainer[S, B]) buildOptimizer(from string) (err error) {
	config, builder := t.Config, t.options.Optimizer
	if builder == nil {
		if t.options.Rules.CheckpointSettings && from != "" {
			if t.foreign, err = config.takeUp(filepath.Join(from, trainFolder, optimizerFile)); err != nil {
				return fmt.Errorf("hezar: %w", err)
			}
		}
		builder = newOptimizer(config, t.device.IsCUDA())
	} else if rate := builder.LearningRate(); rate != 0 {
		t.Config.LearningRate = rate
		config = t.Config
	}
	t.rate = config.LearningRate
	if t.optimizer, err = builder.Build([]optim.Group{{Params: nn.Params(t.model.Model())}}); err != nil {
		return fmt.Errorf("hezar: %w", err)
	}
	if t.Config.LRSchedulingSteps == 0 {
		t.every = t.StepsInEpoch
	} else {
		t.every = t.Config.LRSchedulingSteps
	}
	if t.options.Optimizer == nil || t.options.LRScheduler != nil || t.options.Adaptive != nil ||
		!t.options.Rules.OwnNamesOnly {
		if t.scheduler, err = newScheduler(config, t.options.LRScheduler, t.options.Adaptive,
			max(1, t.TotalSteps/t.every)); err != nil {
			return err
		}
		if s := t.scheduler; s != nil && s.failsAtOnce && t.options.Rules.ScheduleEnds {
			return fmt.Errorf("hezar: LRSchedulerKwargs: the top of the cycle comes before the first update; want " +
				"another pct_start or total_steps")
		}
	}
	if from == "" || t.foreign != "" {
		return nil
	}
	if err := t.scheduler.setMomentum(t.optimizer); err != nil { // for which an optimizer keeps a state
		return err
	}
	folder := filepath.Join(from, trainFolder)
	if path := filepath.Join(folder, optimizerFile); exists(path) {
		if err := loadOptimizer(path, t.optimizer); err != nil {
			return fmt.Errorf("hezar: %w", err)
		}
	}
	if path := filepath.Join(folder, schedulerFile); t.scheduler != nil && exists(path) {
		if err := t.scheduler.load(path); err != nil {
			return fmt.Errorf("hezar: %w", err)
		}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (t *Trainer[S, B]) openLogs() (err error) {
	t.loss = trainer.RunningLoss{Mean: t.State.LossTrackerAvg, Sum: t.State.LossTrackerSum,
		Windows: t.windows(t.State.GlobalStep)}
	if t.options.Rules.LossCountFromSteps {
		t.loss.Windows = t.State.GlobalStep
	}
	t.csv = &CSVLog{}
	if !t.options.Rules.LogStartsAnew && t.State.GlobalStep > 0 {
		if t.csv, err = openCSV(filepath.Join(t.State.LogsDir, csvFile), t.State.GlobalStep); err != nil {
			return err
		}
	}
	t.events, err = callback.NewEventWriter(t.State.LogsDir)
	return err
}

// Close closes the file of TensorBoard events. Train does so too when it ends.
func (t *Trainer[S, B]) Close() error {
	if t.events == nil {
		return nil
	}
	w := t.events
	t.events = nil
	return w.Close()
}

// Model is what is trained, as it was given to New.
func (t *Trainer[S, B]) Model() Model[S, B] { return t.model }

// Optimizer is the optimizer.
func (t *Trainer[S, B]) Optimizer() optim.Optimizer { return t.optimizer }

// Device is where the model is trained.
func (t *Trainer[S, B]) Device() torch.Device { return t.device }

// LearningRate is the rate of the next update.
func (t *Trainer[S, B]) LearningRate() float64 {
	if t.scheduler == nil {
		return t.rate
	}
	return t.scheduler.rate()
}

// Momentum is the momentum that the schedule has for the next update; ok is false where it leaves
// the momentum alone.
func (t *Trainer[S, B]) Momentum() (momentum float64, ok bool) {
	if t.scheduler == nil || t.scheduler.momentum == nil {
		return 0, false
	}
	return t.scheduler.momentum(t.scheduler.moves), true
}

// LRSchedulingSteps is the number of batches from one move of the schedule to the next.
func (t *Trainer[S, B]) LRSchedulingSteps() int { return t.every }

// Objective is "minimize" or "maximize": what is better of MetricForBestModel.
func (t *Trainer[S, B]) Objective() string {
	if t.maximize {
		return "maximize"
	}
	return "minimize"
}

// RunningLoss is the mean of the windows' losses since the start of the run, their sum and their
// number.
func (t *Trainer[S, B]) RunningLoss() (mean, sum float64, windows int) {
	return t.loss.Mean, t.loss.Sum, t.loss.Windows
}

// InitReport says which weights InitWeightsFrom has given, and which not; nil if it was not asked
// for.
func (t *Trainer[S, B]) InitReport() *nn.Report { return t.initReport }

// say writes to the output; nobody can do anything about a terminal that is gone.
func (t *Trainer[S, B]) say(format string, args ...any) {
	_, _ = fmt.Fprintf(t.options.Output, format, args...)
}

var _ io.Closer = (*Trainer[int, int])(nil)

// fetch brings InitWeightsFrom to this machine.
func (t *Trainer[S, B]) fetch(source string) (string, error) {
	if isFolder(source) {
		return source, nil
	}
	get := t.options.Fetch
	if get == nil {
		get = fetchFromHub
	}
	dir, err := get(context.Background(), source)
	if err != nil {
		return "", fmt.Errorf("hezar: InitWeightsFrom is %q, which is no folder here; on the Hub: %w", source, err)
	}
	return dir, nil
}
