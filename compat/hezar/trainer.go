package hezar

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/compat/hezar/datasets"
	"github.com/gotrainer/gotrainer/compat/hezar/repository"
	"github.com/gotrainer/gotrainer/compat/internal/loops"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/internal/torchsave"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/callback"
)

// Trainer trains a model as Hezar's Trainer does. Only one goroutine at a time may use it.
type Trainer[S, B any] struct {
	Config TrainerConfig // with defaults, shares and names resolved
	State  TrainerState  // updated during training

	NumBatches   int // batches of an epoch; with several processes, those of this one
	TotalSteps   int // batches of the run
	StepsInEpoch int // batches of an epoch, at most TotalSteps
	SavesInEpoch int

	options Options[S, B]
	call    *Overrides[S, B] // of options, complete
	model   Model[S, B]
	train   data.Dataset[S]
	device  torch.Device
	collate func([]S) (B, error)

	optimizer optim.Optimizer
	scheduler *scheduler
	scaler    *amp.GradScaler
	precision amp.Precision

	handler  MetricsHandler
	maximize bool
	loss     trainer.RunningLoss
	csv      *CSVLog
	events   *callback.EventWriter

	parallel *ddp.Model // with several processes; nil: there is one, or no run has begun
	averaged bool       // Backward was called for the current batch

	initReport *nn.Report
	from       string // the checkpoint that the run resumes from; empty: none
	runState   []byte // state of the run in that checkpoint; nil: it has none
	// The family of the checkpoint's optimizer if it cannot be resumed under
	// Rules.CheckpointSettings; otherwise empty.
	foreign string
	every   int // number of batches between steps of the schedule

	window  trainer.Window // of the current batch
	session *session[S, B] // nil unless Train is running
}

// File names of a run, followed by those of a checkpoint, as in Hezar.
const (
	stateFile = "trainer_state.yaml"
	csvFile   = "training_logs.csv"

	modelFile     = repository.WeightsFile
	modelConfig   = repository.ConfigFile
	configFile    = "train/train_config.yaml"
	datasetFile   = "train/" + datasets.ConfigFile
	optimizerFile = "train/optimizer.pt"
	schedulerFile = "train/lr_scheduler.pt"
	ownStateFile  = "train/" + stateFile
	runFile       = "train/gotrainer_state.json"
)

// New makes a Trainer: the optimizer, the schedule, the metrics and the logs of a configuration,
// with the weights and state to start from. Invalid settings are refused before anything is
// written.
func New[S, B any](config TrainerConfig, model Model[S, B], train data.Dataset[S], o Options[S, B]) (*Trainer[S, B],
	error) {
	t := &Trainer[S, B]{options: o, model: model, train: train, collate: o.DataCollator}
	t.call = &t.options.Overrides
	t.call.complete()
	var err error
	if t.Config, err = config.resolved(o.Rules); err == nil {
		err = t.check()
	}
	if err == nil {
		panicked := torch.Try(func() { err = t.build() })
		err = cmp.Or(panicked, err)
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// check validates the arguments that are not settings, and fills in defaults.
func (t *Trainer[S, B]) check() error {
	o := &t.options
	if t.model == nil {
		return refuse("model", nil, "a model")
	}
	own, ofHezar := t.model.(interface {
		check(p Preprocessor) error
		checkLabels(set any, warnings io.Writer) error
		preprocessors() Preprocessor
	})
	if ofHezar {
		if o.Preprocessor == nil {
			o.Preprocessor = own.preprocessors()
		}
		if err := own.check(o.Preprocessor); err != nil {
			return err
		}
	}
	switch {
	case t.train == nil || t.train.Len() == 0:
		return refuse("train", "an empty data set", "at least one sample")
	case !isTrue(t.Config.DoEvaluate) || o.Rules.EmptyEvaluation:
	case o.EvalDataset == nil:
		return refuse("Options.EvalDataset", nil, "a data set, or DoEvaluate false")
	case o.EvalDataset.Len() == 0:
		return refuse("Options.EvalDataset", "an empty data set", "at least one sample, or DoEvaluate false")
	}
	if err := loops.Started(o.Group); err != nil {
		return prefixed(err)
	}
	if t.collate == nil {
		t.collate = t.model.Collate
	}
	o.Output, o.Warnings = cmp.Or[io.Writer](o.Output, os.Stderr), cmp.Or[io.Writer](o.Warnings, os.Stderr)
	if o.Group.LocalRank() > 0 { // one process per machine prints
		o.Output, o.Warnings = io.Discard, io.Discard
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if ofHezar {
		return own.checkLabels(t.train, o.Warnings)
	}
	return nil
}

func (t *Trainer[S, B]) build() (err error) {
	if err = t.countSteps(); err != nil {
		return err
	}
	if err = t.chooseDevice(); err != nil {
		return err
	}
	if t.handler = t.options.MetricsHandler; t.handler == nil {
		if t.handler, err = newHandler(t.Config, t.model, t.train, t.options.Rules); err != nil {
			return err
		}
	}
	if err = t.checkGeneration(); err != nil {
		return err
	}
	if err = t.chooseObjective(); err != nil {
		return err
	}
	if t.State, err = startState(t.Config, t.StepsInEpoch, filepath.Join(t.Config.OutputDir, t.Config.LogsDir,
		t.runName())); err != nil {
		return err
	}
	if t.State.GlobalStep > 0 && t.State.EpochStep > t.StepsInEpoch {
		return fmt.Errorf("hezar: the run to resume stands at batch %d of its epoch, and an epoch has %d now; resume "+
			"with the same data and BatchSize", t.State.EpochStep, t.StepsInEpoch)
	}
	if t.from, err = t.checkpoint(); err != nil {
		return err
	}
	torch.ManualSeed(t.seed())
	nn.ToDevice(t.model.Model(), t.device)
	for _, part := range []func() error{t.loadWeights, t.buildOptimizer, t.restore, t.openLogs} {
		if err = part(); err != nil {
			return err
		}
	}
	return nil
}

// countSteps converts shares to counts.
func (t *Trainer[S, B]) countSteps() error {
	c := &t.Config
	t.NumBatches = (t.train.Len()-1)/c.BatchSize + 1
	if world := t.options.Group.World(); world > 1 {
		t.NumBatches = (t.NumBatches-1)/world + 1
	}
	if most := math.MaxInt / t.NumBatches; c.NumEpochs > most {
		return refuse("NumEpochs", c.NumEpochs, fmt.Sprintf("at most %d: an epoch has %d batches, and a run no more than "+
			"%d", most, t.NumBatches, math.MaxInt))
	}
	all := t.NumBatches * c.NumEpochs
	t.TotalSteps = all
	if c.MaxSteps.share != 0 {
		c.MaxSteps = Count(c.MaxSteps.toCount(t.NumBatches).n * c.NumEpochs)
	}
	if c.MaxSteps.n > 0 {
		t.TotalSteps = min(c.MaxSteps.n, all)
	}
	c.SaveSteps, c.LogSteps = c.SaveSteps.toCount(t.TotalSteps), c.LogSteps.toCount(t.TotalSteps)
	t.StepsInEpoch = min(t.NumBatches, t.TotalSteps)
	if c.SaveSteps.isZero() {
		c.SaveSteps = Count(t.StepsInEpoch)
	}
	t.SavesInEpoch = t.StepsInEpoch / c.SaveSteps.n
	return nil
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
	if t.device, err = torch.ParseDevice(device); errors.Is(err, torch.ErrNotSupported) {
		return fmt.Errorf("hezar: Config.Device is %q: %w", t.Config.Device, err)
	} else if err != nil {
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

// checkGeneration refuses a generative model that cannot generate with its config, and metrics of
// texts without generation.
func (t *Trainer[S, B]) checkGeneration() error {
	if _, generates := t.model.(Generator[B]); !generates {
		return nil
	}
	if !isTrue(t.Config.EvaluateWithGenerate) {
		if h, ok := t.handler.(*handler); ok && h.read != nil {
			return refuse("EvaluateWithGenerate", false, fmt.Sprintf("true, no Metrics, or Options.MetricsHandler: %s is "+
				"of texts that the model has generated", h.configs[0].Name))
		}
		return nil
	}
	if own, ok := t.model.(interface{ checkGeneration() error }); ok {
		if err := own.checkGeneration(); err != nil {
			return fmt.Errorf("hezar: %w; or set EvaluateWithGenerate false", err)
		}
	}
	return nil
}

// chooseObjective determines whether the metric for the best model is better when greater.
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
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return cmp.Or(t.options.RunName, time.Now().Format("Jan02_15-04-05")+"_"+host)
}

func (t *Trainer[S, B]) seed() uint64 { return uint64(*t.Config.Seed) }

// buildOptimizer makes the optimizer and the schedule, and restores them from a checkpoint.
func (t *Trainer[S, B]) buildOptimizer() (err error) {
	o, r := &t.options, &t.options.Rules
	config, builder := t.Config, o.Optimizer
	optimizerPath := filepath.Join(t.from, optimizerFile)
	schedulerPath := filepath.Join(t.from, schedulerFile)
	var saved map[string]any // state of the optimizer in the checkpoint
	if t.from != "" && exists(optimizerPath) {
		if saved, err = torchsave.ReadFile(optimizerPath); err != nil {
			return prefixed(err)
		}
		defer torchsave.EachTensor(saved, torch.Tensor.Free)
	}
	if builder == nil {
		if r.CheckpointSettings && saved != nil {
			if t.foreign, err = config.adoptSettings(saved); err != nil {
				return fmt.Errorf("hezar: %s: %w", optimizerPath, err)
			}
		}
		builder = newOptimizer(config)
	} else if rate := builder.LearningRate(); rate != 0 {
		t.Config.LearningRate = rate
		config = t.Config
	}
	if t.optimizer, err = builder.Build([]optim.Group{{Params: nn.Params(t.model.Model())}}); err != nil {
		return prefixed(err)
	}
	t.every = cmp.Or(t.Config.LRSchedulingSteps, t.StepsInEpoch)
	if o.Optimizer != nil && r.OwnNamesOnly { // in Hezar, the name of a schedule needs the name of an optimizer
		config.LRScheduler = ""
	}
	if t.scheduler, err = newScheduler(config, o.LRScheduler, o.Adaptive, t.optimizer,
		max(1, t.TotalSteps/t.every)); err != nil {
		return err
	}
	if t.scheduler.failsAtOnce && r.ScheduleEnds {
		return fmt.Errorf("hezar: LRSchedulerKwargs: the top of the cycle comes before the first update; want " +
			"another pct_start or total_steps")
	}
	if t.from == "" || t.foreign != "" {
		return nil
	}
	if err = t.scheduler.momentum.Set(t.scheduler.moves); err != nil { // before the state is loaded
		return err
	}
	if saved != nil {
		if _, err = torchsave.LoadStateDict(t.optimizer, saved); err != nil {
			return fmt.Errorf("hezar: %s: %w", optimizerPath, err)
		}
	}
	if !t.scheduler.none && exists(schedulerPath) {
		err = t.scheduler.load(schedulerPath)
	}
	return prefixed(err)
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
	return t.openEvents()
}

// openEvents creates a file of TensorBoard events, unless one is open.
func (t *Trainer[S, B]) openEvents() (err error) {
	if t.events == nil && t.options.Group.Main() {
		t.events, err = callback.NewEventWriter(t.State.LogsDir)
	}
	return err
}

// Close closes the file of TensorBoard events. Train does so too when it ends; the next Train
// writes a new file.
func (t *Trainer[S, B]) Close() error {
	if t.parallel != nil {
		t.parallel.Close()
		t.parallel = nil
	}
	if t.events == nil {
		return nil
	}
	w := t.events
	t.events = nil
	return w.Close()
}

// Model returns the model given to New.
func (t *Trainer[S, B]) Model() Model[S, B] { return t.model }

// Optimizer returns the optimizer.
func (t *Trainer[S, B]) Optimizer() optim.Optimizer { return t.optimizer }

// Device returns the device on which the model is trained.
func (t *Trainer[S, B]) Device() torch.Device { return t.device }

// LearningRate returns the rate of the next update.
func (t *Trainer[S, B]) LearningRate() float64 { return t.scheduler.rate() }

// Momentum returns the momentum of the next update; ok is false if the schedule does not change
// it.
func (t *Trainer[S, B]) Momentum() (momentum float64, ok bool) {
	return t.scheduler.momentum.At(t.scheduler.moves)
}

// LRSchedulingSteps returns the number of batches between two steps of the schedule.
func (t *Trainer[S, B]) LRSchedulingSteps() int { return t.every }

// Objective returns "minimize" or "maximize", depending on what is better for MetricForBestModel.
func (t *Trainer[S, B]) Objective() string {
	if t.maximize {
		return "maximize"
	}
	return "minimize"
}

// RunningLoss returns the mean of the windows' losses since the start of the run, their sum and
// their number.
func (t *Trainer[S, B]) RunningLoss() (mean, sum float64, windows int) {
	return t.loss.Mean, t.loss.Sum, t.loss.Windows
}

// InitReport returns which weights were loaded from InitWeightsFrom and which were not; nil
// without it.
func (t *Trainer[S, B]) InitReport() *nn.Report { return t.initReport }

// say writes to the output, ignoring errors: nothing can be done about them.
func (t *Trainer[S, B]) say(format string, args ...any) {
	_, _ = fmt.Fprintf(t.options.Output, format, args...)
}
