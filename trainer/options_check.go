package trainer

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// The checks of the options by New and Fit, and the defaults they fill in.

// resolved returns the options with all defaults filled in, or an error that says what is wrong
// with them.
func (o Options) resolved(can About) (Options, error) {
	if o.Epochs < 0 || math.IsNaN(o.Epochs) || math.IsInf(o.Epochs, 0) {
		return o, wrong("Epochs", o.Epochs, "a positive number, or 0 for 3")
	}
	if !(o.EvalDelay >= 0) || math.IsInf(o.EvalDelay, 1) {
		return o, wrong("EvalDelay", o.EvalDelay, "0 or a positive number")
	}
	if o.MaxSteps > 0 && o.Epochs > 0 && o.Semantics.Loop != semantics.HezarLoop {
		return o, wrong("Epochs", o.Epochs, "0, since MaxSteps is %d, which alone decides the length of the run",
			o.MaxSteps)
	}
	o.Epochs = cmp.Or(o.Epochs, 3)
	if err := o.checkGlobalBatch(); err != nil {
		return o, err
	}
	for _, f := range []struct {
		name     string
		value    *int
		fallback int
	}{
		{"MaxSteps", &o.MaxSteps, 0}, {"BatchSize", &o.BatchSize, 8}, {"EvalBatchSize", &o.EvalBatchSize, 8},
		{"Accumulate", &o.Accumulate, 1},
		{"KeepCheckpoints", &o.KeepCheckpoints, 0}, {"Workers", &o.Workers, 0}, {"Prefetch", &o.Prefetch, 0},
		{"EmptyCacheSteps", &o.EmptyCacheSteps, 0},
		{"MaxStepsPerEpoch", &o.MaxStepsPerEpoch, 0}, {"LimitBatches", &o.LimitBatches, 0},
		{"LimitEvalBatches", &o.LimitEvalBatches, 0}, {"ScheduleSteps", &o.ScheduleSteps, 0},
	} {
		if *f.value < 0 {
			return o, wrong(f.name, *f.value, "a positive number, or 0 for the default")
		}
		*f.value = cmp.Or(*f.value, f.fallback)
	}
	if err := o.resolveRate(can); err != nil {
		return o, err
	}
	o.Seed = cmp.Or(o.Seed, 42)
	o.DataSeed = cmp.Or(o.DataSeed, o.Seed)
	for _, seed := range []*uint64{&o.Seed, &o.DataSeed} {
		if *seed == SeedZero {
			*seed = 0
		}
	}
	if o.Direction < ByName || o.Direction > LowerIsBetter {
		return o, wrong("Direction", int(o.Direction), "ByName, GreaterIsBetter or LowerIsBetter")
	}
	o.Semantics.Name = cmp.Or(o.Semantics.Name, semantics.Default.Name)
	if err := o.Semantics.Validate(); err != nil {
		return o, fmt.Errorf("trainer: Options.Semantics: %w", err)
	}
	if o.ScheduleSteps > 0 && !o.Semantics.CountsBatches() {
		return o, wrong("ScheduleSteps", o.ScheduleSteps, "0, since these semantics move the rate after every update; "+
			"semantics.HezarLoop counts steps")
	}
	for _, resolve := range []func() error{
		o.checkSaver, o.resolveProcess, o.resolveGlobalBatch, o.checkBatcher,
		func() error { return o.checkReproducible(can) }, o.resolveFiles, o.resolveNonFinite, o.resolvePush,
	} {
		if err := resolve(); err != nil {
			return o, err
		}
	}
	return o, nil
}

func (o *Options) checkReproducible(can About) error {
	switch {
	case o.Reproducible < 0:
		return wrong("Reproducible", o.Reproducible, "a number of threads, or zero")
	case o.Reproducible == 0 || o.Reproducible == can.Reproducible:
		return nil
	case can.Reproducible > 0:
		return wrong("Reproducible", o.Reproducible, "%d, the threads that the process was started with", can.Reproducible)
	}
	return wrong("Reproducible", o.Reproducible, "0, since this step's numbers may differ on another machine; those "+
		"of package engine do not if torch.Reproducible is called, or GOTRAINER_REPRODUCIBLE set, before the first "+
		"tensor of the program, and the model is on the CPU")
}

func (o *Options) resolveRate(can About) error {
	o.LearningRate = cmp.Or(o.LearningRate, can.LearningRate, 5e-5)
	if !(o.LearningRate > 0) || math.IsInf(o.LearningRate, 0) {
		return wrong("LearningRate", o.LearningRate, "a positive number")
	}
	if o.Adaptive != nil {
		if o.Schedule != nil {
			return wrong("Adaptive", fmt.Sprintf("%T", o.Adaptive), "nil, since Schedule is set: one of them decides the rate")
		}
		if _, err := o.Adaptive.Start(o.LearningRate); err != nil {
			return fmt.Errorf("trainer: Options.Adaptive: %w", err)
		}
		return nil
	}
	if o.Schedule == nil {
		o.Schedule = lr.Linear{}
	}
	if v, ok := o.Schedule.(lr.Validator); ok {
		if err := v.Validate(); err != nil {
			return fmt.Errorf("trainer: Options.Schedule: %w", err)
		}
	}
	return nil
}

// resolveFiles resolves when to evaluate, save and log, and checks that there is a folder if files
// are to be written.
func (o *Options) resolveFiles() error {
	if err := cmp.Or(o.Eval.validate("Eval"), o.Save.validate("Save"), o.Log.validate("Log")); err != nil {
		return err
	}
	o.Log = o.Log.orElse(Every(500, Update))
	if o.OutputDir == "" && o.Saver == nil {
		for _, f := range []struct {
			name string
			set  bool
		}{
			{"Save", o.Save.kind != unset && o.Save.kind != never}, {"LoadBestAtEnd", o.LoadBestAtEnd},
			{"AsyncSave", o.AsyncSave}, {"ResumeFrom", o.ResumeFrom == Latest},
			{"Overwrite", o.Overwrite}, {"KeepCheckpoints", o.KeepCheckpoints > 0},
		} {
			if f.set {
				return wrong("OutputDir", `""`, "a folder, since %s is set and needs one", f.name)
			}
		}
		o.Save = Never
	}
	o.Save = o.Save.orElse(Every(500, Update))
	// hooks may request evaluations, even without Eval
	mayNeverSave := o.Save.kind == atBest && o.Semantics.BestMayBeUnsaved
	switch {
	case o.Overwrite && o.ResumeFrom != "" && o.resumesOwn():
		return wrong("Overwrite", true, "false, since ResumeFrom is a checkpoint of OutputDir: a run is either resumed "+
			"or started over")
	case o.LoadBestAtEnd && o.Save.kind == never:
		return wrong("LoadBestAtEnd", true, "false, since Save is Never and there would be nothing to load")
	case o.LoadBestAtEnd && o.Eval.kind == never && !mayNeverSave:
		return wrong("LoadBestAtEnd", true, "false, since Eval is Never and no evaluation would be the best")
	case o.Adaptive != nil && o.Eval.kind == never:
		return wrong("Adaptive", fmt.Sprintf("%T", o.Adaptive), "nil, since Eval is Never and there would be nothing for "+
			"it to follow")
	case o.Save.kind == atBest && o.Eval.kind == never && !mayNeverSave:
		return wrong("Save", "AtBest", "another trigger, since Eval is Never and no evaluation would be the best")
	}
	return nil
}

// checkBest refuses LoadBestAtEnd where the semantics say so: if the best model might never be
// saved.
func (o *Options) checkBest(eval, save Trigger) error {
	if !o.LoadBestAtEnd || !o.Semantics.BestMayBeUnsaved || save.kind == atBest {
		return nil
	}
	if eval.kind != save.kind || eval.unit != save.unit || save.n%eval.n != 0 {
		return wrong("LoadBestAtEnd", true, "Save to be in the unit of Eval and a multiple of it (Eval is %v, Save is "+
			"%v); or Save: AtBest", eval, save)
	}
	return nil
}

var errNoData = errors.New("trainer: Fit needs a training set with at least one sample")

// checkBatcher refuses options that do not fit an order that makes batches itself.
func (o *Options) checkBatcher() error {
	if _, ok := o.Order.(data.Batcher); !ok {
		return nil
	}
	if o.AutoFindBatchSize {
		return wrong("AutoFindBatchSize", true, "false, since the order %T decides how large the batches are", o.Order)
	}
	r, ok := o.Order.(data.BatchRebalance)
	if ok && max(1, r.Accumulate) != o.Accumulate {
		return wrong("Accumulate", o.Accumulate, "%d, that of the order data.BatchRebalance, which makes as many batches "+
			"for an update", max(1, r.Accumulate))
	}
	return nil
}
