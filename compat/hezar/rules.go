package hezar

import (
	"github.com/gotrainer/gotrainer/compat/internal/loops"
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// Rules are what Hezar 1.0.0 does and nobody would want. The zero value does the right thing
// everywhere; [Exact] does as Hezar, to the last bit, for comparisons with recorded runs.
// docs/from-hezar.md has the reasons and the places in Hezar's source.
type Rules struct {
	// ConfiguredDivisor divides gradients and losses of a short last window by
	// GradientAccumulationSteps. Otherwise by its length.
	ConfiguredDivisor bool
	// UnfinishedWindowLost gives the batches behind the last full window no update where MaxSteps
	// ends the run among them.
	UnfinishedWindowLost bool
	// SaveInsideWindow writes a checkpoint between the batches of a window, whose gradients are
	// lost. Otherwise it waits for the update.
	SaveInsideWindow bool
	// LossCountFromSteps takes the number of batches for that of windows when a run is resumed, so
	// that the running loss is too low.
	LossCountFromSteps bool
	// SameOrder visits the samples of every epoch in one order. Otherwise each has its own.
	SameOrder bool
	// SeedEveryPass seeds all generators at every epoch and evaluation, so that every epoch draws
	// the same dropout masks. Otherwise the stream continues, over a resume too.
	SeedEveryPass bool
	// MeanOfBatches rounds the metrics of each batch of an evaluation and averages them over
	// batches, however short. Otherwise they are those of the set.
	MeanOfBatches bool
	// SaveTwice writes the checkpoint of an epoch's end again where SaveSteps has just written it.
	SaveTwice bool
	// SaveSwitchIgnored writes the checkpoints of SaveSteps also where SaveEnabled is false.
	SaveSwitchIgnored bool
	// LateMetricCheck finds out after the first epoch that MetricForBestModel is no number.
	// Otherwise New refuses it.
	LateMetricCheck bool
	// SaveFreqIgnored takes a SaveFreq without effect. Otherwise New refuses it.
	SaveFreqIgnored bool
	// OwnNamesOnly refuses the optimizer "sgd" and the schedule "constant", and ignores LRScheduler
	// beside Options.Optimizer.
	OwnNamesOnly bool
	// ScheduleEnds fails where the cycle of the schedule "one_cycle" is over and the run is not,
	// and where its top comes before the first update. Otherwise the last rate stays, and the first
	// is the highest.
	ScheduleEnds bool
	// EmptyEvaluation takes an evaluation set without samples, all of whose numbers are 0, and
	// fails at the first evaluation where there is no set. Otherwise New refuses both.
	EmptyEvaluation bool
	// CheckpointSettings gives the optimizer of a resumed run the rate, the weight decay and, of
	// adam and adamw, the kind of its checkpoint; one of the other family fails at the first
	// update. Otherwise they are the configuration's, and New refuses states that do not fit.
	CheckpointSettings bool
	// LambdaNotSaved fails at the first checkpoint of a run with the schedule "lambda". Otherwise
	// the file leaves the function out.
	LambdaNotSaved bool
	// MissingWeightsPass continues with fresh weights where the checkpoint that trainer_state.yaml
	// names is not there. Otherwise New refuses.
	MissingWeightsPass bool
	// DeviceIgnored trains on the first GPU, if there is one, whatever Device says.
	DeviceIgnored bool
	// FP16IgnoredOnCPU trains in float32 where MixedPrecision is fp16 and there is no GPU.
	// Otherwise New refuses.
	FP16IgnoredOnCPU bool
	// WeightsByPosition matches initial weights that do not fit by their place in the files.
	// Otherwise by name.
	WeightsByPosition bool
	// LogStartsAnew makes training_logs.csv of a resumed run begin with an empty table.
	LogStartsAnew bool
}

// Exact is Hezar 1.0.0.
var Exact = loops.AllSet[Rules]()

// stateless reports whether checkpoints have Hezar's files alone: its way to resume needs no more.
func (r Rules) stateless() bool { return r.LossCountFromSteps && r.SeedEveryPass }

// semantics are the rules of the loop, for package trainer. Passes that do not shuffle do not seed.
func (r Rules) semantics(shuffle bool) semantics.Rules {
	s := semantics.Hezar
	// a checkpoint without the run's state has none of either
	s.ForgetLossAtResume, s.ForgetHooksAtResume = false, false
	s.UnfinishedWindowLost, s.SaveInsideWindow = r.UnfinishedWindowLost, r.SaveInsideWindow
	s.RepeatAtEpochEnd, s.CountStepsAtResume = r.SaveTwice, r.LossCountFromSteps
	s.SeedEveryPass, s.RestartPassAtResume = r.SeedEveryPass && shuffle, r.SeedEveryPass
	if !r.ConfiguredDivisor {
		s.Divisor = semantics.WindowLength
	}
	return s
}
