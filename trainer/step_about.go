package trainer

import "fmt"

// About says what a [Step] is and what it can do, so that [New] can refuse an option that the step
// does not support. The zero value describes a step with only the six methods of the arithmetic.
type About struct {
	// Text says in a few words what is trained, for the header of a run: "bert classifier, 4.4 M
	// parameters on cpu". Empty: the type of the step.
	Text string
	// LearningRate is the rate that the optimizer was made with. It is the peak rate of the run if
	// [Options].LearningRate is zero. Zero: the optimizer has none.
	LearningRate float64
	// Fused reports whether updates skipped by loss scaling are skipped inside the optimizer's
	// kernel; see semantics.Rules.FusedHidesSkips.
	Fused bool
	// Reproducible is the number of threads with which the step computes the same bits on every
	// CPU; see [Options].Reproducible. Zero: its numbers may differ on another machine.
	Reproducible int
	// MakesModel reports whether Seed makes the model itself: Hugging Face's model_init.
	MakesModel bool

	// Settings are what decides the outcome of a run besides the trainer's options, such as the
	// precision. A resume warns of settings that differ from those in the checkpoint.
	Settings map[string]string

	Saves        bool // Save and Load; required by Options.Save, ResumeFrom, LoadBestAtEnd and SaveOnlyModel
	Clips        bool // Clip, apart from Update; required by semantics.Rules.ClipEveryBatch
	SetsMomentum bool // SetMomentum; required by an lr.MomentumSchedule
	CountsTokens bool // Count counts tokens; required by Options.CountTokens
	FiltersLoss  bool // Train obeys Window.FilterLoss; required by semantics.Rules.FilterNonFiniteLoss
	// SkipsNonFinite reports whether Update obeys Window.SkipNonFinite. The option NonFinite:
	// SkipNonFinite requires it.
	SkipsNonFinite bool
	SavesLater     bool // Save makes use of SaveOptions.Later; required by Options.AsyncSave
	KeepsMode      bool // Train obeys Window.KeepMode; required by semantics.Rules.StayInEvalMode
	// KnowsMemory is for EmptyCache and OutOfMemory. Options.EmptyCacheSteps, AutoFindBatchSize and
	// DivideOnOutOfMemory require it.
	KnowsMemory bool
	JoinsGroup  bool // the step is a GroupStep; required by Options.Group
	Recycles    bool // the step is a Recycler, whose Collate reuses the memory of earlier batches
	// DrawsOrder reports whether the order of the samples is drawn from the random numbers of each
	// process. A run with Options.GlobalBatch then cannot continue on another number of processes,
	// since their random numbers differ.
	DrawsOrder bool
	// Sharded reports whether each process of Options.Group, which is then set, has only a part of
	// the model or of its state. Save, Load and NonFinite are then called on all processes
	// together, Save with the folder of the main process. If one process fails, they return an
	// error on all.
	Sharded bool
}

// cannot returns the error for an option that the step cannot carry out: what is the option, verb
// what the step cannot do, remedy what to implement or to change, flag the field of About.
func cannot(step any, what, verb, flag, remedy string) error {
	return fmt.Errorf("trainer: %s, but %T cannot %s: About().%s is false; %s", what, step, verb, flag, remedy)
}

// Remedies that several options share.
const (
	remedySaves  = "implement Save and Load, and set it"
	remedyMemory = "implement EmptyCache and OutOfMemory, and set it"
)

// checkStep refuses options that the step cannot carry out.
func (o *Options) checkStep(step any, can About) error {
	rules := func(what string) string { return fmt.Sprintf("Options.Semantics (%s) %s", o.Semantics.Name, what) }
	for _, c := range []struct {
		wanted, can              bool
		what, verb, flag, remedy string
	}{
		{o.ResumeFrom != "", can.Saves, "Options.ResumeFrom is set", "be resumed", "Saves", remedySaves},
		{o.Saver == nil && o.Save.kind != never, can.Saves, "checkpoints are to be written to Options.OutputDir",
			"be saved", "Saves", "implement Save and Load and set it, or set Options.Save to Never"},
		{o.AsyncSave, can.SavesLater, "Options.AsyncSave is set", "be written while it trains", "SavesLater",
			"make use of SaveOptions.Later in Save and set it, or clear AsyncSave"},
		{o.SaveOnlyModel, can.Saves, "Options.SaveOnlyModel is set", "be saved", "Saves", remedySaves},
		{o.LoadBestAtEnd, can.Saves, "Options.LoadBestAtEnd is set", "load weights", "Saves", remedySaves},
		{o.CountTokens, can.CountsTokens, "Options.CountTokens is set", "count tokens", "CountsTokens",
			"implement Count, and set it"},
		{o.EmptyCacheSteps > 0, can.KnowsMemory, fmt.Sprintf("Options.EmptyCacheSteps is %d", o.EmptyCacheSteps),
			"give memory back", "KnowsMemory", remedyMemory},
		{o.AutoFindBatchSize, can.KnowsMemory, "Options.AutoFindBatchSize is set", "tell whether memory suffices",
			"KnowsMemory", remedyMemory},
		{o.DivideOnOutOfMemory, can.KnowsMemory, "Options.DivideOnOutOfMemory is set", "tell whether memory suffices",
			"KnowsMemory", remedyMemory},
		{o.Semantics.ClipEveryBatch && o.Accumulate > 1, can.Clips, rules("clips after every micro-batch"),
			"clip apart from Update", "Clips", "implement Clip and set it, or clear ClipEveryBatch"},
		{o.Semantics.StayInEvalMode, can.KeepsMode, rules("leaves the model in evaluation mode"),
			"train in that mode", "KeepsMode", "obey Window.KeepMode and set it, or clear StayInEvalMode"},
		{o.NonFinite == SkipNonFinite, can.SkipsNonFinite, "Options.NonFinite is SkipNonFinite", "do so",
			"SkipsNonFinite", "obey Window.SkipNonFinite and set it, or choose another policy"},
		{o.Semantics.FilterNonFiniteLoss, can.FiltersLoss, rules("keeps nan and inf out of the logged loss"),
			"do so", "FiltersLoss", "obey Window.FilterLoss and set it, or clear FilterNonFiniteLoss"},
	} {
		if c.wanted && !c.can {
			return cannot(step, c.what, c.verb, c.flag, c.remedy)
		}
	}
	return nil
}
