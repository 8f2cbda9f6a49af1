package metrics_test

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gotrainer/gotrainer/metrics"
)

// more is testdata/more.json, written by more.py.
type more struct {
	Classes []struct {
		References, Predictions, Labels []int
		MCC                             float64
		Confusion                       [][]int64
		Scores                          []struct {
			Average, Zero string
			Values        []any
		}
		Each [][]float64
	}
	Numbers []struct {
		References, Predictions               []float64
		MAE, MSE, RMSE, R2, Pearson, Spearman float64
	}
	Scores []struct {
		Labels      []int
		Scores      [][]float64
		AUC         float64
		AUCWeighted float64 `json:"auc_weighted"`
		Top         map[string]float64
	}
	Entities []struct {
		Scheme                          string
		Suffix                          bool
		References, Predictions         [][]string
		Accuracy, Precision, Recall, F1 float64
		Types                           map[string][]float64
	}
	Summaries []struct {
		Stemmer    bool
		Prediction string
		References []string
		Scores     map[string][]float64
	}
	Stems        map[string]string
	Translations []struct {
		References      [][]string
		Predictions     []string
		NLTK, Sacrebleu map[string]float64
		Effective       float64
		Precisions      []float64
		Penalty, Ratio  float64
	}
	Tokens13a [][]any
}

func loadMore(t *testing.T) more {
	t.Helper()
	text, err := os.ReadFile("testdata/more.json")
	if err != nil {
		t.Fatal(err)
	}
	var m more
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	if len(m.Classes) == 0 || len(m.Numbers) == 0 || len(m.Scores) == 0 || len(m.Entities) == 0 ||
		len(m.Summaries) == 0 || len(m.Translations) == 0 || len(m.Tokens13a) == 0 {
		t.Fatal("testdata/more.json lacks something")
	}
	return m
}

// near compares with a tolerance of 1e-12, relative above 1.
func near(a, b float64) bool {
	return math.IsNaN(a) && math.IsNaN(b) || math.Abs(a-b) <= 1e-12*max(1, math.Abs(b))
}

func TestZeroDivisionAndLabelsMatchScikitLearn(t *testing.T) {
	averages := map[string]metrics.Average{"macro": metrics.Macro(), "micro": metrics.Micro(),
		"weighted": metrics.Weighted()}
	for i, c := range loadMore(t).Classes {
		for _, s := range c.Scores {
			zero, err := strconv.ParseFloat(s.Zero, 64)
			if err != nil {
				t.Fatal(err)
			}
			f := &metrics.F1{Average: averages[s.Average], ZeroDivision: zero, Labels: c.Labels}
			got := result(f, c.Predictions, c.References)
			for j, key := range []string{"precision", "recall", "f1"} {
				want, ok := s.Values[j].(float64)
				if !ok {
					want = math.NaN()
				}
				if !near(got[key], want) {
					t.Errorf("case %d, %s, zero_division %s, labels %v: %s = %v, want %v", i, s.Average, s.Zero,
						c.Labels, key, got[key], want)
				}
			}
		}
		f := &metrics.F1{Labels: c.Labels}
		result(f, c.Predictions, c.References)
		for j, k := range f.Classes() {
			if got := []float64{k.Precision, k.Recall, k.F1, float64(k.Support)}; !slices.EqualFunc(got, c.Each[j],
				near) {
				t.Errorf("case %d: class %d has %v, want %v", i, k.Label, got, c.Each[j])
			}
		}
		if got := result(&metrics.Matthews{}, c.Predictions, c.References)["matthews_correlation"]; !near(got, c.MCC) {
			t.Errorf("case %d: Matthews = %v, want %v", i, got, c.MCC)
		}
		var m metrics.ConfusionMatrix
		result(&m, c.Predictions, c.References)
		if _, counts := m.Matrix(); !cmp.Equal(counts, c.Confusion) {
			t.Errorf("case %d: confusion matrix %v, want %v", i, counts, c.Confusion)
		}
	}
}

func TestNumbersMatchScikitLearnAndSciPy(t *testing.T) {
	for i, c := range loadMore(t).Numbers {
		for _, row := range []struct {
			m    metrics.Metric[float64]
			want float64
		}{
			{&metrics.MAE{}, c.MAE}, {&metrics.MSE{}, c.MSE}, {&metrics.RMSE{}, c.RMSE}, {&metrics.R2{}, c.R2},
			{&metrics.Pearson{}, c.Pearson}, {&metrics.Spearman{}, c.Spearman},
		} {
			if got := result(row.m, c.Predictions, c.References)[row.m.Name()]; !near(got, row.want) {
				t.Errorf("case %d: %s = %v, want %v", i, row.m.Name(), got, row.want)
			}
		}
	}
}

func TestScoresMatchScikitLearn(t *testing.T) {
	for i, c := range loadMore(t).Scores {
		score := func(m metrics.Scored) float64 {
			for j, row := range c.Scores {
				m.Add(row, c.Labels[j])
			}
			return m.Result()[m.Name()]
		}
		if got := score(&metrics.ROCAUC{}); !near(got, c.AUC) {
			t.Errorf("case %d: ROCAUC = %v, want %v", i, got, c.AUC)
		}
		if got := score(&metrics.ROCAUC{Weighted: true}); !near(got, c.AUCWeighted) {
			t.Errorf("case %d: weighted ROCAUC = %v, want %v", i, got, c.AUCWeighted)
		}
		for k, want := range c.Top {
			n, err := strconv.Atoi(k)
			if err != nil {
				t.Fatal(err)
			}
			if got := score(&metrics.TopKAccuracy{K: n}); !near(got, want) {
				t.Errorf("case %d: top %d = %v, want %v", i, n, got, want)
			}
		}
	}
}

func TestEntitiesMatchSeqeval(t *testing.T) {
	schemes := map[string]metrics.Scheme{
		"any": metrics.AnyScheme, "IOB1": metrics.IOB1, "IOB2": metrics.IOB2, "IOE1": metrics.IOE1,
		"IOE2": metrics.IOE2, "IOBES": metrics.IOBES, "BILOU": metrics.BILOU,
	}
	for _, c := range loadMore(t).Entities {
		m := &metrics.Seqeval{Scheme: schemes[c.Scheme], Suffix: c.Suffix}
		got := result(m, c.Predictions, c.References)
		for key, want := range map[string]float64{"accuracy": c.Accuracy, "precision": c.Precision, "recall": c.Recall,
			"f1": c.F1} {
			if !near(got[key], want) {
				t.Errorf("%s, suffix %v: %s = %v, want %v", c.Scheme, c.Suffix, key, got[key], want)
			}
		}
		for _, e := range m.Types() {
			if got := []float64{e.Precision, e.Recall, e.F1, float64(e.Support)}; !slices.EqualFunc(got,
				c.Types[e.Type], near) {
				t.Errorf("%s, suffix %v: type %s has %v, want %v", c.Scheme, c.Suffix, e.Type, got, c.Types[e.Type])
			}
		}
		if len(m.Types()) != len(c.Types) {
			t.Errorf("%s, suffix %v: %d types, want %d", c.Scheme, c.Suffix, len(m.Types()), len(c.Types))
		}
	}
}

func TestSummariesMatchRougeScore(t *testing.T) {
	for i, c := range loadMore(t).Summaries {
		for name, got := range (&metrics.ROUGE{Stemmer: c.Stemmer}).Score(c.Prediction, c.References...) {
			if got := []float64{got.Precision, got.Recall, got.F1}; !slices.EqualFunc(got, c.Scores[name], near) {
				t.Errorf("case %d, stemmer %v, %q for %q: %s = %v, want %v", i, c.Stemmer, c.Prediction, c.References,
					name, got, c.Scores[name])
			}
		}
	}
}

func TestTranslationsMatchNLTKAndSacrebleu(t *testing.T) {
	smoothings := map[string]metrics.Smoothing{"none": {}, "floor": metrics.SmoothFloor(0.1),
		"add-k": metrics.SmoothAddK(1), "exp": metrics.SmoothExp()}
	for i, c := range loadMore(t).Translations {
		score := func(m *metrics.BLEU) map[string]float64 {
			for j, p := range c.Predictions {
				m.AddReferences(p, c.References[j]...)
			}
			return m.Result()
		}
		for name, smoothing := range smoothings {
			if got := score(&metrics.BLEU{Smoothing: smoothing})["bleu"]; !near(got, c.NLTK[name]) {
				t.Errorf("case %d: BLEU smoothed by %s = %v, NLTK has %v", i, name, got, c.NLTK[name])
			}
			if got := score(&metrics.BLEU{Smoothing: smoothing, Tokenize: metrics.Tokenize13a})["bleu"]; !near(got,
				c.Sacrebleu[name]) {
				t.Errorf("case %d: BLEU smoothed by %s = %v, sacrebleu has %v", i, name, got, c.Sacrebleu[name])
			}
		}
		if got := score(&metrics.BLEU{MaxOrder: 2})["bleu"]; !near(got, c.NLTK["bigrams"]) {
			t.Errorf("case %d: BLEU of bigrams = %v, want %v", i, got, c.NLTK["bigrams"])
		}
		one := &metrics.BLEU{Smoothing: metrics.SmoothExp(), Tokenize: metrics.Tokenize13a, EffectiveOrder: true}
		one.AddReferences(c.Predictions[0], c.References[0]...)
		if got := one.Result()["bleu"]; !near(got, c.Effective) {
			t.Errorf("case %d: BLEU of a sentence = %v, want %v", i, got, c.Effective)
		}
		full := score(&metrics.BLEU{Smoothing: metrics.SmoothExp(), Tokenize: metrics.Tokenize13a})
		for n, want := range c.Precisions {
			if got := full["bleu_precision_"+strconv.Itoa(n+1)]; !near(got, want) {
				t.Errorf("case %d: precision of %d words = %v, want %v", i, n+1, got, want)
			}
		}
		if got := full["bleu_brevity_penalty"]; !near(got, c.Penalty) {
			t.Errorf("case %d: brevity penalty %v, want %v", i, got, c.Penalty)
		}
		if got := full["bleu_length_ratio"]; !near(got, c.Ratio) {
			t.Errorf("case %d: length ratio %v, want %v", i, got, c.Ratio)
		}
	}
}

func TestTokenize13aMatchesSacrebleu(t *testing.T) {
	for _, row := range loadMore(t).Tokens13a {
		var want []string
		for _, w := range row[1].([]any) {
			want = append(want, w.(string))
		}
		if got := metrics.Tokenize13a(row[0].(string)); !slices.Equal(got, want) {
			t.Errorf("Tokenize13a(%q) = %q, want %q", row[0], got, want)
		}
	}
}

func TestNaNIsNoScore(t *testing.T) {
	nan := math.NaN()
	top := &metrics.TopKAccuracy{K: 1}
	top.Add([]float64{nan, nan, nan}, 2)
	top.Add([]float64{nan, 1, 2}, 2)
	if got := top.Result()["top_1_accuracy"]; got != 0 {
		t.Errorf("scores that are NaN are right in %v of the cases", got)
	}
	for _, pair := range [][2]float64{{nan, 1}, {1, nan}} {
		s := &metrics.Spearman{}
		s.Add(1, 2)
		s.Add(2, 1)
		s.Add(pair[0], pair[1])
		if got := s.Result()["spearman"]; !math.IsNaN(got) {
			t.Errorf("a correlation with NaN is %v", got)
		}
	}
}

// sacrebleu.corpus_bleu([text], [[text]], smooth_method="add-k", smooth_value=1) of sacrebleu 2.6,
// which adds k before it checks whether there are any sequences of that length.
func TestAddKSmoothsLengthsThatTheTextDoesNotHave(t *testing.T) {
	b := &metrics.BLEU{Smoothing: metrics.SmoothAddK(1)}
	b.Add("a b c", "a b c")
	if got := b.Result()["bleu"]; math.Abs(got-1) > 1e-12 {
		t.Errorf("BLEU %v of equal texts, want 1", got)
	}
}
