package trainer

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/optim/lr"
)

// prepare makes everything ready for the first action: loaders, plan, files, seeds and, for a resumed run, the state it stood in.
func (f *fit[S, B]) prepare(train, valid data.Dataset[S]) error {
	if train == nil || train.Len() == 0 {
		return errNoData
	}
	if err := f.prepareData(train, valid); err != nil {
		return err
	}
	if err := f.prepareHooks(); err != nil {
		return err
	}
	from, err := f.openStore()
	if err != nil {
		return err
	}
	if s, ok := f.t.step.(Seeder); ok {
		if err := s.Seed(f.o.Seed); err != nil {
			return f.stepError("seed", err)
		}
	}
	f.peakRate = f.o.LearningRate
	if from != "" {
		if err := f.resume(from); err != nil {
			return err
		}
	}
	if err := f.schedule(); err != nil {
		return err
	}
	f.run.StartStep = f.m.GlobalStep
	f.startMicro = f.allMicro()
	f.run.Info.Warnings = slices.Clone(f.warnings)
	return nil
}

// prepareData makes the loaders and the plan.
func (f *fit[S, B]) prepareData(train, valid data.Dataset[S]) (err error) {
	f.train, err = data.NewLoader(train, f.t.step.Collate, data.LoaderOptions{
		BatchSize: f.o.BatchSize, Order: f.o.Order, DropLast: f.o.DropLast, Workers: f.o.Workers, BadSample: f.o.BadSample,
	})
	if err != nil {
		return err
	}
	if f.train.Len() == 0 {
		return &OptionError{"DropLast", "true", fmt.Sprintf("false, since the %d samples of the training set are less than one batch of %d", train.Len(), f.o.BatchSize)}
	}
	if valid == nil {
		asksFor := func(t Trigger) bool { return t.kind == every || t.kind == everyShare }
		switch {
		case asksFor(f.o.Eval):
			return &OptionError{"Eval", f.o.Eval.String(), "Never, since Fit was given no validation set"}
		case f.o.EvalOnStart:
			return &OptionError{"EvalOnStart", "true", "false, since Fit was given no validation set"}
		case f.o.LoadBestAtEnd:
			return &OptionError{"LoadBestAtEnd", "true", "false, since Fit was given no validation set"}
		case f.o.Save.kind == atBest:
			return &OptionError{"Save", "AtBest", "another trigger, since Fit was given no validation set"}
		}
		f.o.Eval = Never
	} else {
		if f.valid, err = f.evalLoader(valid); err != nil {
			return err
		}
		f.run.Info.EvalSamples, f.run.Info.EvalBatches = valid.Len(), f.valid.Len()
		f.o.Eval = f.o.Eval.orElse(Every(1, Epoch))
	}
	p := newPlan(f.train.Len(), f.o.Accumulate, f.o.Epochs, f.o.MaxSteps)
	flow := flow{
		log: f.o.Log.resolve(p.maxSteps), eval: f.o.Eval.resolve(p.maxSteps), save: f.o.Save.resolve(p.maxSteps),
		logFirstStep: f.o.LogFirst, evalOnStart: f.o.EvalOnStart, rules: f.o.Semantics,
		saveNewBest: f.o.LoadBestAtEnd && !f.o.Semantics.BestMayBeUnsaved,
	}
	if err := f.o.checkBest(flow.eval, flow.save); err != nil {
		return err
	}
	f.m = newMachine(p, flow)
	i := &f.run.Info
	i.TrainSamples, i.UpdatesPerEpoch, i.Epochs = train.Len(), p.updatesPerEpoch, float64(p.maxSteps)/float64(p.updatesPerEpoch)
	i.Eval, i.Save, i.Log = flow.eval.String(), flow.save.String(), flow.log.String()
	f.run.MaxSteps = p.maxSteps
	return nil
}

// prepareHooks puts the trainer's own hooks around the user's: the metrics files are written before, the progress is shown after them.
func (f *fit[S, B]) prepareHooks() (err error) {
	var all []any
	if f.o.OutputDir != "" {
		all = append(all, &metricsJSONL{path: filepath.Join(f.run.Info.OutputDir, metricsFile)}, &metricsCSV{path: filepath.Join(f.run.Info.OutputDir, metricsTable)})
	}
	all = append(all, f.o.Callbacks...)
	all = append(all, newProgress(f.o.Progress))
	f.hooks, err = sortHooks(all)
	return err
}

// info fills in what is known before the data is.
func (f *fit[S, B]) info() Info {
	o := f.o
	i := Info{
		Step: fmt.Sprintf("%T", f.t.step), Semantics: o.Semantics, BatchSize: o.BatchSize, Accumulate: o.Accumulate, LearningRate: o.LearningRate,
		Schedule: scheduleText(o.Schedule), Seed: o.Seed, DataSeed: o.DataSeed, Start: f.start,
	}
	if d, ok := any(f.t.step).(Describer); ok {
		i.Step = d.Describe()
	}
	if o.OutputDir != "" {
		i.OutputDir = o.OutputDir
		if abs, err := filepath.Abs(o.OutputDir); err == nil {
			i.OutputDir = abs
		}
	}
	return i
}

// schedule plans the rates of the run.
func (f *fit[S, B]) schedule() error {
	if err := lr.Validate(f.o.Schedule, f.peakRate, f.m.plan.maxSteps); err != nil {
		return fmt.Errorf("trainer: Options.Schedule: %w", err)
	}
	f.rate = f.o.Schedule.Plan(f.peakRate, f.m.plan.maxSteps)
	return nil
}

// scheduleText names a schedule and those of its settings that are set: "Cosine, Warmup 0.05".
func scheduleText(s lr.Schedule) string {
	v := reflect.Indirect(reflect.ValueOf(s))
	text := v.Type().Name()
	if v.Kind() != reflect.Struct {
		return text
	}
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() && !v.Field(i).IsZero() {
			text += fmt.Sprintf(", %s %v", f.Name, reflect.Indirect(v.Field(i)))
		}
	}
	return text
}
