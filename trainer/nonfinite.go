package trainer

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// NonFinite says what a run does when a loss, a gradient or a weight is NaN or infinite. By then
// the weights are usually lost, and every later checkpoint would be just as bad.
//
// Losses and norms are checked when they are reported, for the log and for a checkpoint, so no step
// waits for the device. The weights are checked before every checkpoint and at the end of the run.
// If a step can check without waiting, as that of package engine can on a CPU, StopAtNonFinite
// stops before the update, while the weights are still good. The error then names the layer and the
// samples.
type NonFinite int

const (
	// NonFiniteBySemantics means StopAtNonFinite in semantics.DefaultLoop, and IgnoreNonFinite in
	// the loops of other trainers, none of which stops.
	NonFiniteBySemantics NonFinite = iota
	// StopAtNonFinite ends the run with a [*NonFiniteError]. No checkpoint of such weights is
	// written.
	StopAtNonFinite
	// SkipNonFinite skips every update whose gradients are not finite, as loss scaling does, and
	// stops if weights are not finite. It waits for the device at each update, and leaves losses
	// that are not finite out of the means in the log. With semantics.Rules.ScheduleOnSkip it does
	// not wait, and train_loss then lacks the losses of all updates between two rows of the log.
	// The About of the step must have SkipsNonFinite set.
	SkipNonFinite
	// RollBackNonFinite restores the weights, moments and random numbers from the newest checkpoint
	// and continues with the next data; the counts and the schedule continue. A run that returns to
	// the same checkpoint three times stops.
	RollBackNonFinite
	// IgnoreNonFinite warns once and continues. A checkpoint whose weights are not finite is
	// written, but no older checkpoint is deleted to make room for it.
	IgnoreNonFinite
)

// text returns the name of the policy, for the configuration.
func (n NonFinite) text() string {
	return [...]string{"NonFiniteBySemantics", "StopAtNonFinite", "SkipNonFinite", "RollBackNonFinite",
		"IgnoreNonFinite"}[n]
}

// mostRollBacks is how often a run may return to the same checkpoint.
const mostRollBacks = 3

// NonFiniteError reports that a run has produced numbers that are not finite. Its exit code is 7.
type NonFiniteError struct {
	Name       string  // "loss", "grad_norm", "train_loss" or "weights"
	Value      float64 // value of the loss or norm
	Weights    []string
	GlobalStep int
	Checkpoint string // the newest checkpoint, which is finite; empty: none
	Reason     string // why the run could not be rolled back, if it should have been

	// Origin says where the numbers first became non-finite. Samples are the indices of the samples
	// of that micro-batch in the data set or, for a stream, their positions in the pass, from 0.
	// NoOrigin says why this is not known.
	Origin   NonFiniteOrigin
	Samples  []int
	NoOrigin string

	before bool // it was found before the next update, so the weights are those of GlobalStep
}

func (e *NonFiniteError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "trainer: after update %d", e.GlobalStep)
	if e.before {
		b.WriteString(", before the next update")
	}
	b.WriteString(": ")
	var found []string
	if e.Name != "weights" {
		found = append(found, fmt.Sprintf("%s is %v", e.Name, e.Value))
	}
	if n := len(e.Weights); n > 0 {
		found = append(found, fmt.Sprintf("%d of the weights are not finite, the first is %s", n, e.Weights[0]))
	}
	b.WriteString(strings.Join(found, ", and "))
	b.WriteString(e.origin())
	if e.Reason != "" {
		b.WriteString("; " + e.Reason)
	}
	b.WriteString("; look for nan in the data, lower Options.LearningRate or clip the gradients; " +
		"torch.DetectAnomaly names the operator")
	if e.Checkpoint != "" {
		b.WriteString("; the newest checkpoint is finite: " + e.Checkpoint)
	}
	return b.String()
}

func (e *NonFiniteError) origin() string {
	o := e.Origin
	var b strings.Builder
	switch n := len(o.Gradients); {
	case e.NoOrigin != "":
		b.WriteString("; the layer and the samples that caused it are not known: " + e.NoOrigin)
	case o.Module != "":
		b.WriteString("; the first layer whose output is not finite is " + o.Module)
		if o.Input {
			b.WriteString(", and its input is not finite either")
		}
	case o.Loss:
		b.WriteString("; the outputs of all layers with parameters are finite, but the loss is not")
	case n > 0:
		fmt.Fprintf(&b, "; outputs and loss are finite, but the gradients of %d parameters are not; the one nearest "+
			"to the loss is %s", n, o.Gradients[n-1])
	}
	if len(e.Samples) > 0 {
		fmt.Fprintf(&b, "; the samples of the batch are %s", listed(e.Samples))
	}
	return b.String()
}

// listed formats a list of indices, at most the first 64.
func listed(indices []int) string {
	const most = 64
	text := make([]string, 0, most)
	for _, i := range indices[:min(most, len(indices))] {
		text = append(text, strconv.Itoa(i))
	}
	list := strings.Join(text, ", ")
	if n := len(indices) - most; n > 0 {
		list += fmt.Sprintf(" and %d more", n)
	}
	return list
}

// ExitCode returns package run's exit code for non-finite numbers.
func (*NonFiniteError) ExitCode() int { return 7 }

func (o *Options) resolveNonFinite() error {
	switch {
	case o.NonFinite < NonFiniteBySemantics || o.NonFinite > IgnoreNonFinite:
		return wrong("NonFinite", int(o.NonFinite), "StopAtNonFinite, SkipNonFinite, RollBackNonFinite or IgnoreNonFinite")
	case o.NonFinite == RollBackNonFinite && (o.Save.kind == never || o.SaveOnlyModel || o.Saver != nil):
		return wrong("NonFinite", "RollBackNonFinite", "another policy, since the run writes no whole checkpoint to which "+
			"it could return")
	case o.NonFinite == NonFiniteBySemantics && o.Semantics.Loop == semantics.DefaultLoop:
		o.NonFinite = StopAtNonFinite
	case o.NonFinite == NonFiniteBySemantics:
		o.NonFinite = IgnoreNonFinite
	}
	return nil
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// checkFinite returns an error if v is not finite and the run must not continue with it. Otherwise
// it only warns.
func (s *session) checkFinite(name string, v float64) error {
	if finite(v) {
		return nil
	}
	if s.o.NonFinite == StopAtNonFinite || s.o.NonFinite == RollBackNonFinite {
		weights, err := s.step.NonFinite()
		if err != nil {
			return s.stepError("look for weights that are not finite", err)
		}
		return &NonFiniteError{Name: name, Value: v, Weights: weights, GlobalStep: s.loop.GlobalStep,
			NoOrigin: "it was found in the log, after the update"}
	}
	s.warnNonFinite(name, v)
	return nil
}

// warnNonFinite warns of a loss that is not finite, once per run.
func (s *session) warnNonFinite(name string, v float64) {
	if finite(v) || s.warnedNonFinite {
		return
	}
	s.warnedNonFinite = true
	s.warn("%s is %v at %s %d, and the run continues; look for nan in the data, lower Options.LearningRate or clip "+
		"the gradients; torch.DetectAnomaly names the operator", name, v, s.run.Info.unit(), s.loop.GlobalStep)
}

// checkWeights reports whether the weights are finite. It returns an error if they are not and the
// run must not continue with them.
func (s *session) checkWeights() (ok bool, err error) {
	weights, err := s.step.NonFinite()
	switch {
	case err != nil:
		return false, s.stepError("look for weights that are not finite", err)
	case len(weights) == 0:
		return true, nil
	case s.o.NonFinite != IgnoreNonFinite:
		return false, weightsError(weights, s.loop.GlobalStep)
	}
	return false, nil
}

func weightsError(weights []string, step int) *NonFiniteError {
	return &NonFiniteError{Name: "weights", Weights: weights, GlobalStep: step,
		NoOrigin: "it was found in the weights, after the update"}
}

// find completes the error with which a step has stopped inside a window, and sends it to the other
// processes. One of the micro-batches from to to-1 of the window has caused it.
func (r *runner) find(err error, w Window, from, to int) error {
	var bad *NonFiniteError
	if !errors.As(err, &bad) || !w.StopAtNonFinite {
		return r.failGroup(err)
	}
	bad.GlobalStep, bad.before = r.loop.GlobalStep, true
	sent := *bad           // a copy, since bad is completed below
	_ = r.failGroup(&sent) // before the search, in which the other processes take no part
	finder := r.step.finder
	if finder == nil {
		bad.NoOrigin = fmt.Sprintf("%T is not a trainer.NonFiniteFinder: %s", r.step.given, passOn("FindNonFinite"))
		return bad
	}
	for i := from; i < to; i++ {
		w.Index = i
		for _, batch := range r.partsOf(i) {
			origin, err := finder.FindNonFinite(r.stepCtx, batch, w)
			switch {
			case err != nil:
				bad.NoOrigin = err.Error()
				return bad
			case origin.Module != "" || origin.Loss || len(origin.Gradients) > 0:
				bad.Origin, bad.Samples = origin, r.samplesOf(i)
				return bad
			}
		}
	}
	bad.NoOrigin = "computed again, with other random numbers, everything is finite"
	if r.several() {
		bad.NoOrigin += " on this process; the error of another one says more"
	}
	return bad
}

// samplesOf returns the indices of the samples in a micro-batch of the window; nil if the loader
// cannot tell.
func (r *runner) samplesOf(index int) []int {
	batch := r.loop.Micro - r.loop.index + index
	if r.indices != nil {
		return r.indices(r.loop.Epoch, batch)
	}
	if !r.loop.plan.stream {
		return nil
	}
	positions := make([]int, r.samples[index])
	for i := range positions {
		positions[i] = batch*r.o.BatchSize + i
	}
	return positions
}

// rollBack restores the step from the newest checkpoint. The loop stays where it is, so that the
// run continues with other data than those that led here.
func (r *runner) rollBack(bad *NonFiniteError) error {
	path := r.saver.checkpoint
	switch {
	case path == "", r.onlyModel && path == r.run.Info.ResumedFrom:
		bad.Reason = "there is no checkpoint to return to"
		return bad
	case r.rollBacks[path] == mostRollBacks:
		bad.Reason = fmt.Sprintf("the run has returned to %s %d times", path, mostRollBacks)
		return bad
	}
	continueRandom, err := r.saver.readRandom(path, r.loop.GlobalStep)
	if err != nil {
		return r.stepError("return to "+path, err)
	}
	if err := r.loadWhole(path); err != nil {
		return r.stepError("return to "+path, err)
	}
	if err := continueRandom(); err != nil { // Load has restored the main process's random state everywhere
		return err
	}
	if err := r.step.ZeroGrad(); err != nil {
		return r.stepError("zero the gradients", err)
	}
	// the weights of an asynchronous save are found bad only some updates later, and the losses of
	// those updates came from bad weights
	if _, err := r.step.Report(r.stepCtx); err != nil {
		return r.stepError("discard the losses since "+path, err)
	}
	if r.rollBacks == nil {
		r.rollBacks = map[string]int{}
	}
	r.rollBacks[path]++
	r.leaveOutLoss()
	r.gradNorm, r.loop.LastLogged = nil, r.loop.GlobalStep
	r.loop.Control.ShouldLog, r.loop.Control.ShouldSave = false, false
	r.warn("%v; weights, moments and random numbers are rolled back to %s, and the run continues with the "+
		"next data", bad, path)
	return nil
}
