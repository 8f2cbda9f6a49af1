package glue

import "github.com/gotrainer/gotrainer/metrics"

// Scores holds the metrics of a task: those of labels or, for STS-B, of values. The other field is
// nil.
type Scores struct {
	Labels []metrics.Metric[int]
	Values []metrics.Metric[float64]
}

// Metrics returns the metrics of a task, as evaluate.load("glue", "mrpc") does: accuracy; for MRPC
// and QQP also f1; for CoLA matthews_correlation; for STS-B pearson and spearmanr.
func Metrics(task string) (Scores, error) {
	t, err := ByName(task)
	if err != nil {
		return Scores{}, err
	}
	switch plain(t.Name) {
	case "cola":
		return Scores{Labels: []metrics.Metric[int]{&metrics.Matthews{}}}, nil
	case "stsb":
		return Scores{Values: []metrics.Metric[float64]{&metrics.Pearson{}, spearmanr{&metrics.Spearman{}}}}, nil
	case "mrpc", "qqp":
		return Scores{Labels: []metrics.Metric[int]{&metrics.Accuracy[int]{}, onlyF1{&metrics.F1{}}}}, nil
	}
	return Scores{Labels: []metrics.Metric[int]{&metrics.Accuracy[int]{}}}, nil
}

// onlyF1 leaves precision and recall out, as evaluate does.
type onlyF1 struct{ *metrics.F1 }

func (f onlyF1) Result() map[string]float64 { return map[string]float64{"f1": f.F1.Result()["f1"]} }

// spearmanr is Spearman under the name that evaluate uses.
type spearmanr struct{ *metrics.Spearman }

func (s spearmanr) Name() string { return "spearmanr" }

func (s spearmanr) Result() map[string]float64 {
	return map[string]float64{s.Name(): s.Spearman.Result()["spearman"]}
}
