package trainer

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/data"
)

// prepare makes everything ready for the first action: loaders, plan, files, seeds and, for a
// resumed run, the state of the checkpoint.
func (r *runner) prepare(source func(*runner) error) error {
	if err := source(r); err != nil {
		return err
	}
	if err := r.checkMomentum(); err != nil {
		return err
	}
	r.prepareHooks()
	from, err := r.saver.openStore()
	if err != nil {
		return err
	}
	if from, err = r.sameStart(from); err != nil {
		return err
	}
	r.rates.peak = r.o.LearningRate
	for _, begin := range []func() error{
		r.seedRun, r.startClean, r.joinGroup,
		func() error { return r.resume(from) }, func() error { return r.startAt(r.o.Start) },
		r.planRates, r.returnToBegin, r.saver.uploads.start,
	} {
		if err := begin(); err != nil {
			return err
		}
	}
	r.noteOnce(r.t.warnings)
	r.run.StartStep = r.loop.GlobalStep
	r.run.Info.Warnings = slices.Clone(r.warnings)
	return nil
}

// seedRun seeds the step's random numbers for a run, and the model if the step makes it.
func (r *runner) seedRun() error {
	switch {
	case !r.o.Semantics.SeedOnce:
		return r.seed(SeedOptions{})
	case r.step.About().MakesModel: // New has seeded already, but each run gets its own model
		return r.seed(SeedOptions{UnlessFresh: true})
	}
	return nil
}

// startClean removes what an earlier run of this trainer may have left in the step: gradients of an
// unfinished window, and losses that were never reported.
func (r *runner) startClean() error {
	if err := r.step.ZeroGrad(); err != nil {
		return r.stepError("zero the gradients", err)
	}
	if !r.t.trained {
		r.t.trained = true
		return nil
	}
	_, err := r.step.Report(r.stepCtx)
	return r.stepError("discard the losses of an earlier run", err)
}

// prepareData makes the loaders and the plan of a run over a data set.
func (r *runner) prepareData(train dataset, valid *validation) (err error) {
	if train == nil || train.Len() == 0 {
		return errNoData
	}
	loader, pass, err := r.trainLoader(train)
	if err != nil {
		return err
	}
	r.run.Info.TrainSamples = samplesOf(loader.given, train.Len())
	r.pass = pass
	if l, ok := loader.given.(interface{ Indices(epoch, batch int) []int }); ok {
		r.indices = l.Indices
	}
	if err := r.eval.prepare(valid); err != nil {
		return err
	}
	if loader.Len() == 0 { // allowed by trainLoader: the first pass ends the run
		return r.prepareFlow(newStreamPlan(r.o.Accumulate, r.o.MaxSteps, r.o.Semantics))
	}
	r.takeFingerprint(train)
	r.order = settingsText(cmp.Or[data.Order](r.o.Order, data.Shuffled{Seed: r.o.DataSeed}))
	r.batches = loader.Len()
	l := lengths{
		batches: loader.Len(), unlimited: loader.Len(), accumulate: r.o.Accumulate, epochs: r.o.Epochs,
		maxSteps: r.o.MaxSteps, maxInEpoch: r.o.MaxStepsPerEpoch,
	}
	if n := r.o.LimitBatches; n > 0 {
		l.batches = min(l.batches, n)
	}
	return r.prepareFlow(newPlan(l, r.o.Semantics))
}

// prepare makes the loaders of the validation sets, and refuses options that need a validation set
// if there is none.
func (ev *evaluator) prepare(valid *validation) (err error) {
	if valid != nil {
		ev.o.Eval = ev.o.Eval.orElse(Every(1, Epoch))
		if ev.sets, err = ev.open(valid, strings.TrimSuffix(evalPrefix, "_"), false); err != nil {
			return err
		}
		ev.count()
		if key := ev.sets[0].key; key != "" && !ev.bestMetric.explicit { // the first of several sets decides
			ev.bestMetric.name = key + ev.bestMetric.name
		}
		return nil
	}
	asksFor := func(t Trigger) bool { return t.kind == every || t.kind == everyShare }
	switch {
	case asksFor(ev.o.Eval):
		return wrong("Eval", ev.o.Eval.String(), "Never, since Fit was given no validation set")
	case ev.o.EvalOnStart:
		return wrong("EvalOnStart", true, "false, since Fit was given no validation set")
	case ev.o.Adaptive != nil:
		return wrong("Adaptive", fmt.Sprintf("%T", ev.o.Adaptive), "nil, since Fit was given no validation set")
	case ev.o.Semantics.BestMayBeUnsaved && ev.o.Save.kind == atBest:
	case ev.o.LoadBestAtEnd:
		return wrong("LoadBestAtEnd", true, "false, since Fit was given no validation set")
	case ev.o.Save.kind == atBest:
		return wrong("Save", "AtBest", "another trigger, since Fit was given no validation set")
	}
	ev.o.Eval = Never
	ev.noteOnce(ev.o.withoutData())
	return nil
}

// count sets the total sizes of the validation sets in Run.Info.
func (ev *evaluator) count() {
	ev.run.Info.EvalSamples, ev.run.Info.EvalBatches = 0, 0
	for i := range ev.sets {
		e := &ev.sets[i]
		ev.run.Info.EvalSamples += e.rows
		ev.run.Info.EvalBatches += e.batches()
	}
}

func (r *runner) prepareFlow(p plan) error {
	flow := flow{
		log: r.o.Log.resolve(p.maxSteps), eval: r.o.Eval.resolve(p.maxSteps), save: r.o.Save.resolve(p.maxSteps),
		evalDelay: r.o.EvalDelay, logFirstStep: r.o.LogFirst, evalOnStart: r.o.EvalOnStart, rules: r.o.Semantics,
		ignoreDataSkip: r.o.IgnoreDataSkip,
		saveNewBest:    r.o.LoadBestAtEnd && !r.o.Semantics.BestMayBeUnsaved,
	}
	if err := r.o.checkBest(flow.eval, flow.save); err != nil {
		return err
	}
	r.loop = newLoop(p, flow)
	r.loop.flow.scheduleEvery = r.scheduleEvery()
	i := &r.run.Info
	if !p.stream {
		i.Batches = p.batches
		i.UpdatesPerEpoch, i.StepsPerEpoch = p.updatesPerEpoch, p.stepsPerEpoch
		i.Epochs = float64(p.maxSteps) / float64(p.stepsPerEpoch)
	}
	i.Eval, i.Save, i.Log = flow.eval, flow.save, flow.log
	r.run.MaxSteps = p.maxSteps
	return nil
}

// prepareHooks puts the trainer's own hooks around the user's: metrics files are written before
// they are called, and progress is shown afterwards.
func (r *runner) prepareHooks() {
	var all []any
	if r.o.OutputDir != "" && r.o.Process.Main() {
		dir := r.run.Info.OutputDir
		all = append(all, &metricsLog{path: filepath.Join(dir, metricsFile), format: metricsJSONL{}, warn: r.warn},
			&metricsLog{path: filepath.Join(dir, metricsTable), format: &metricsCSV{}, warn: r.warn})
	}
	if r.o.ProcessingClass != nil {
		all = append(all, &processing{r.o.ProcessingClass})
	}
	all = append(all, r.o.Callbacks...)
	r.progress = newProgress(r.o.Progress)
	r.hooks = append(all, &runLog{r.o.Logger}, r.progress)
}

// info returns what is known of the run before its data.
func (s *session) info() Info {
	o := s.o
	i := Info{
		Step: cmp.Or(s.step.About().Text, fmt.Sprintf("%T", s.step.given)), Semantics: o.Semantics, BatchSize: o.BatchSize,
		EvalBatchSize: o.EvalBatchSize, Accumulate: o.Accumulate, LearningRate: o.LearningRate,
		Schedule: scheduleText(o), Seed: o.Seed, DataSeed: o.DataSeed, Start: s.start, Process: o.Process,
	}
	if o.OutputDir != "" {
		i.OutputDir = o.OutputDir
		if abs, err := filepath.Abs(o.OutputDir); err == nil {
			i.OutputDir = abs
		}
	}
	return i
}
