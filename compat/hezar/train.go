package hezar

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/compat/internal/loops"
	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/internal/torchsave"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
)

// Train trains to the end of the run, starting from State: for each epoch the training loop, a
// checkpoint, an evaluation and the log. The loop is that of package trainer, semantics.HezarLoop.
// If ctx ends, the current window is finished and a checkpoint written, from which
// ResumeFromCheckpoint continues; the error is then that of ctx.
func (t *Trainer[S, B]) Train(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, t.Close()) }()
	if err := t.openEvents(); err != nil { // an earlier Train may have closed them
		return err
	}
	t.PrintInfo()
	s := &session[S, B]{t: t}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	defer s.cancel(nil)
	t.session = s
	defer func() { t.session, t.runState = nil, nil }()
	if err := t.join(ctx); err != nil {
		return err
	}
	arithmetic := &step[S, B]{loops.Step[B]{Batches: batches[S, B]{t}}, t, 0}
	if err := loops.Fit(s.ctx, t.options.Group, arithmetic, t.train.Len(), t.runOptions(s)); err != nil {
		return t.explain(err)
	}
	t.options.Logger.Info("Training done!")
	return nil
}

// runOptions returns the options of the loop. The loop only triggers the schedule; the rate belongs
// to the Trainer, because lr_scheduler.pt contains it.
func (t *Trainer[S, B]) runOptions(s *session[S, B]) trainer.Options {
	c := &t.Config
	o := trainer.Options{
		Epochs: float64(c.NumEpochs), MaxSteps: t.TotalSteps, BatchSize: c.BatchSize,
		Accumulate: c.GradientAccumulationSteps, ScheduleSteps: t.every, Seed: t.seed(), Save: trainer.Never,
		Start: t.start(), Callbacks: []any{s}, Semantics: t.options.Rules.semantics(isTrue(c.DataloaderShuffle)),
		Logger: t.options.Logger, LogLevel: slog.LevelWarn,
	}
	if t.saves() {
		o.Saver, o.Save = s, trainer.Every(c.SaveSteps.n, trainer.Update)
	}
	if isTrue(c.SaveEnabled) {
		o.Save = o.Save.AndEpochs(1)
	}
	if c.LogSteps.n > 0 {
		o.Log = trainer.Every(c.LogSteps.n, trainer.Update)
	}
	return o
}

// join makes the model identical on all processes: accelerator.prepare.
func (t *Trainer[S, B]) join(ctx context.Context) (err error) {
	g := t.options.Group
	if g.World() == 1 || t.parallel != nil { // parallel is set in an evaluation within a run
		return nil
	}
	if _, ok := t.optimizer.(optim.BackwardUpdater); ok {
		return fmt.Errorf("hezar: %T updates each parameter during the backward pass, before its gradient is averaged "+
			"over %d processes: want another optimizer, or one process", t.optimizer, g.World())
	}
	t.parallel, err = ddp.New(context.WithoutCancel(ctx), g, t.model.Model(),
		ddp.Options{FindUnusedParameters: true, BucketCapMB: 25})
	return prefixed(err)
}

// saves reports whether the run writes checkpoints.
func (t *Trainer[S, B]) saves() bool {
	return isTrue(t.Config.SaveEnabled) || t.options.Rules.SaveSwitchIgnored
}

// explain describes in this package's terms why a run has ended.
func (t *Trainer[S, B]) explain(err error) error {
	if stopped, ok := errors.AsType[*trainer.InterruptedError](err); ok {
		then := "ResumeFromCheckpoint continues there"
		switch {
		case !t.saves():
			then = "not saved: SaveEnabled is false"
		case stopped.Checkpoint == "":
			then = "not saved: " + stopped.Unsaved
		}
		return fmt.Errorf("hezar: stopped after batch %d of %d; %s: %w", t.State.GlobalStep, t.TotalSteps, then,
			stopped.Err)
	}
	if hook, ok := errors.AsType[*trainer.HookError](err); ok {
		return hook.Err
	}
	if errors.Is(err, trainer.ErrOtherRun) {
		return fmt.Errorf("hezar: ResumeFromCheckpoint: %w", err)
	}
	return err
}

// session handles the events of a run by calling the Trainer's methods.
type session[S, B any] struct {
	t      *Trainer[S, B]
	ctx    context.Context
	cancel context.CancelCauseFunc // cancels ctx

	train func() error // trains the current epoch; nil between epochs
	loss  *float64     // result of InnerTrainingLoop in the current epoch; nil: not yet known
	bar   *loops.Progress
	state []byte // of the run, while a checkpoint is written
}

// TrainBegin takes over the position of the loop.
func (s *session[S, B]) TrainBegin(r *trainer.Run) error {
	s.t.loss = r.RunningLoss()
	return s.count(r)
}

// count updates State.
func (s *session[S, B]) count(r *trainer.Run) error {
	t, loss := s.t, r.RunningLoss()
	t.State.Epoch, t.State.GlobalStep, t.State.EpochStep = r.EpochIndex+1, r.GlobalStep, r.Batches
	t.State.LossTrackerAvg, t.State.LossTrackerSum = loss.Mean, loss.Sum
	closed := loss.Windows != t.loss.Windows
	if t.loss = loss; closed {
		return t.call.AfterLoss(t, loss.Window)
	}
	return nil
}

// AroundEpoch trains an epoch by calling InnerTrainingLoop.
func (s *session[S, B]) AroundEpoch(r *trainer.Run, train func() error) error {
	if err := s.count(r); err != nil {
		return err
	}
	trained := false
	s.train = func() error {
		trained = true
		return train()
	}
	defer func() { s.train = nil }()
	loss, err := s.t.call.InnerTrainingLoop(s.t, s.ctx, s.t.State.Epoch)
	s.loss = &loss
	if err == nil && !trained {
		err = errors.New("hezar: Overrides.InnerTrainingLoop has not called the Trainer's InnerTrainingLoop, which " +
			"trains on the epoch")
	}
	return err
}

// InnerTrainingLoop trains on the rest of an epoch and returns the running loss. It may be
// overridden, and the override must call it. If ctx ends, so does the run.
func (t *Trainer[S, B]) InnerTrainingLoop(ctx context.Context, epoch int) (float64, error) {
	s := t.session
	if s == nil || s.train == nil {
		return 0, errors.New("hezar: InnerTrainingLoop is called outside of its place in a run; call Train, which " +
			"calls it, or Overrides.InnerTrainingLoop, for each epoch")
	}
	defer context.AfterFunc(ctx, func() { s.cancel(context.Cause(ctx)) })()
	nn.SetTraining(t.model.Model(), true)
	s.bar = t.newBar(epoch)
	defer s.bar.End()
	err := s.train()
	return t.loss.Mean, err
}

// AfterSchedule steps the schedule, unless it depends on a metric: then EpochDone steps it.
func (s *session[S, B]) AfterSchedule(r *trainer.Run, _ float64) error {
	if err := s.count(r); err != nil {
		return err
	}
	t, p := s.t, s.t.scheduler
	if p.none || p.controller != nil {
		return nil
	}
	if t.options.Rules.ScheduleEnds && p.limit > 0 && p.moves >= p.limit {
		return fmt.Errorf("hezar: the schedule %s ends after %d moves and the run continues; give it a greater "+
			"total_steps", t.Config.LRScheduler, p.limit)
	}
	p.moves++
	return t.call.AfterSchedule(t, nil)
}

// StepEnd updates the progress line.
func (s *session[S, B]) StepEnd(r *trainer.Run) error {
	err := s.count(r)
	s.bar.Show(r.Batches)
	return err
}

// AfterLog writes the running loss at the steps that LogSteps selects.
func (s *session[S, B]) AfterLog(r *trainer.Run, row trainer.Logs) error {
	if _, due := row["loss"]; !due { // only the row at the end of the run has none
		return nil
	}
	return s.t.call.WriteToTensorboard(s.t, Logs{{Name: "train.loss", Value: s.t.loss.Mean}}, r.GlobalStep)
}

// EpochDone evaluates and logs, like Hezar's train at the end of an epoch, after the save.
func (s *session[S, B]) EpochDone(r *trainer.Run) error {
	t := s.t
	if err := s.count(r); err != nil {
		return err
	}
	logs := Logs{{Name: "train.loss", Value: t.loss.Mean}}
	if s.loss != nil {
		logs[0].Value = *s.loss
	}
	s.loss = nil
	if isTrue(t.Config.DoEvaluate) {
		ctx := s.ctx
		if t.options.Group.World() > 1 { // all processes stop together, after the next update
			ctx = context.WithoutCancel(ctx)
		}
		results, err := t.call.Evaluate(t, ctx, t.options.EvalDataset)
		if err != nil {
			return err
		}
		for _, r := range results {
			r.Name = "evaluation." + r.Name
			logs = append(logs, r)
		}
	}
	controlled := t.scheduler.controller != nil
	best, ok := logs.find(t.Config.MetricForBestModel)
	if !ok {
		if !controlled { // the controller looks up the number first
			t.State.EpochStep = 0
		}
		return refuse("MetricForBestModel", t.Config.MetricForBestModel, fmt.Sprintf("one of the numbers %v", logs))
	}
	if controlled {
		t.scheduler.controller.Observe(best.Value)
		if err := t.call.AfterSchedule(t, &best.Value); err != nil {
			return err
		}
	}
	t.State.EpochStep = 0
	t.State.update(best, t.maximize)
	return t.call.Log(t, logs, t.State.GlobalStep)
}

// SaveCheckpoint writes a checkpoint, and then the state that refers to it.
func (s *session[S, B]) SaveCheckpoint(r *trainer.Run, state []byte) (path string, err error) {
	t := s.t
	path = t.checkpointPath()
	g := t.options.Group
	if g.World() == 1 && path == t.from && r.GlobalStep == r.StartStep && s.ctx.Err() != nil {
		return path, nil // no batch has been trained on since it was written
	}
	shares, err := loops.Shares(g, json.RawMessage(state))
	if err == nil && shares != nil {
		state, err = json.Marshal(processStates{shares})
	}
	if err != nil {
		return "", prefixed(err)
	}
	s.state = state
	defer func() { s.state = nil }()
	if err := t.call.Save(t, path); err != nil {
		return "", err
	}
	return path, t.saveState()
}

// sessionState is the Trainer's part of a checkpoint besides Hezar's files.
type sessionState struct {
	// training_logs.csv, which is written after the checkpoint of its epoch
	Log        string               `json:"log"`
	Scaler     *amp.GradScalerState `json:"scaler,omitempty"`
	Generators torchsave.Generators `json:"generators,omitempty"`
}

// StateName returns the key of the session's state in the state of the run.
func (s *session[S, B]) StateName() string { return "hezar" }

// devices returns the devices whose generators are saved in a checkpoint: none if every pass seeds
// them.
func (s *session[S, B]) devices() []torch.Device {
	if s.t.options.Rules.SeedEveryPass {
		return nil
	}
	return torchsave.DevicesOf(s.t.device)
}

// MarshalState returns the state of the session.
func (s *session[S, B]) MarshalState() ([]byte, error) {
	state := sessionState{Log: s.t.csv.text(), Generators: torchsave.GeneratorsOf(s.devices())}
	if s.t.scaler != nil {
		state.Scaler = new(s.t.scaler.State())
	}
	return json.Marshal(state)
}

// UnmarshalState restores what MarshalState returned.
func (s *session[S, B]) UnmarshalState(text []byte) (err error) {
	var state sessionState
	if err = json.Unmarshal(text, &state); err != nil {
		return err
	}
	if s.t.scaler != nil && state.Scaler != nil {
		err = s.t.scaler.LoadState(*state.Scaler)
	}
	for _, d := range s.devices() {
		if _, ok := torchsave.GeneratorOf(state.Generators, d); !ok {
			s.t.options.Logger.Warn("the checkpoint holds no state of the generator of a device, which is left unchanged, so "+
				"random numbers (dropout) differ from those of the uninterrupted run: it was saved on another kind of "+
				"device, or under Rules.SeedEveryPass", "device", d.String())
		}
	}
	state.Generators.Restore(s.devices()) // an invalid state panics with *torch.Error, which Fit returns
	if err == nil && !s.t.options.Rules.LogStartsAnew {
		s.t.csv, err = parseCSV(state.Log)
	}
	return err
}
