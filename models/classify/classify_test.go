package classify_test

import (
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// fixed returns the logits that a test wants and remembers what it was given.
type fixed struct {
	Linear *nn.Linear `module:"linear"`

	head   classify.Head
	logits []float32
	mask   []int64
	types  []int64
}

func (f *fixed) Forward(ids, mask, types torch.Tensor) torch.Tensor {
	f.mask, f.types = nil, nil
	if mask.Defined() {
		f.mask = torch.Values[int64](mask.ToDType(torch.Int64))
	}
	if types.Defined() {
		f.types = torch.Values[int64](types)
	}
	return torch.From(f.logits, ids.Size(0), f.head.NumLabels)
}

func (f *fixed) Head() classify.Head { return f.head }
func (f *fixed) Limits() classify.Limits {
	return classify.Limits{VocabSize: 10, TypeVocabSize: 2, MaxLength: 6, PadTokenID: 9}
}
func (f *fixed) WriteConfig(string) error { return nil }

func newTask(t *testing.T, h classify.Head, o classify.TaskOptions, logits ...float32) (*classify.Task, *fixed) {
	t.Helper()
	h, err := h.Resolved()
	if err != nil {
		t.Fatal(err)
	}
	m := &fixed{head: h, logits: logits}
	task, err := classify.NewTask(m, o)
	if err != nil {
		t.Fatal(err)
	}
	return task, m
}

func TestHeadsResolveAsTransformersDoes(t *testing.T) {
	for _, c := range []struct {
		name string
		head classify.Head
		want classify.Head
	}{
		{"nothing said gives two classes", classify.Head{}, classify.Head{NumLabels: 2,
			ProblemType: classify.SingleLabel, ID2Label: []string{"LABEL_0", "LABEL_1"}}},
		{"one label is a regression", classify.Head{NumLabels: 1}, classify.Head{NumLabels: 1,
			ProblemType: classify.Regression, ID2Label: []string{"LABEL_0"}}},
		{"texts count the labels", classify.Head{ID2Label: []string{"a", "b", "c"}}, classify.Head{NumLabels: 3,
			ProblemType: classify.SingleLabel, ID2Label: []string{"a", "b", "c"}}},
		{"a problem type is kept", classify.Head{NumLabels: 2, ProblemType: classify.MultiLabel},
			classify.Head{NumLabels: 2, ProblemType: classify.MultiLabel, ID2Label: []string{"LABEL_0", "LABEL_1"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.head.Resolved()
			if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
				t.Errorf("error %v\n%s", err, diff)
			}
		})
	}
}

func TestImpossibleHeadsAreRefused(t *testing.T) {
	for want, h := range map[string]classify.Head{
		"NumLabels is -1":          {NumLabels: -1},
		"ID2Label has 1 texts":     {NumLabels: 2, ID2Label: []string{"a"}},
		`no ProblemType "guess"`:   {ProblemType: "guess"},
		"a single class is always": {NumLabels: 1, ProblemType: classify.SingleLabel},
	} {
		if _, err := h.Resolved(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want one with %q", h, err, want)
		}
	}
}

func TestWhatAHeadLeavesOpenComesFromTheFile(t *testing.T) {
	file := classify.Head{NumLabels: 2, ID2Label: []string{"no", "yes"}, ProblemType: classify.MultiLabel}
	for _, c := range []struct {
		name      string
		head, out classify.Head
	}{
		{"nothing said", classify.Head{}, file},
		{"the same number keeps the texts", classify.Head{NumLabels: 2}, file},
		{"another number keeps nothing", classify.Head{NumLabels: 3}, classify.Head{NumLabels: 3}},
		{"other texts", classify.Head{ID2Label: []string{"bad", "good"}},
			classify.Head{ID2Label: []string{"bad", "good"}, ProblemType: classify.MultiLabel}},
		{"another problem type", classify.Head{ProblemType: classify.SingleLabel}, classify.Head{NumLabels: 2,
			ID2Label: []string{"no", "yes"}, ProblemType: classify.SingleLabel}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.out, c.head.Over(file)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestHeadsSurviveTheirFile(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		labels := rapid.SliceOfN(rapid.String(), 2, 12).Draw(r, "labels")
		for i := range labels {
			labels[i] = strings.ToValidUTF8(labels[i], "?")
		}
		want, err := classify.Head{ID2Label: labels,
			ProblemType: rapid.SampledFrom([]classify.ProblemType{classify.SingleLabel, classify.MultiLabel,
				classify.Regression}).Draw(r, "type")}.Resolved()
		if err != nil {
			r.Fatal(err)
		}
		d := pretrained.Document{}
		if err := want.Encode(d); err != nil {
			r.Fatal(err)
		}
		got, err := classify.DecodeHead(d)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			r.Errorf("error %v\n%s", err, diff)
		}
	})
}

// TestLabel2IDMayHaveStrings, as files that were written by hand have: id2label is what counts.
func TestLabel2IDMayHaveStrings(t *testing.T) {
	d, err := pretrained.ParseConfig([]byte(`{"id2label": {"0": "a", "1": "b"}, "label2id": {"a": "0", "b": "1"}}`))
	if err != nil {
		t.Fatal(err)
	}
	h, err := classify.DecodeHead(d)
	if err != nil || !slices.Equal(h.ID2Label, []string{"a", "b"}) || len(d) != 0 {
		t.Errorf("%+v, error %v, left %v", h, err, d)
	}
}

// TestLabelsHaveNumbers, and a label that no class or two classes have is an error.
func TestLabelsHaveNumbers(t *testing.T) {
	h := classify.Head{ID2Label: []string{"neg", "pos", "other", "other"}}
	id, err := h.LabelID("pos")
	require.NoError(t, err)
	assert.EqualValues(t, 1, id)
	_, err = h.LabelID("Pos")
	require.ErrorContains(t, err, `there is no class "Pos"; there are ["neg" "pos" "other" "other"]`)
	_, err = h.LabelID("other")
	require.ErrorContains(t, err, `the classes 2 and 3 are both "other"`)
}

func TestDamagedLabelsAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		`{"id2label": {"0": "a", "2": "b"}}`:        `the key "2"`,
		`{"id2label": {"00": "a"}}`:                 `the key "00"`,
		`{"id2label": ["a"]}`:                       "id2label is",
		`{"id2label": {"0": "a"}, "num_labels": 2}`: "num_labels is 2",
	} {
		d, err := pretrained.ParseConfig([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := classify.DecodeHead(d); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", text, err, want)
		}
	}
}

func TestCollatePadsToTheLongest(t *testing.T) {
	task, _ := newTask(t, classify.Head{}, classify.TaskOptions{})
	b, err := task.Collate([]classify.Sample{{InputIDs: []int64{1, 2, 3}, TokenTypeIDs: []int64{0, 1, 1}, Label: 1},
		{InputIDs: []int64{4}}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int64{1, 2, 3, 4, 9, 9}, b.InputIDs.Values); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]int64{1, 1, 1, 1, 0, 0}, b.AttentionMask.Values); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]int64{0, 1, 1, 0, 0, 0}, b.TokenTypeIDs.Values); diff != "" {
		t.Error(diff)
	}
	if all, nonPadding := task.CountTokens(b); !slices.Equal(b.Labels, []int64{1, 0}) || all != 6 || nonPadding != 4 {
		t.Errorf("labels %v, %d tokens, %d of them no padding; want [1 0], 6 and 4", b.Labels, all, nonPadding)
	}
	whole, err := task.Collate([]classify.Sample{{InputIDs: []int64{1, 2}}, {InputIDs: []int64{4, 5}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, nonPadding := task.CountTokens(whole); whole.AttentionMask.Values != nil ||
		whole.TokenTypeIDs.Values != nil || nonPadding != 4 {
		t.Errorf("a batch without padding and types has mask %v and types %v, %d tokens", whole.AttentionMask.Values,
			whole.TokenTypeIDs.Values, nonPadding)
	}
}

func TestAMaskOfTheSampleIsKept(t *testing.T) {
	task, _ := newTask(t, classify.Head{}, classify.TaskOptions{})
	b, err := task.Collate([]classify.Sample{{InputIDs: []int64{1, 2, 9}, AttentionMask: []int64{1, 1, 0}},
		{InputIDs: []int64{3, 4, 5}, AttentionMask: []int64{1, 1, 1}}})
	if err != nil || !slices.Equal(b.AttentionMask.Values, []int64{1, 1, 0, 1, 1, 1}) {
		t.Errorf("mask %v, error %v", b.AttentionMask.Values, err)
	}
}

func TestWhatAModelCannotTakeIsNamed(t *testing.T) {
	single, regression, multi := classify.Head{NumLabels: 3}, classify.Head{NumLabels: 1}, classify.Head{NumLabels: 2,
		ProblemType: classify.MultiLabel}
	nan := float32(math.NaN())
	for _, c := range []struct {
		name   string
		head   classify.Head
		sample classify.Sample
		want   string
	}{
		{"no tokens", single, classify.Sample{}, "InputIDs is empty"},
		{"too long", single, classify.Sample{InputIDs: make([]int64, 7)}, "has 7 tokens, but the model has positions " +
			"for 6"},
		{"an unknown id", single, classify.Sample{InputIDs: []int64{1, 10}},
			"token 1 has the id 10, but the vocabulary of the model has 10"},
		{"a negative id", single, classify.Sample{InputIDs: []int64{-1}}, "token 0 has the id -1"},
		{"an unknown type", single, classify.Sample{InputIDs: []int64{1}, TokenTypeIDs: []int64{2}},
			"token 0 has the type 2, but the model has 2 types"},
		{"types of another length", single, classify.Sample{InputIDs: []int64{1}, TokenTypeIDs: []int64{0, 0}},
			"TokenTypeIDs has 2 numbers for 1 tokens"},
		{"a mask of another length", single, classify.Sample{InputIDs: []int64{1}, AttentionMask: []int64{1, 1}},
			"AttentionMask has 2 numbers for 1 tokens"},
		{"a mask of halves", single, classify.Sample{InputIDs: []int64{1}, AttentionMask: []int64{2}},
			"AttentionMask of token 0 is 2"},
		{"an unknown class", single, classify.Sample{InputIDs: []int64{1}, Label: 3}, "Label is 3; want 0 to 2"},
		{"numbers instead of a class", single, classify.Sample{InputIDs: []int64{1}, Targets: []float32{1, 0, 1}},
			"Targets has 3 numbers, but a head for single_label_classification learns Label"},
		{"no number", regression, classify.Sample{InputIDs: []int64{1}},
			"Targets has 0 numbers; a head for regression with 1 labels"},
		{"not a number", regression, classify.Sample{InputIDs: []int64{1}, Targets: []float32{nan}},
			"Targets[0] is NaN"},
		{"no probability", multi, classify.Sample{InputIDs: []int64{1}, Targets: []float32{0, 2}}, "Targets[1] is 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			task, _ := newTask(t, c.head, classify.TaskOptions{})
			good := classify.Sample{InputIDs: []int64{1}}
			if c.head.NumLabels < 3 {
				good.Targets = make([]float32, c.head.NumLabels)
			}
			_, err := task.Collate([]classify.Sample{good, c.sample})
			var fault *classify.SampleError
			if !errors.As(err, &fault) || fault.Index != 1 || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want a SampleError of sample 1 with %q", err, c.want)
			}
		})
	}
}

func TestOptionsThatDoNotFitAreRefused(t *testing.T) {
	for want, c := range map[string]struct {
		labels  int64
		options classify.TaskOptions
	}{
		"pad on the right":        {2, classify.TaskOptions{Padding: data.Padding{Left: true}}},
		"Padding.Length is 7":     {2, classify.TaskOptions{Padding: data.Padding{Length: 7}}},
		"the model tells classes": {2, classify.TaskOptions{ValueMetrics: []metrics.Metric[float64]{nil}}},
		"but the model is a regression;": {1,
			classify.TaskOptions{Metrics: []metrics.Metric[int]{&metrics.Accuracy[int]{}}}},
	} {
		head, err := classify.Head{NumLabels: c.labels}.Resolved()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := classify.NewTask(&fixed{head: head}, c.options); err == nil || !strings.Contains(err.Error(),
			want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	task, _ := newTask(t, classify.Head{}, classify.TaskOptions{Padding: data.Padding{Multiple: 8}})
	if _, err := task.Collate([]classify.Sample{{InputIDs: []int64{1}}}); err == nil || !strings.Contains(err.Error(),
		"rows of 8 tokens") {
		t.Errorf("a multiple beyond the positions: error %v", err)
	}
}

func TestEvaluationsGiveTheMetricsOfTheProblem(t *testing.T) {
	testenv.RequireTorch(t)
	for _, c := range []struct {
		name    string
		head    classify.Head
		options classify.TaskOptions
		logits  []float32
		samples []classify.Sample
		want    map[string]float64
		loss    float64
	}{
		{
			"classes", classify.Head{NumLabels: 2}, classify.TaskOptions{}, []float32{0, 1, 1, 0, 5, 0},
			[]classify.Sample{{Label: 1}, {Label: 1}, {Label: 0}}, map[string]float64{"accuracy": 2. / 3},
			(math.Log1p(math.Exp(-1)) + math.Log1p(math.Exp(1)) + math.Log1p(math.Exp(-5))) / 3,
		},
		{
			"numbers", classify.Head{NumLabels: 1}, classify.TaskOptions{}, []float32{1, 4},
			[]classify.Sample{{Targets: []float32{2}}, {Targets: []float32{7}}}, map[string]float64{"mse": 5, "mae": 2},
			5,
		},
		{
			"several numbers", classify.Head{NumLabels: 2, ProblemType: classify.Regression}, classify.TaskOptions{},
			[]float32{1, 4},
			[]classify.Sample{{Targets: []float32{2, 7}}}, map[string]float64{"mse": 5, "mae": 2}, 5,
		},
		{
			"several labels", classify.Head{NumLabels: 2, ProblemType: classify.MultiLabel},
			classify.TaskOptions{Metrics: []metrics.Metric[int]{&metrics.F1{Average: metrics.Binary(1)}}},
			[]float32{3, -3, -3, 3},
			[]classify.Sample{{Targets: []float32{1, 0}}, {Targets: []float32{1, 1}}}, map[string]float64{"f1": 0.8},
			(3*math.Log1p(math.Exp(-3)) + math.Log1p(math.Exp(3))) / 4,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			task, _ := newTask(t, c.head, c.options, c.logits...)
			for i := range c.samples {
				c.samples[i].InputIDs = []int64{1}
			}
			b, err := task.Collate(c.samples)
			if err != nil {
				t.Fatal(err)
			}
			for pass := range 3 { // nothing is left of the pass before
				outputs := task.Predict(engine.ForwardPass{}, b)
				task.Observe(b, outputs)
				if pass == 2 { // as of two processes, of which the other one has only samples that fill up its batch
					for _, rows := range []int{len(c.samples), 0} {
						part, err := task.TakeObserved(rows)
						if err == nil {
							err = task.AddObserved(part)
						}
						if err != nil {
							t.Fatal(err)
						}
						task.Observe(b, outputs)
					}
					if _, err := task.TakeObserved(0); err != nil {
						t.Fatal(err)
					}
				}
				loss := task.LossOf(engine.ForwardPass{}, outputs)
				if got := loss.Value.Item(); math.Abs(got-c.loss) > 1e-6 || loss.Rows != len(c.samples) {
					t.Errorf("loss %g of %d rows, want %g of %d", got, loss.Rows, c.loss, len(c.samples))
				}
				got := task.Metrics()
				for name, want := range c.want {
					if math.Abs(got[name]-want) > 1e-9 {
						t.Errorf("%s is %g, want %g (of %v)", name, got[name], want, got)
					}
				}
			}
		})
	}
}

func TestTheModelSeesMaskAndTypesOnlyWhereThereAreAny(t *testing.T) {
	testenv.RequireTorch(t)
	task, m := newTask(t, classify.Head{}, classify.TaskOptions{}, 0, 0, 0, 0)
	for _, c := range []struct {
		samples     []classify.Sample
		mask, types []int64
	}{
		{[]classify.Sample{{InputIDs: []int64{1}}, {InputIDs: []int64{2}}}, nil, nil},
		{[]classify.Sample{{InputIDs: []int64{1, 2}}, {InputIDs: []int64{2}}}, []int64{1, 1, 1, 0}, nil},
		{[]classify.Sample{{InputIDs: []int64{1, 2}}, {InputIDs: []int64{2}, TokenTypeIDs: []int64{1}}},
			[]int64{1, 1, 1, 0}, []int64{0, 0, 1, 0}},
	} {
		b, err := task.Collate(c.samples)
		if err != nil {
			t.Fatal(err)
		}
		task.Loss(engine.ForwardPass{}, b)
		if !slices.Equal(m.mask, c.mask) || !slices.Equal(m.types, c.types) {
			t.Errorf("mask %v and types %v, want %v and %v", m.mask, m.types, c.mask, c.types)
		}
	}
}

func TestTensorsOfABatchAreTheArgumentsOfForward(t *testing.T) {
	testenv.RequireTorch(t)
	task, model := newTask(t, classify.Head{NumLabels: 2}, classify.TaskOptions{}, 1, 2, 3, 4)
	for _, c := range []struct {
		name        string
		samples     []classify.Sample
		mask, types []int64
	}{
		{"a padded row has a mask", []classify.Sample{{InputIDs: []int64{1, 2}}, {InputIDs: []int64{3}}},
			[]int64{1, 1, 1, 0}, nil},
		{"types stay where there are some", []classify.Sample{{InputIDs: []int64{1, 2}, TokenTypeIDs: []int64{0, 1}},
			{InputIDs: []int64{3, 4}}}, nil, []int64{0, 1, 0, 0}},
	} {
		batch, err := task.Collate(c.samples)
		if err != nil {
			t.Fatal(err)
		}
		if got := model.Forward(batch.Tensors()); got.Size(0) != 2 || !slices.Equal(model.mask, c.mask) ||
			!slices.Equal(model.types, c.types) {
			t.Errorf("%s: mask %v and types %v, want %v and %v", c.name, model.mask, model.types, c.mask, c.types)
		}
	}
}
