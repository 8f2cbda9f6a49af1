package trainer

import "fmt"

// About says what a [Step] is and what it can do, so that [New] can refuse an option that the step
// has no means to carry out. The zero value is a step of the six methods of the arithmetic.
type About struct {
	// Text says in a few words what is trained, for the header of a run: "bert classifier, 4.4 M
	// parameters on cpu". Empty: the type of the step.
	Text string
	// LearningRate is what the optimizer was made with: the peak rate of the run where
	// [Options].LearningRate is zero. Zero: it has none.
	LearningRate float64
	// Fused is whether an update that loss scaling skips is left out inside the kernel of the
	// optimizer: see semantics.Rules.FusedHidesSkips.
	Fused bool
	// Reproducible is the number of threads with which the step makes the same bits on every CPU:
	// see [Options].Reproducible. Zero: its numbers may be others on another machine.
	Reproducible int
	// MakesModel is whether Seed makes the model itself: model_init of Hugging Face.
	MakesModel bool

	// Settings are what decides the outcome of a run besides the options of the trainer, such as
	// the precision: a resume warns of settings that differ from the checkpoint's.
	Settings map[string]string

	Saves        bool // Save and Load: Options.Save, ResumeFrom, LoadBestAtEnd and SaveOnlyModel need it
	Clips        bool // Clip, apart from Update: semantics.Rules.ClipEveryBatch needs it
	SetsMomentum bool // SetMomentum: an lr.MomentumSchedule needs it
	CountsTokens bool // Count counts tokens: Options.CountTokens needs it
	FiltersLoss  bool // Train obeys Window.FilterLoss: semantics.Rules.FilterNonFiniteLoss needs it
	// SkipsNonFinite is whether Update obeys Window.SkipNonFinite: NonFinite SkipNonFinite needs
	// it.
	SkipsNonFinite bool
	SavesLater     bool // Save makes use of SaveOptions.Later: Options.AsyncSave needs it
	KeepsMode      bool // Train obeys Window.KeepMode: semantics.Rules.StayInEvalMode needs it
	KnowsMemory    bool // EmptyCache and OutOfMemory: Options.EmptyCacheSteps, AutoFindBatchSize and
	// DivideOnOutOfMemory need it
	JoinsGroup bool // the step is a GroupStep: Options.Group needs it
	Recycles   bool // the step is a Recycler, whose Collate makes batches in the memory of others
	// DrawsOrder is whether the order of the samples is drawn from the random numbers of each
	// process: then a run with Options.GlobalBatch cannot continue on another number of processes,
	// whose numbers differ.
	DrawsOrder bool
	// Sharded is whether each process of Options.Group, which then is there, has a part of the model
	// or of its state only. Save, Load and NonFinite are then called on all processes together, Save
	// with the folder of the main one, and return an error on all if one has failed.
	Sharded bool
}

// cannot is the error of an option that the step has no means to carry out: what is the option,
// verb what the step cannot do, remedy what to implement or to change, flag the field of About.
func cannot(step any, what, verb, flag, remedy string) error {
	return fmt.Errorf("trainer: %s, but %T cannot %s: About().%s is false; %s", what, step, verb, flag, remedy)
}

// Remedies for a step that cannot do what several options need.
const (
	remedySaves  = "implement Save and Load, and set it"
	remedyMemory = "implement EmptyCache and OutOfMemory, and set it"
)

// checkStep refuses options that the step has no means to carry out.
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
