package trainer

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/gotrainer/gotrainer/dist"
)

// What would be silent otherwise: options without effect, and processes that train alone.

// ineffective are warnings of options that are set and change nothing, because another one is not.
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

// withoutData are warnings of options for evaluations of a run that has no validation set.
func (o *Options) withoutData() []string {
	const but = "Fit was given no validation set"
	return warningsFor([]setting{
		{o.MetricForBest != "", "MetricForBest", but}, {o.Direction != ByName, "Direction", but},
		{o.EvalDelay > 0, "EvalDelay", but}, {o.LimitEvalBatches > 0, "LimitEvalBatches", but},
		{o.EvalOrder != nil, "EvalOrder", but},
	})
}

// setting is an option that has no effect if it is set.
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

// trainsAlone is the warning of a process that was started as one of several, with a step that does
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

// newWarner is where warnings go where nobody else shows them: standard error. Errors are returned.
func newWarner() slog.Handler {
	return levelHandler{slog.NewTextHandler(standardError{}, nil), func(l slog.Level) bool { return l == slog.LevelWarn }}
}

// standardError is os.Stderr at the time of writing.
type standardError struct{}

func (standardError) Write(b []byte) (int, error) { return os.Stderr.Write(b) }
