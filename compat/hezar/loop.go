package hezar

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// window is where the loop stands in an accumulation window.
type window struct {
	index int     // batches of it that were trained on
	len   int     // its length, which a short last one has of its own
	sync  bool    // the batch at hand ends it
	loss  float64 // sum of its batches' losses
}

// Train trains to the end of the run, from wherever State stands: epoch by epoch the training loop,
// a checkpoint, an evaluation, the log. If ctx ends, the window at hand is finished and a
// checkpoint written, from which ResumeFromCheckpoint goes on; the error is then ctx's.
func (t *Trainer[S, B]) Train(ctx context.Context) (err error) {
	runtime.LockOSThread() // libtorch keeps its modes by thread
	defer runtime.UnlockOSThread()
	defer func() { err = errors.Join(err, t.Close()) }()
	t.PrintInfo()
	failed := torch.Try(func() {
		for epoch := t.State.Epoch; epoch <= t.Config.NumEpochs && err == nil; epoch++ {
			var done bool
			if done, err = t.epoch(ctx, epoch); done {
				break
			}
		}
	})
	if err = errors.Join(failed, err); err == nil {
		t.options.Logger.Info("Training done!")
	}
	return err
}

// epoch is one pass over the training set and what follows it.
func (t *Trainer[S, B]) epoch(ctx context.Context, epoch int) (done bool, err error) {
	t.State.Epoch = epoch
	loss, err := t.innerTrainingLoop(ctx, epoch)
	if err != nil {
		return true, err
	}
	logs := Logs{{Name: "train.loss", Value: loss}}
	if isTrue(t.Config.SaveEnabled) && (t.options.Rules.SaveTwice || t.lastSaved != t.State.GlobalStep) {
		if err := t.save(t.checkpointPath()); err != nil {
			return true, err
		}
	}
	if isTrue(t.Config.DoEvaluate) {
		results, err := t.evaluate(ctx, t.options.EvalDataset)
		if err != nil {
			return true, err
		}
		for _, r := range results {
			r.Name = "evaluation." + r.Name
			logs = append(logs, r)
		}
	}
	best, ok := logs.find(t.Config.MetricForBestModel)
	if !ok {
		if t.scheduler == nil || t.scheduler.controller == nil { // the controller looks for the number first
			t.State.EpochStep = 0
		}
		return true, refuse("MetricForBestModel", t.Config.MetricForBestModel, fmt.Sprintf("one of the numbers %v",
			logs))
	}
	if t.scheduler != nil && t.scheduler.controller != nil {
		t.scheduler.controller.Observe(best.Value)
		if f := t.options.Overrides.AfterSchedule; f != nil {
			if err := f(t, &best.Value); err != nil {
				return true, err
			}
		}
	}
	t.State.EpochStep = 0
	t.State.update(best, t.maximize)
	if err := t.log(logs, t.State.GlobalStep); err != nil {
		return true, err
	}
	return t.State.GlobalStep == t.TotalSteps, nil
}

// Dataloader hands out the batches of a pass.
type Dataloader[B any] struct {
	Len     int // batches of the pass
	Batches func(ctx context.Context) iter.Seq2[B, error]
}

// CreateTrainDataloader makes the loader of the running epoch, from State.EpochStep on. Its order
// is that of Python's random.shuffle.
func (t *Trainer[S, B]) CreateTrainDataloader() (*Dataloader[B], error) {
	return t.dataloader(t.train, t.Config.BatchSize, t.State.Epoch-1, t.State.EpochStep)
}

// CreateEvalDataloader makes the loader of an evaluation. Rules.SameOrder shuffles it, which
// changes nothing but the batches' order.
func (t *Trainer[S, B]) CreateEvalDataloader(d data.Dataset[S]) (*Dataloader[B], error) {
	size := t.Config.EvalBatchSize
	if size == 0 {
		size = t.Config.BatchSize
	}
	return t.dataloader(d, size, -1, 0)
}

// dataloader makes a loader of a pass; epoch -1 is an evaluation.
func (t *Trainer[S, B]) dataloader(d data.Dataset[S], size, epoch, skip int) (*Dataloader[B], error) {
	var order data.Order = data.Sequential{}
	if isTrue(t.Config.DataloaderShuffle) && (epoch >= 0 || t.options.Rules.SameOrder) {
		seed := t.seed()
		if !t.options.Rules.SameOrder {
			seed += uint64(epoch)
		}
		order = data.PythonShuffled{Seed: seed}
		if t.options.Rules.SeedEveryPass {
			torch.ManualSeed(t.seed())
		}
	}
	l, err := data.NewLoader(d, t.collate, data.LoaderOptions{BatchSize: size, Order: order,
		Workers: t.Config.NumDataloaderWorkers})
	if err != nil {
		return nil, err
	}
	return &Dataloader[B]{Len: l.Len() - skip, Batches: func(ctx context.Context) iter.Seq2[B, error] {
		if t.options.Rules.SeedEveryPass { // PyTorch's DataLoader draws the seed of its workers
			torch.Scope(func() { torch.TensorOptions{DType: torch.Int64}.Empty().Random_(nil) })
		}
		return l.Epoch(ctx, max(0, epoch), skip)
	}}, nil
}

// InnerTrainingLoop trains on the rest of an epoch and returns the running loss.
func (t *Trainer[S, B]) InnerTrainingLoop(ctx context.Context, epoch int) (float64, error) {
	loader, err := t.createTrainDataloader()
	if err != nil {
		return 0, err
	}
	nn.SetTraining(t.model.Model(), true)
	t.window = window{}
	left := loader.Len
	batches := loader.Batches(context.WithoutCancel(ctx)) // ctx ends the run behind a window
	if t.generators != "" {
		if err := loadGenerators(t.generators, t.devices()); err != nil {
			return 0, err
		}
		t.generators = ""
	}
	bar := t.newBar(epoch)
	defer bar.end()
	for b, err := range batches {
		if err != nil {
			return 0, err
		}
		if t.State.GlobalStep >= t.TotalSteps {
			break
		}
		if err := t.microStep(b, left); err != nil {
			return 0, err
		}
		left--
		bar.show()
		if ctx.Err() != nil && t.window.index == 0 {
			return 0, errors.Join(t.interrupted(ctx), t.save(t.checkpointPath()), t.saveState())
		}
	}
	return t.tracker.avg, nil
}

func (t *Trainer[S, B]) interrupted(ctx context.Context) error {
	return fmt.Errorf("hezar: stopped after batch %d of %d; ResumeFromCheckpoint goes on from there: %w",
		t.State.GlobalStep, t.TotalSteps, context.Cause(ctx))
}

// microStep is everything that belongs to one batch; left is how many the pass has, this one
// included.
func (t *Trainer[S, B]) microStep(b B, left int) error {
	b, err := t.prepareInputBatch(b)
	if err != nil {
		return err
	}
	t.enterWindow(left)
	var loss float64
	torch.Scope(func() {
		var value torch.Tensor
		if value, err = t.trainingStep(b); err != nil {
			return
		}
		if err = t.optimizationStep(); err == nil {
			loss = value.Item()
		}
	})
	if err != nil {
		return err
	}
	t.State.GlobalStep++
	t.State.EpochStep++
	if err := t.trackLoss(loss); err != nil {
		return err
	}
	if err := t.schedule(); err != nil {
		return err
	}
	return t.saveAndLog()
}

// enterWindow finds out whether the batch at hand ends its window: after so many batches, at the
// end of the pass, and at the end of the run.
func (t *Trainer[S, B]) enterWindow(left int) {
	w, g, r := &t.window, t.Config.GradientAccumulationSteps, &t.options.Rules
	if w.index == 0 {
		w.len = min(g, left)
		if !r.UnfinishedWindowLost {
			w.len = min(w.len, t.TotalSteps-t.State.GlobalStep)
		}
	}
	w.index++
	w.sync = w.index == w.len
	if w.sync {
		w.index = 0
	}
}

// divisor is what a window's losses are divided by.
func (t *Trainer[S, B]) divisor() float64 {
	if t.options.Rules.ConfiguredDivisor {
		return float64(t.Config.GradientAccumulationSteps)
	}
	return float64(t.window.len)
}

// trackLoss brings the running loss up to date at the end of a window. Under UnfinishedWindowLost
// its places are counted from the begin of the epoch, as Hezar counts them, whether or not a window
// of the gradients ends there.
func (t *Trainer[S, B]) trackLoss(loss float64) error {
	w := &t.window
	w.loss += loss
	ends := w.sync
	if t.options.Rules.ConfiguredDivisor {
		ends = t.State.EpochStep%t.Config.GradientAccumulationSteps == 0 || t.State.EpochStep == t.StepsInEpoch
	}
	if !ends {
		return nil
	}
	mean := w.loss / t.divisor()
	w.loss = 0
	t.tracker.update(mean)
	t.State.LossTrackerAvg, t.State.LossTrackerSum = t.tracker.avg, t.tracker.sum
	if f := t.options.Overrides.AfterLoss; f != nil {
		return f(t, mean)
	}
	return nil
}

// schedule moves the schedule where it is due. One that follows a metric moves at the end of the
// epoch.
func (t *Trainer[S, B]) schedule() error {
	if t.scheduler == nil || t.scheduler.controller != nil || t.State.GlobalStep%t.every != 0 {
		return nil
	}
	if s := t.scheduler; t.options.Rules.ScheduleEnds && s.limit > 0 && s.moves >= s.limit {
		return fmt.Errorf("hezar: the schedule %s ends after %d moves and the run goes on; give it a greater "+
			"total_steps", t.Config.LRScheduler, s.limit)
	}
	t.scheduler.moves++
	if f := t.options.Overrides.AfterSchedule; f != nil {
		return f(t, nil)
	}
	return nil
}

// saveAndLog does what is due after a batch.
func (t *Trainer[S, B]) saveAndLog() error {
	c, r, step := &t.Config, &t.options.Rules, t.State.GlobalStep
	due := func(n int) bool { return n > 0 && step%n == 0 }
	if due(c.SaveSteps.n) {
		t.saveDue = true
	}
	if t.saveDue && (isTrue(c.SaveEnabled) || r.SaveSwitchIgnored) && (t.window.sync || r.SaveInsideWindow) {
		if err := t.save(t.checkpointPath()); err != nil {
			return err
		}
		if err := t.saveState(); err != nil { // which names the checkpoint
			return err
		}
		t.saveDue = false
	}
	if due(c.LogSteps.n) {
		return t.writeToTensorboard(Logs{{Name: "train.loss", Value: t.tracker.avg}}, step)
	}
	return nil
}

// PrepareInputBatch does nothing; it is there to be overridden.
func (t *Trainer[S, B]) PrepareInputBatch(b B) (B, error) { return b, nil }

// TrainingStep runs forward and backward on a batch and returns the loss, which is not divided.
func (t *Trainer[S, B]) TrainingStep(b B) (torch.Tensor, error) {
	o, err := t.forward(b)
	if err != nil {
		return torch.Tensor{}, err
	}
	loss, err := t.computeLoss(o, b)
	if err != nil {
		return torch.Tensor{}, err
	}
	divided := loss.DivScalar(t.divisor())
	if t.scaler != nil {
		divided = t.scaler.Scale(divided)
	}
	divided.Backward()
	return loss.Detach(), nil
}

// Forward runs the model in the configured precision. Logits come back as float32.
func (t *Trainer[S, B]) Forward(b B) (o engine.Outputs, err error) {
	if t.precision == amp.FP32 {
		o = t.model.Predict(t.pass(), b)
	} else {
		amp.Autocast(t.device, t.precision, func() { o = t.model.Predict(t.pass(), b) })
		for i := range o.Logits {
			o.Logits[i] = o.Logits[i].ToDType(torch.Float32)
		}
	}
	if len(o.Logits) == 0 || len(o.Labels) == 0 {
		return o, fmt.Errorf("hezar: Predict of %T has returned %d logits and %d labels; want at least one of each",
			t.model, len(o.Logits), len(o.Labels))
	}
	return o, nil
}

func (t *Trainer[S, B]) pass() engine.Pass { return engine.Pass{Device: t.device} }

// ComputeLoss is the model's loss of what Forward has returned.
func (t *Trainer[S, B]) ComputeLoss(o engine.Outputs, _ B) (torch.Tensor, error) {
	return t.model.LossOf(t.pass(), o).Value, nil
}

// OptimizationStep makes an update and removes the gradients, if the batch at hand ends a window.
func (t *Trainer[S, B]) OptimizationStep() error {
	if !t.window.sync {
		return nil
	}
	if t.foreign != "" {
		return fmt.Errorf("hezar: the checkpoint is one of %s, and cannot be gone on from by the optimizer %q",
			t.foreign, t.Config.Optimizer)
	}
	if err := t.scheduler.setMomentum(t.optimizer); err != nil {
		return err
	}
	if t.scaler == nil {
		t.optimizer.Step(t.LearningRate())
	} else {
		if _, err := t.scaler.Step(t.optimizer, t.LearningRate()); err != nil {
			return err
		}
		if err := t.scaler.Update(); err != nil {
			return err
		}
	}
	if f := t.options.Overrides.AfterUpdate; f != nil {
		if err := f(t); err != nil {
			return err
		}
	}
	t.optimizer.ZeroGrad()
	return nil
}

// Log writes the numbers of an epoch to TensorBoard and training_logs.csv, and the state.
func (t *Trainer[S, B]) Log(logs Logs, step int) error {
	if err := t.writeToTensorboard(logs, step); err != nil {
		return err
	}
	t.csv.Add(step, logs)
	if err := t.csv.Save(filepath.Join(t.State.LogsDir, csvFile)); err != nil {
		return err
	}
	var text []string
	for _, v := range logs {
		text = append(text, fmt.Sprintf("%s %.4g", v.Name, v.Value))
	}
	t.say("step %d: %s\n", step, strings.Join(text, ", "))
	return t.saveState()
}

// WriteToTensorboard writes numbers under their names.
func (t *Trainer[S, B]) WriteToTensorboard(logs Logs, step int) error {
	if t.events == nil {
		return nil
	}
	for _, v := range logs {
		if err := t.events.AddScalar(v.Name, v.Value, step); err != nil {
			return err
		}
	}
	return t.events.Flush()
}

func (t *Trainer[S, B]) saveState() error {
	return t.State.Save(filepath.Join(t.Config.OutputDir, t.Config.CheckpointsDir, stateFile))
}

// checkpointPath is the folder of a checkpoint: the number of batches, with as many digits as that
// of the whole run.
func (t *Trainer[S, B]) checkpointPath() string {
	return filepath.Join(t.Config.OutputDir, t.Config.CheckpointsDir, stepName(t.State.GlobalStep, t.TotalSteps))
}

func stepName(step, total int) string {
	return fmt.Sprintf("%0*d", len(strconv.Itoa(total)), step)
}

// windows is the number of windows up to a batch of the run.
func (t *Trainer[S, B]) windows(step int) int {
	g := t.Config.GradientAccumulationSteps
	ceil := func(n int) int { return int(math.Ceil(float64(n) / float64(g))) }
	return step/t.StepsInEpoch*ceil(t.StepsInEpoch) + step%t.StepsInEpoch/g
}

// restoreWindow sets a run that is resumed inside a window back to the window's first batch, since
// no checkpoint holds gradients.
func (t *Trainer[S, B]) restoreWindow(from string) {
	if from == "" || t.options.Rules.SaveInsideWindow {
		return
	}
	back := t.State.EpochStep % t.Config.GradientAccumulationSteps
	t.State.EpochStep -= back
	t.State.GlobalStep -= back
	if path := filepath.Join(from, trainFolder, generatorFile); back == 0 && exists(path) &&
		!t.options.Rules.SeedEveryPass {
		t.generators = path
	}
}

// devices are those whose generators a run draws from.
func (t *Trainer[S, B]) devices() []torch.Device {
	devices := []torch.Device{{}}
	if t.device.IsCUDA() {
		devices = append(devices, t.device)
	}
	return devices
}
