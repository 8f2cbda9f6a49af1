package trainer

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// bestMetric is the metric that decides which evaluation is the best, and its direction.
type bestMetric struct {
	name     string // bare name: "accuracy"
	explicit bool   // named by the options: its absence from an evaluation is an error
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

// errorWords are the last words in the names of metrics that count errors: "cer", "valid_wer".
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

// better is strict, as in Hugging Face: an equal value is not better, and NaN never is.
func (m bestMetric) better(a, b float64) bool {
	if m.greater {
		return a > b
	}
	return a < b
}

// direction returns the direction in which the metric improves, for the configuration.
func (m bestMetric) direction() string {
	if m.greater {
		return "greater"
	}
	return "lower"
}

// decides reports whether the evaluations of the run are compared to find the best.
func (ev *evaluator) decides() bool { return ev.bestMetric.track && len(ev.sets) > 0 }

// bestOf returns the best evaluation in a log, or the zero value if none has the metric. An
// evaluation before the first update does not count.
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

// value returns the deciding metric from the row of an evaluation.
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

// consider records an evaluation if it is the best so far. saved is the checkpoint of its update;
// empty: there is none yet.
func (ev *evaluator) consider(row Logs, saved string) (bool, error) {
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
		// the checkpoint of the previous best, until a save finds that of a better evaluation on
		// disk
		saved = ev.best.Checkpoint
	}
	ev.best = Best{Metric: evalPrefix + ev.bestMetric.name, Value: v, Metrics: Metrics(row),
		GlobalStep: ev.loop.GlobalStep, Checkpoint: saved}
	return true, nil
}
