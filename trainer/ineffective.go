package trainer

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/gotrainer/gotrainer/dist"
)

// Warnings of what would otherwise go unnoticed: options without effect, and processes that train
// alone.

// ineffective returns warnings about options that are set but have no effect because of another
// option.
func (o *Options) ineffective() []string {
	resumes := o.ResumeFrom != "" || o.Start != nil
	saves := (o.OutputDir != "" || o.Saver != nil) && o.Save.kind != never
	evaluates := o.Eval.kind != never
	return warningsFor([]setting{
		{o.ForceResume && !resumes, "ForceResume", "ResumeFrom is not"},
		{o.IgnoreDataSkip && !resumes, "IgnoreDataSkip", "ResumeFrom is not"},
		{o.KeepCheckpoints > 0 && !saves, "KeepCheckpoints", "no checkpoint is saved"},
		{o.SaveOnlyModel && !saves, "SaveOnlyModel", "no checkpoint is saved"},
		{o.SaveFailure != RetrySave && !saves, "SaveFailure", "no checkpoint is saved"},
		{o.ProcessingClass != nil && !saves, "ProcessingClass", "no checkpoint is saved (call Trainer.SaveModel)"},
		{o.LogLevel != nil && o.Logger == nil, "LogLevel", "Logger is not"},
		{o.LogLevelReplica != nil && o.Logger == nil, "LogLevelReplica", "Logger is not"},
		{o.EvalDelay > 0 && !evaluates, "EvalDelay", "Eval is Never"},
		{o.LimitEvalBatches > 0 && !evaluates && !o.EvalOnStart, "LimitEvalBatches", "Eval is Never"},
	})
}

// withoutData returns warnings about options for evaluations if the run has no validation set.
func (o *Options) withoutData() []string {
	const but = "Fit was given no validation set"
	return warningsFor([]setting{
		{o.MetricForBest != "", "MetricForBest", but}, {o.Direction != ByName, "Direction", but},
		{o.EvalDelay > 0, "EvalDelay", but}, {o.LimitEvalBatches > 0, "LimitEvalBatches", but},
		{o.EvalOrder != nil, "EvalOrder", but},
	})
}

// setting is an option that has no effect. If it is set, there is a warning with the reason.
type setting struct {
	set       bool
	name, but string
}

func warningsFor(list []setting) (warnings []string) {
	for _, c := range list {
		if c.set {
			warnings = append(warnings, fmt.Sprintf("Options.%s is set, but %s, so it has no effect", c.name, c.but))
		}
	}
	return warnings
}

// trainsAlone returns a warning if this process was started as one of several, but the step does
// not say that it trains with the others.
func (o *Options) trainsAlone(step any) string {
	if o.Group != nil || o.processSet {
		return ""
	}
	n, variable := dist.Started(os.Getenv)
	if n <= 1 {
		return ""
	}
	return fmt.Sprintf("this process was started as one of %d (%s), and %T is not a trainer.GroupStep: each process "+
		"trains by itself unless the step shares the work in its own way; then set Options.Process, which ends this "+
		"warning", n,
		variable, step)
}

// newWarner returns a handler that writes warnings to standard error, for runs in which nothing
// else shows them. It drops errors, since those are returned.
func newWarner() slog.Handler {
	return levelHandler{slog.NewTextHandler(standardError{}, nil), func(l slog.Level) bool { return l == slog.LevelWarn }}
}

// standardError is os.Stderr at the time of writing.
type standardError struct{}

func (standardError) Write(b []byte) (int, error) { return os.Stderr.Write(b) }
