package trainer

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// judge decides which of two evaluations is better.
type bestMetric struct {
	name     string // bare name
	explicit bool   // the option was set: its absence from an evaluation is an error
	greater  bool
	track    bool
}

func newBestMetric(o *Options) bestMetric {
	m := bestMetric{name: cmp.Or(strings.TrimPrefix(o.MetricForBest, evalPrefix), "loss"), explicit: o.MetricForBest != ""}
	m.track = m.explicit || o.Adaptive != nil || o.LoadBestAtEnd || o.Save.kind == atBest ||
		!o.Semantics.TrackBestOnRequest
	switch o.Direction {
	case GreaterIsBetter:
		m.greater = true
	case ByName:
		m.greater = greaterIsBetter(m.name, o.Semantics)
	}
	return m
}

// errorWords are the last words of the names of metrics that count errors: "cer", "valid_wer".
var errorWords = []string{"cer", "wer", "mse", "mae", "rmse", "perplexity"}

// greaterIsBetter is the rule of [ByName].
func greaterIsBetter(metric string, rules semantics.Rules) bool {
	if strings.HasSuffix(metric, "loss") {
		return false
	}
	if rules.OnlyLossIsLower {
		return true
	}
	word := metric[strings.LastIndexByte(metric, '_')+1:]
	return !slices.Contains(errorWords, word)
}

// better is strict, as in Hugging Face: an equal value is not better, and a nan never.
func (m bestMetric) better(a, b float64) bool {
	if m.greater {
		return a > b
	}
	return a < b
}

// direction is how a change of the metric for the better is called in a configuration.
func (m bestMetric) direction() string {
	if m.greater {
		return "greater"
	}
	return "lower"
}

// decides reports whether one evaluation of the run is better than another.
func (ev *evaluator[S, B]) decides() bool { return ev.bestMetric.track && len(ev.sets) > 0 }

// bestOf is the best evaluation of a log. Its zero value: there is none with the metric. That
// before the first update does not count.
func (m bestMetric) bestOf(log []Logs) (best Best) {
	name := evalPrefix + m.name
	for _, row := range log {
		v, ok := row[name]
		if ok && row["step"] > 0 && !math.IsNaN(v) && (best.Metric == "" || m.better(v, best.Value)) {
			best = Best{Metric: name, Value: v, Metrics: Metrics(row), GlobalStep: int(row["step"])}
		}
	}
	return best
}

// value finds the deciding metric in the row of an evaluation.
func (m bestMetric) value(row Logs) (v float64, ok bool, err error) {
	v, ok = row[evalPrefix+m.name]
	if !ok && m.explicit {
		names := make([]string, 0, len(row))
		for name := range row {
			if !isTiming(name) {
				names = append(names, strings.TrimPrefix(name, evalPrefix))
			}
		}
		slices.Sort(names)
		return 0, false, wrong("MetricForBest", fmt.Sprintf("%q", m.name), "a metric of the evaluation, which has %q",
			names)
	}
	return v, ok, nil
}

// consider takes over an evaluation if it is the best so far; saved is the checkpoint of its
// update, if there is one.
func (ev *evaluator[S, B]) consider(row Logs, saved string) (bool, error) {
	if !ev.bestMetric.track {
		return false, nil
	}
	v, ok, err := ev.bestMetric.value(row)
	if err != nil || !ok {
		return false, err
	}
	against := math.Inf(1) // the first value only has to be a number
	if ev.bestMetric.greater {
		against = math.Inf(-1)
	}
	if ev.best.Metric != "" {
		against = ev.best.Value
	}
	if !ev.bestMetric.better(v, against) {
		return false, nil
	}
	if ev.o.Semantics.BestMayBeUnsaved {
		// of an evaluation that was the best before; it stands until a save finds a better one on
		// the disk
		saved = ev.best.Checkpoint
	}
	ev.best = Best{Metric: evalPrefix + ev.bestMetric.name, Value: v, Metrics: Metrics(row),
		GlobalStep: ev.loop.GlobalStep, Checkpoint: saved}
	return true, nil
}
