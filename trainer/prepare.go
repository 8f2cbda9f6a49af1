package trainer

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/data"
)

// prepare makes everything ready for the first action: loaders, plan, files, seeds and, for a
// resumed run, the state it stood in.
func (f *fit[S, B]) prepare(source func(*fit[S, B]) error) error {
	if err := source(f); err != nil {
		return err
	}
	if err := f.checkMomentum(); err != nil {
		return err
	}
	if err := f.prepareHooks(); err != nil {
		return err
	}
	from, err := f.openStore()
	if err != nil {
		return err
	}
	if err := f.seedRun(); err != nil {
		return err
	}
	if err := f.startClean(); err != nil {
		return err
	}
	f.peakRate = f.o.LearningRate
	if from, err = f.sameStart(from); err != nil {
		return err
	}
	if err := f.joinGroup(); err != nil {
		return err
	}
	if from != "" {
		if err := f.resume(from); err != nil {
			return err
		}
	}
	if f.o.Start != nil {
		if err := f.startAt(*f.o.Start); err != nil {
			return err
		}
	}
	if err := f.schedule(); err != nil {
		return err
	}
	if err := f.returnToBegin(); err != nil {
		return err
	}
	if f.o.Pusher != nil && f.o.Process.Main() {
		f.pushes = newPushes(f.ctx, f.o.Pusher)
	}
	f.run.StartStep = f.loop.GlobalStep
	f.run.Info.Warnings = slices.Clone(f.warnings)
	return nil
}

// seedRun starts the step's random numbers for a run, and its model where the step makes one.
func (f *fit[S, B]) seedRun() error {
	switch {
	case !f.o.Semantics.SeedOnce:
		return f.seed(SeedOptions{})
	case f.t.step.About().MakesModel: // New has seeded, but each run has a model of its own
		return f.seed(SeedOptions{UnlessFresh: true})
	}
	return nil
}

func (f *fit[S, B]) seed(o SeedOptions) error { return f.stepError("seed", f.t.step.Seed(f.o.Seed, o)) }

// startClean removes what an earlier run of this trainer may have left in the step: gradients of a
// window without an update, losses that were never reported.
func (f *fit[S, B]) startClean() error {
	if err := f.t.step.ZeroGrad(); err != nil {
		return f.stepError("zero the gradients", err)
	}
	if !f.t.trained {
		f.t.trained = true
		return nil
	}
	_, err := f.t.step.Report(f.stepContext())
	return f.stepError("discard the losses of an earlier run", err)
}

// prepareData makes the loaders and the plan of a run over a data set.
func (f *fit[S, B]) prepareData(train, valid data.Dataset[S]) (err error) {
	if train == nil || train.Len() == 0 {
		return errNoData
	}
	loader, err := f.trainLoader(train)
	if err != nil {
		return err
	}
	f.run.Info.TrainSamples = samplesOf(loader, train.Len())
	f.pass = epochPasses(loader, f.run.Info.TrainSamples, f.o.BatchSize)
	if err := f.prepareEval(valid); err != nil {
		return err
	}
	if loader.Len() == 0 { // trainLoader has let it through: the first pass ends the run
		return f.prepareFlow(newStreamPlan(f.o.Accumulate, f.o.MaxSteps, f.o.Semantics))
	}
	f.batches = loader.Len()
	l := lengths{
		batches: loader.Len(), unlimited: loader.Len(), accumulate: f.o.Accumulate, epochs: f.o.Epochs,
		maxSteps: f.o.MaxSteps, maxInEpoch: f.o.MaxStepsPerEpoch,
	}
	if n := f.o.LimitBatches; n > 0 {
		l.batches = min(l.batches, n)
	}
	return f.prepareFlow(newPlan(l, f.o.Semantics))
}

// prepareEval makes the loaders of the validation sets, and refuses options that ask for one that
// is not there.
func (f *fit[S, B]) prepareEval(valid data.Dataset[S]) (err error) {
	if valid != nil {
		f.o.Eval = f.o.Eval.orElse(Every(1, Epoch))
		if f.evals, err = f.evaluations(valid, strings.TrimSuffix(evalPrefix, "_"), false); err != nil {
			return err
		}
		f.countEvals()
		if key := f.evals[0].key; key != "" && !f.judge.explicit { // of several sets the first decides
			f.judge.metric = key + f.judge.metric
			if f.judge.track {
				f.run.loop.bestMetric = f.judge.metric
			}
		}
		return nil
	}
	asksFor := func(t Trigger) bool { return t.kind == every || t.kind == everyShare }
	switch {
	case asksFor(f.o.Eval):
		return &OptionError{"Eval", f.o.Eval.String(), "Never, since Fit was given no validation set"}
	case f.o.EvalOnStart:
		return &OptionError{"EvalOnStart", "true", "false, since Fit was given no validation set"}
	case f.o.Adaptive != nil:
		return &OptionError{"Adaptive", fmt.Sprintf("%T", f.o.Adaptive), "nil, since Fit was given no validation set"}
	case f.o.Semantics.BestMayBeUnsaved && f.o.Save.kind == atBest:
	case f.o.LoadBestAtEnd:
		return &OptionError{"LoadBestAtEnd", "true", "false, since Fit was given no validation set"}
	case f.o.Save.kind == atBest:
		return &OptionError{"Save", "AtBest", "another trigger, since Fit was given no validation set"}
	}
	f.o.Eval = Never
	return nil
}

// countEvals tells the hooks how large the validation sets are together.
func (f *fit[S, B]) countEvals() {
	f.run.Info.EvalSamples, f.run.Info.EvalBatches = 0, 0
	for i := range f.evals {
		e := &f.evals[i]
		f.run.Info.EvalSamples += e.rows
		f.run.Info.EvalBatches += e.batches()
	}
}

// prepareFlow makes the loop of a plan.
func (f *fit[S, B]) prepareFlow(p plan) error {
	flow := flow{
		log: f.o.Log.resolve(p.maxSteps), eval: f.o.Eval.resolve(p.maxSteps), save: f.o.Save.resolve(p.maxSteps),
		evalDelay: f.o.EvalDelay, logFirstStep: f.o.LogFirst, evalOnStart: f.o.EvalOnStart, rules: f.o.Semantics,
		ignoreDataSkip: f.o.IgnoreDataSkip,
		saveNewBest:    f.o.LoadBestAtEnd && !f.o.Semantics.BestMayBeUnsaved,
	}
	if err := f.o.checkBest(flow.eval, flow.save); err != nil {
		return err
	}
	f.loop = newLoop(p, flow)
	f.loop.flow.scheduleEvery = f.scheduleEvery()
	i := &f.run.Info
	if !p.stream {
		i.Batches = p.batches
		i.UpdatesPerEpoch, i.StepsPerEpoch = p.updatesPerEpoch, p.stepsPerEpoch
		i.Epochs = float64(p.maxSteps) / float64(p.stepsPerEpoch)
	}
	i.Eval, i.Save, i.Log = flow.eval, flow.save, flow.log
	f.run.MaxSteps = p.maxSteps
	return nil
}

// prepareHooks puts the trainer's own hooks around the user's: the metrics files are written
// before, the progress is shown after them.
func (f *fit[S, B]) prepareHooks() (err error) {
	var all []any
	if f.o.OutputDir != "" && f.o.Process.Main() {
		all = append(all, &metricsJSONL{path: filepath.Join(f.run.Info.OutputDir, metricsFile)},
			&metricsCSV{path: filepath.Join(f.run.Info.OutputDir, metricsTable)})
	}
	all = append(all, f.o.Callbacks...)
	f.progress = newProgress(f.o.Progress)
	all = append(all, &runLog{f.o.Logger}, f.progress)
	f.hooks, err = sortHooks(all)
	return err
}

// info fills in what is known before the data is.
func (f *fit[S, B]) info() Info {
	o := f.o
	i := Info{
		Step: f.t.step.About().Text, Semantics: o.Semantics, BatchSize: o.BatchSize,
		EvalBatchSize: o.EvalBatchSize, Accumulate: o.Accumulate, LearningRate: o.LearningRate,
		Schedule: scheduleText(o), Seed: o.Seed, DataSeed: o.DataSeed, Start: f.start, Process: o.Process,
	}
	if i.Step == "" {
		i.Step = fmt.Sprintf("%T", f.t.step)
	}
	if o.OutputDir != "" {
		i.OutputDir = o.OutputDir
		if abs, err := filepath.Abs(o.OutputDir); err == nil {
			i.OutputDir = abs
		}
	}
	return i
}
