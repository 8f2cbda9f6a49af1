package trainer_test

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/semantics"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

func TestTokensAndFlopsAreCountedOverAResume(t *testing.T) {
	o := trainer.Options{
		OutputDir: memoryDir(t), Epochs: 2, BatchSize: 4, CountTokens: true, Log: trainer.Every(1, trainer.Update),
		Save: trainer.Every(1, trainer.Update), ResumeFrom: trainer.Latest,
	}
	stop := errors.New("stop")
	first := &trainertest.Step{PerSample: trainer.Counts{Tokens: 10, Flops: 1e3}, Inject: func(op string, n int) error {
		if op == "train" && n == 3 {
			return stop
		}
		return nil
	}}
	if _, err := fitted(t, first, o, 6, trainertest.Samples(1)); !errors.Is(err, stop) {
		t.Fatal(err)
	}
	r, err := fitted(t, &trainertest.Step{PerSample: trainer.Counts{Tokens: 10, Flops: 1e3}}, o, 6,
		trainertest.Samples(1))
	if err != nil {
		t.Fatal(err)
	}
	var tokens []float64
	for _, row := range r.History {
		tokens = append(tokens, row["num_input_tokens_seen"])
		if _, ok := row["train_tokens_per_second"]; ok != (row["loss"] != 0) {
			t.Errorf("row %v: the speed in tokens belongs into the rows of the loss", row)
		}
	}
	if want := []float64{40, 60, 60, 100, 120, 120, 120}; !slices.Equal(tokens, want) {
		t.Errorf("tokens %v, want %v", tokens, want)
	}
	if got := r.Metrics["total_flos"]; got != 12e3 {
		t.Errorf("total_flos %v, want 12000", got)
	}
}

func TestWhatCountingNeeds(t *testing.T) {
	for _, c := range []struct {
		want string
		o    trainer.Options
	}{
		{"About().CountsTokens is false", trainer.Options{CountTokens: true}},
		{"About().KnowsMemory is false", trainer.Options{EmptyCacheSteps: 1}},
		{"Options.EmptyCacheSteps is -1", trainer.Options{EmptyCacheSteps: -1}},
	} {
		if _, err := trainer.New(still{new(trainertest.Step)}, c.o); err == nil || !strings.Contains(err.Error(),
			c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

func TestTheCacheIsEmptiedBeforeTheBatchesOfEverySoManyUpdates(t *testing.T) {
	step := new(trainertest.Step)
	if _, err := fitted(t, step, trainer.Options{MaxSteps: 5, BatchSize: 4, Accumulate: 2, EmptyCacheSteps: 2}, 16,
		nil); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range step.Calls {
		if c == "emptycache" || strings.HasPrefix(c, "update") || strings.HasPrefix(c, "train") {
			got = append(got, c[:1])
		}
	}
	if text := strings.Join(got, ""); text != "etetuttuetetuttuetetu" {
		t.Errorf("calls %s, want an e before each batch of updates 1, 3 and 5", text)
	}
}

// ignore_data_skip: the interrupted epoch starts over, and the count of updates continues.
func TestIgnoreDataSkip(t *testing.T) {
	for _, rules := range []semantics.Rules{semantics.Default, semantics.HuggingFace} {
		dir := memoryDir(t)
		o := trainer.Options{OutputDir: dir, Epochs: 2, BatchSize: 2, Save: trainer.Every(2, trainer.Update),
			Semantics: rules, Progress: io.Discard}
		stop := errors.New("stop")
		step := &trainertest.Step{Inject: func(op string, n int) error {
			if op == "train" && n == 4 {
				return stop
			}
			return nil
		}}
		if _, err := fitted(t, step, o, 6, nil); !errors.Is(err, stop) {
			t.Fatal(err)
		}
		first := firstTrain(step)
		o.ResumeFrom, o.IgnoreDataSkip = trainer.Latest, true
		again := new(trainertest.Step)
		r, err := fitted(t, again, o, 6, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := firstTrain(again); got != first || r.GlobalStep != 6 {
			t.Errorf("%s: went on with %s to update %d, want %s again and update 6", rules.Name, got, r.GlobalStep,
				first)
		}
	}
}

func firstTrain(s *trainertest.Step) string {
	for _, c := range s.Calls {
		if strings.HasPrefix(c, "train") {
			return c
		}
	}
	return ""
}
