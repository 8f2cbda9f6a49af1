package trainer

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// The configuration of a run, which checkpoints store and a resume compares. It has what decides
// the outcome of a run, but not intervals, folders or the number of workers.

// configuration returns the options that decide the outcome of a run, and the settings of its step.
func (r *runner) configuration() map[string]string {
	o, i := r.o, r.run.Info
	c := map[string]string{
		"LearningRate": fmt.Sprint(o.LearningRate), "Schedule": i.Schedule, "Semantics": o.Semantics.Name,
		"MaxSteps": fmt.Sprint(r.loop.plan.maxSteps), "Seed": fmt.Sprint(o.Seed),
		"Processes": fmt.Sprint(o.Process.World), "NonFinite": o.NonFinite.text(),
	}
	if !r.loop.plan.stream {
		c["Order"] = r.order
		c["LimitBatches"], c["MaxStepsPerEpoch"] = fmt.Sprint(o.LimitBatches), fmt.Sprint(o.MaxStepsPerEpoch)
	}
	if r.eval.decides() {
		c["MetricForBest"], c["Direction"] = r.eval.bestMetric.name, r.eval.bestMetric.direction()
	}
	maps.Copy(c, r.step.About().Settings)
	maps.Copy(c, r.fingerprint)
	return c
}

// The fingerprint of a training set has this many of its samples, if they can be loaded in this
// time.
const (
	fingerprintSamples = 8
	fingerprintLimit   = 2 * time.Second
)

// takeFingerprint takes the fingerprint of the training set if the run is saved or resumed.
func (r *runner) takeFingerprint(train dataset) {
	if r.o.SkipFingerprint || !r.o.Process.Main() || r.o.ResumeFrom == "" &&
		(r.o.OutputDir == "" || r.o.Save.kind == never) {
		return
	}
	hashes, err := train.fingerprint(r.ctx)
	if err != nil {
		r.fingerprint = map[string]string{"training set": err.Error()}
		r.o.Logger.Info("a resume will not notice another training set: " + err.Error())
		return
	}
	r.fingerprint = map[string]string{}
	for i, hash := range hashes {
		r.fingerprint[fmt.Sprintf("sample %d of the training set", i)] = hash
	}
}

// compare reports the differences between the configuration of a checkpoint and that of this run.
// Another seed is refused, unless [Options].ForceResume is set; other differences cause a warning,
// since they change the results.
func (r *runner) compare(from string, then map[string]string) error {
	now := r.configuration()
	var differences []string
	for _, name := range slices.Sorted(maps.Keys(then)) {
		value, ok := now[name]
		if !ok || value == then[name] {
			continue
		}
		difference := fmt.Sprintf("%s was %s and is %s", name, then[name], value)
		if name == "Seed" && !r.o.Semantics.PositionFromGlobalStep && !r.o.ForceResume {
			return refusedResume(from, difference)
		}
		differences = append(differences, difference)
	}
	if len(differences) > 0 {
		r.warn("%s was made with other settings, so this run will give other results: %s", from,
			strings.Join(differences, "; "))
	}
	return nil
}

// fits refuses a checkpoint whose position means something else in this run. With ForceResume it
// has the position recomputed instead.
func (r *runner) fits(from string, loop loopState) error {
	difference := loop.Sizes.differs(r.sizes())
	if difference == "" && !r.loop.plan.stream && loop.Position.Micro > r.loop.plan.batches {
		difference = fmt.Sprintf("an epoch has %d batches, and it was made after %d", r.loop.plan.batches,
			loop.Position.Micro)
	}
	then, ok := loop.Configuration["Order"]
	if difference == "" && ok && then != r.order && r.loop.insideEpoch(loop.Position) {
		difference = fmt.Sprintf("Order was %s and is %s, and it stands inside an epoch, whose rest would be that of "+
			"another permutation", then, r.order)
	}
	switch {
	case difference == "":
	case r.o.Semantics.PositionFromGlobalStep || r.o.ForceResume:
		r.warn("%s: %s; the position in the epoch is recomputed from the number of updates", from, difference)
		r.loop.recount = true
	default:
		return refusedResume(from, difference)
	}
	return r.compare(from, loop.Configuration)
}

// insideEpoch reports whether a run resumed at p continues inside an epoch, after its first
// batches.
func (l *loop) insideEpoch(p position) bool {
	again := l.flow.ignoreDataSkip || l.flow.rules.EpochsPerSession // the epoch starts over
	full := l.plan.maxInEpoch > 0 && p.InEpoch >= l.plan.maxInEpoch
	return !l.plan.stream && !again && !full && p.Micro > 0 && l.plan.window(p.Micro, p.Phase) > 0
}

func refusedResume(from, difference string) error {
	return cannotResume(from, "%w: %s; resume with the same, set Options.ForceResume, or begin a new run from its weights",
		ErrOtherRun, difference)
}

func cannotResume(from, why string, args ...any) error {
	return fmt.Errorf("trainer: cannot resume from %s: "+why, append([]any{from}, args...)...)
}
