package trainer_test

import (
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// backwards yields the batches of another loader in reverse order.
type backwards struct{ *data.Loader[int, []int] }

func (b backwards) Epoch(ctx context.Context, epoch, skip int) iter.Seq2[[]int, error] {
	return func(yield func([]int, error) bool) {
		var all [][]int
		for batch, err := range b.Loader.Epoch(ctx, epoch, 0) {
			if err != nil {
				yield(nil, err)
				return
			}
			all = append(all, batch)
		}
		slices.Reverse(all)
		for _, batch := range all[skip:] {
			if !yield(batch, nil) {
				return
			}
		}
	}
}

func (b backwards) Samples() int { return 1000 }

type loaders struct {
	trainertest.Step
	asked []trainer.Evaluation
}

func (s *loaders) Loader(set data.Dataset[int], o trainer.LoaderOptions) (trainer.BatchLoader[[]int], error) {
	if o.Evaluation == nil {
		o.Order = data.Sequential{}
	} else {
		s.asked = append(s.asked, *o.Evaluation)
	}
	l, err := data.NewLoader(set, s.Collate, o.LoaderOptions)
	return backwards{l}, err
}

// addPerplexity is an override of log.
type addPerplexity struct{}

func (addPerplexity) BeforeLog(_ *trainer.Run, row trainer.Logs) error {
	if loss, ok := row["loss"]; ok {
		row["twice_the_loss"], row["step"] = 2*loss, -1 // the trainer sets step afterwards
	}
	return nil
}

// halving is a custom schedule.
type halving struct{}

func (halving) Plan(peak float64, _ int) lr.Rate {
	return func(update int) float64 { return peak / float64(int(1)<<update) }
}

// twice is a custom training_step that makes the usual step twice.
type twice struct{ trainertest.Step }

func (s *twice) Train(ctx context.Context, batch []int, w trainer.Window) error {
	if err := s.Step.Train(ctx, batch, w); err != nil {
		return err
	}
	return s.Step.Train(ctx, batch, w)
}

// countingStep has a custom prediction_step and a custom end of evaluations.
type countingStep struct {
	trainertest.Step
	rows int
}

func (s *countingStep) Eval(ctx context.Context, batch []int) error {
	s.rows += len(batch)
	return s.Step.Eval(ctx, batch)
}

func (s *countingStep) Metrics(ctx context.Context) (trainer.Metrics, error) {
	m, err := s.Step.Metrics(ctx)
	if err == nil {
		m["rows"] = float64(s.rows)
	}
	s.rows = 0
	return m, err
}

func (s *countingStep) Count(batch []int) trainer.Counts {
	return trainer.Counts{Items: 2 * int64(len(batch)), Flops: 6 * float64(len(batch))}
}

// maker is a step that makes its model when it is seeded.
type maker struct {
	trainertest.Step
	made []trainer.SeedOptions
}

func (s *maker) About() trainer.About { return trainer.About{MakesModel: true} }

func (s *maker) Seed(seed uint64, o trainer.SeedOptions) error {
	s.made = append(s.made, o)
	return s.Step.Seed(seed, o)
}

var overrides = map[string]func(t *testing.T){
	"get_train_dataloader": func(t *testing.T) {
		step := new(loaders)
		if _, err := fitted(t, step, trainer.Options{Epochs: 1, BatchSize: 2}, 5, nil); err != nil {
			t.Fatal(err)
		}
		if got := firstTrain(&step.Step); got != "train(4)" {
			t.Errorf("first batch %s, want the last of the loader", got)
		}
	},
	"get_eval_dataloader": func(t *testing.T) {
		step := new(loaders)
		if _, err := fitted(t, step, trainer.Options{Epochs: 1, EvalBatchSize: 2}, 8, two); err != nil {
			t.Fatal(err)
		}
		if got := step.Trace(); !strings.Contains(got, "eval(2) eval(0,1) metrics") || len(step.asked) != 2 ||
			step.asked[1].Name != "eval_b" {
			t.Errorf("trace %s, asked for %+v", got, step.asked)
		}
	},
	"get_test_dataloader": func(t *testing.T) {
		step := new(loaders)
		tr, err := trainer.New(step, trainer.Options{Progress: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tr.Predict(t.Context(), trainertest.Samples(2), ""); err != nil || len(step.asked) != 1 ||
			!step.asked[0].Predict || step.asked[0].Name != "test" {
			t.Errorf("%v, asked for %+v", err, step.asked)
		}
	},
	"num_examples": func(t *testing.T) {
		samples := new(sizes)
		if _, err := fitted(t, new(loaders), trainer.Options{Epochs: 1, Callbacks: []any{samples}}, 5,
			nil); err != nil || *samples != 1000 {
			t.Errorf("%d samples, %v; want what the loader says", *samples, err)
		}
	},
	"log": func(t *testing.T) {
		r, err := fitted(t, new(trainertest.Step), trainer.Options{Epochs: 1, Log: trainer.Every(1, trainer.Update),
			Callbacks: []any{addPerplexity{}}}, 8, nil)
		if err != nil {
			t.Fatal(err)
		}
		if row := r.History[0]; row["twice_the_loss"] != 2*row["loss"] || row["step"] != 1 {
			t.Errorf("row %v", row)
		}
	},
	"create_scheduler": func(t *testing.T) {
		step := new(trainertest.Step)
		if _, err := fitted(t, step, trainer.Options{Epochs: 1, BatchSize: 2, LearningRate: 8, Schedule: halving{},
			Order: data.Sequential{}}, 6, nil); err != nil {
			t.Fatal(err)
		}
		if got := step.Trace(); got != "train(0,1) update(8) train(2,3) update(4) train(4,5) update(2)" {
			t.Errorf("trace %s", got)
		}
	},
	"training_step": func(t *testing.T) {
		step := new(twice)
		if _, err := fitted(t, step, trainer.Options{Epochs: 1, BatchSize: 2, LearningRate: 1,
			Order: data.Sequential{}}, 2, nil); err != nil {
			t.Fatal(err)
		}
		if got := step.Trace(); got != "train(0,1) train(0,1) update(1)" {
			t.Errorf("trace %s", got)
		}
	},
	"prediction_step": func(t *testing.T) {
		r, err := fitted(t, new(countingStep), trainer.Options{Epochs: 1, EvalBatchSize: 2}, 8, trainertest.Samples(5))
		if err != nil || r.Best.Metrics["eval_rows"] != 5 {
			t.Errorf("%+v, %v; want eval_rows 5", r, err)
		}
	},
	"evaluate": func(t *testing.T) {
		tr, err := trainer.New(new(countingStep), trainer.Options{Progress: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		if m, err := tr.Evaluate(t.Context(), trainertest.Samples(5)); err != nil || m["rows"] != 5 {
			t.Errorf("%v, %v", m, err)
		}
	},
	"predict": func(t *testing.T) {
		hook := new(predictHook)
		tr, err := trainer.New(new(countingStep), trainer.Options{Callbacks: []any{hook}, Progress: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		if p, err := tr.Predict(t.Context(), trainertest.Samples(5), "holdout"); err != nil ||
			p.Metrics["holdout_rows"] != 5 || hook.metrics[0]["rows"] != 5 {
			t.Errorf("%+v, %v; the hook got %v", p, err, hook.metrics)
		}
	},
	"floating_point_ops": func(t *testing.T) {
		r, err := fitted(t, new(countingStep), trainer.Options{Epochs: 2}, 10, nil)
		if err != nil || r.Metrics["total_flos"] != 120 {
			t.Errorf("%+v, %v; want total_flos 120", r, err)
		}
	},
	"get_batch_samples": func(t *testing.T) {
		step := new(countingStep)
		if _, err := fitted(t, step, trainer.Options{Epochs: 1, BatchSize: 2, Accumulate: 2, Order: data.Sequential{}},
			3, nil); err != nil {
			t.Fatal(err)
		}
		if got := firstTrain(&step.Step); got != "train(0,1/2 of 6)" {
			t.Errorf("first batch %s, want the items of its window", got)
		}
	},
	"call_model_init": func(t *testing.T) {
		for _, once := range []bool{false, true} {
			step, o := new(maker), trainer.Options{Epochs: 1, Progress: io.Discard}
			o.Semantics.SeedOnce = once
			tr, err := trainer.New(step, o)
			require.NoError(t, err)
			for range 2 {
				_, err := tr.Fit(t.Context(), trainertest.Samples(8), nil)
				require.NoError(t, err)
			}
			want := []trainer.SeedOptions{{}, {}} // at the start of each run
			if once {
				want = []trainer.SeedOptions{{}, {UnlessFresh: true}, {UnlessFresh: true}}
			}
			assert.Equal(t, want, step.made, "seeded once: %v", once)
		}
	},
	"save_model": func(t *testing.T) {
		step := new(trainertest.Step)
		if _, err := fitted(t, step, trainer.Options{Epochs: 1}, 8, nil); err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if files, err := os.ReadDir(dir); step.Save(dir, trainer.SaveOptions{}) != nil || err != nil ||
			len(files) != 0 {
			t.Errorf("%v before, %v", files, err)
		}
		if files, err := os.ReadDir(dir); err != nil || len(files) == 0 {
			t.Errorf("%v after, %v", files, err)
		}
	},
	"save_metrics": TestResultFiles,
	"push_to_hub":  TestPushByHand,
}

// sizes records how many samples a run has.
type sizes int

func (s *sizes) TrainBegin(r *trainer.Run) error { *s = sizes(r.Info.TrainSamples); return nil }

func TestOverrides(t *testing.T) {
	for name, test := range overrides {
		t.Run(name, test)
	}
}

func TestEveryOverrideAndEventIsOnItsPage(t *testing.T) {
	var want python
	readCase(t, "testdata/training_arguments.json", &want)
	var methods, events []string
	tested := map[string]bool{}
	for _, row := range tableRows(t, "../docs/overrides.md") {
		if strings.HasPrefix(row[0], "on_") {
			events = append(events, row[0])
			continue
		}
		methods = append(methods, row[0])
		if row[1] == "" || len(row) != 3 {
			t.Errorf("row %q: want the method, its Go form and its test", row)
			continue
		}
		if name := row[2]; name != "" && !strings.HasPrefix(name, "of package") {
			tested[name] = true
			if overrides[name] == nil {
				t.Errorf("%s: there is no test %q", row[0], name)
			}
		}
	}
	sorted := cmp.Transformer("sorted", func(s []string) string { return fmt.Sprint(slices.Sorted(slices.Values(s))) })
	if diff := cmp.Diff(want.TrainerMethods, methods, sorted); diff != "" {
		t.Errorf("methods (-transformers %s +page):\n%s", want.Transformers, diff)
	}
	if diff := cmp.Diff(want.CallbackEvents, events, sorted); diff != "" {
		t.Errorf("events (-transformers %s +page):\n%s", want.Transformers, diff)
	}
	for name := range overrides {
		if !tested[name] {
			t.Errorf("the test %q is named on no row of %s", name, filepath.Base("docs/overrides.md"))
		}
	}
}
