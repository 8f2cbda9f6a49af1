package trainer

import (
	"context"
	"log/slog"
)

// levelHandler passes records of some levels on to another handler.
type levelHandler struct {
	slog.Handler
	lets func(slog.Level) bool
}

func (h levelHandler) Enabled(ctx context.Context, l slog.Level) bool {
	return h.lets(l) && h.Handler.Enabled(ctx, l)
}

func (h levelHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return levelHandler{h.Handler.WithAttrs(attrs), h.lets}
}

func (h levelHandler) WithGroup(name string) slog.Handler {
	return levelHandler{h.Handler.WithGroup(name), h.lets}
}

// runLog reports a run to Options.Logger, as transformers does to its logger.
type runLog struct{ log *slog.Logger }

func (l *runLog) TrainBegin(r *Run) error {
	i := &r.Info
	l.log.Info("training begins", "step", i.Step, "samples", i.TrainSamples, "updates", r.MaxSteps, "epochs", i.Epochs,
		"batch_size", i.BatchSize, "accumulate", i.Accumulate, "learning_rate", i.LearningRate, "schedule", i.Schedule,
		"seed", i.Seed, "resumed_from", i.ResumedFrom)
	return nil
}

func (l *runLog) AfterEval(r *Run, m Metrics) error {
	attrs := []any{"name", r.Evaluation, "global_step", r.GlobalStep, "epoch", r.Epoch}
	for _, k := range Logs(m).Keys() {
		attrs = append(attrs, k, m[k])
	}
	l.log.Info("evaluated", attrs...)
	return nil
}

func (l *runLog) AfterLog(_ *Run, row Logs) error {
	if !l.log.Enabled(context.Background(), slog.LevelDebug) {
		return nil
	}
	var attrs []any
	for _, k := range row.Keys() {
		attrs = append(attrs, k, row[k])
	}
	l.log.Debug("log", attrs...)
	return nil
}

func (l *runLog) AfterSave(r *Run, checkpoint string) error {
	l.log.Info("saved", "checkpoint", checkpoint, "global_step", r.GlobalStep)
	return nil
}

func (l *runLog) TrainEnd(r *Run) error {
	attrs := []any{"global_step", r.GlobalStep, "epoch", r.Epoch}
	if best, ok := r.Best(); ok {
		attrs = append(attrs, "best_metric", best.Metric, "best_value", best.Value, "best_step", best.GlobalStep)
	}
	if reason := r.StopReason(); reason != "" {
		attrs = append(attrs, "stopped", reason)
	}
	l.log.Info("training ends", attrs...)
	return nil
}

func (l *runLog) TrainFailed(r *Run, err error) {
	l.log.Error("training failed", "error", err, "global_step", r.GlobalStep, "epoch", r.Epoch)
}
