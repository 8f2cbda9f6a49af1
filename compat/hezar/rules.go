package hezar

import (
	"github.com/gotrainer/gotrainer/compat/internal/loops"
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// Rules are peculiarities of Hezar 1.0.0 that nobody would want. The zero value behaves correctly
// everywhere; [Exact] behaves like Hezar, to the last bit, for comparisons with recorded runs.
// docs/from-hezar.md has the reasons and the places in Hezar's source.
type Rules struct {
	// ConfiguredDivisor divides gradients and losses of a short last window by
	// GradientAccumulationSteps instead of its length.
	ConfiguredDivisor bool
	// UnfinishedWindowLost makes no update for the batches after the last full window if MaxSteps
	// ends the run among them.
	UnfinishedWindowLost bool
	// SaveInsideWindow writes a checkpoint between the batches of a window, whose gradients are
	// lost. Otherwise it waits for the update.
	SaveInsideWindow bool
	// LossCountFromSteps uses the number of batches as the number of windows when a run is
	// resumed, so that the running loss is too low.
	LossCountFromSteps bool
	// SameOrder visits the samples in the same order in every epoch. Otherwise each has its own.
	SameOrder bool
	// SeedEveryPass seeds all generators at every epoch and evaluation, so that every epoch draws
	// the same dropout masks. Otherwise the stream continues, even when a run is resumed.
	SeedEveryPass bool
	// MeanOfBatches rounds the metrics of each batch of an evaluation and averages them over
	// batches, however short. Otherwise they are computed on the whole set.
	MeanOfBatches bool
	// SaveTwice rewrites the checkpoint at the end of an epoch if SaveSteps has just written it.
	SaveTwice bool
	// SaveSwitchIgnored writes the checkpoints of SaveSteps even if SaveEnabled is false.
	SaveSwitchIgnored bool
	// LateMetricCheck notices only after the first epoch that MetricForBestModel is not a number.
	// Otherwise New refuses it.
	LateMetricCheck bool
	// SaveFreqIgnored accepts and ignores SaveFreq. Otherwise New refuses it.
	SaveFreqIgnored bool
	// OwnNamesOnly refuses the optimizer "sgd" and the schedule "constant", and ignores
	// LRScheduler if Options.Optimizer is set.
	OwnNamesOnly bool
	// ScheduleEnds fails if the cycle of the schedule "one_cycle" ends before the run, or if its
	// peak comes before the first update. Otherwise the last rate is kept, and the first one is
	// the highest.
	ScheduleEnds bool
	// EmptyEvaluation accepts an evaluation set without samples, whose numbers are all 0, and
	// fails at the first evaluation if there is no set. Otherwise New refuses both.
	EmptyEvaluation bool
	// CheckpointSettings gives the optimizer of a resumed run the rate, the weight decay and, for
	// adam and adamw, the kind of the checkpoint; an optimizer of the other family fails at the
	// first update. Otherwise they are those of the configuration, and New refuses states that do
	// not match.
	CheckpointSettings bool
	// LambdaNotSaved fails at the first checkpoint of a run with the schedule "lambda". Otherwise
	// the file omits the function.
	LambdaNotSaved bool
	// MissingWeightsPass continues with fresh weights if the checkpoint named in
	// trainer_state.yaml is missing. Otherwise New returns an error.
	MissingWeightsPass bool
	// DeviceIgnored trains on the first GPU, if there is one, whatever Device says.
	DeviceIgnored bool
	// FP16IgnoredOnCPU trains in float32 if MixedPrecision is fp16 and there is no GPU. Otherwise
	// New returns an error.
	FP16IgnoredOnCPU bool
	// WeightsByPosition matches initial weights that do not fit by their position in the files,
	// instead of by name.
	WeightsByPosition bool
	// LogStartsAnew makes training_logs.csv of a resumed run start with an empty table.
	LogStartsAnew bool
}

// Exact has the behaviour of Hezar 1.0.0.
var Exact = loops.AllSet[Rules]()

// stateless reports whether checkpoints contain only Hezar's files: resuming as Hezar does needs no
// more.
func (r Rules) stateless() bool { return r.LossCountFromSteps && r.SeedEveryPass }

// semantics returns the rules for the loop of package trainer. Passes that do not shuffle do not
// seed.
func (r Rules) semantics(shuffle bool) semantics.Rules {
	s := semantics.Hezar
	// A checkpoint without the run's state has neither of these.
	s.ForgetLossAtResume, s.ForgetHooksAtResume = false, false
	s.UnfinishedWindowLost, s.SaveInsideWindow = r.UnfinishedWindowLost, r.SaveInsideWindow
	s.RepeatAtEpochEnd, s.CountStepsAtResume = r.SaveTwice, r.LossCountFromSteps
	s.SeedEveryPass, s.RestartPassAtResume = r.SeedEveryPass && shuffle, r.SeedEveryPass
	if !r.ConfiguredDivisor {
		s.Divisor = semantics.WindowLength
	}
	return s
}
