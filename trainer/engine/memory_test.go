package engine_test

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

func TestOnlyShortMemoryIsJudgedSo(t *testing.T) {
	s := newTagStep(t, engine.Options{})
	short := torch.Try(func() { torch.Empty(1 << 50) })
	if !s.OutOfMemory(&trainer.StepError{Op: "train", Err: short}) {
		t.Errorf("%v is not recognised as out of memory", short)
	}
	if s.OutOfMemory(errors.New("no")) || s.OutOfMemory(nil) {
		t.Error("another error is taken for out of memory")
	}
	if err := s.EmptyCache(); err != nil {
		t.Error(err)
	}
}

func TestZeroGradRemovesWhatAWindowHasGathered(t *testing.T) {
	s := newTagStep(t, engine.Options{})
	if err := s.Train(t.Context(), batchOf(t, 3), trainer.Window{Len: 2, Divisor: 2}); err != nil {
		t.Fatal(err)
	}
	has := func() (n int) {
		for _, p := range nn.Params(s.Model()) {
			if p.Tensor.Grad().Defined() {
				n++
			}
		}
		return n
	}
	if has() == 0 {
		t.Fatal("training left no gradient")
	}
	if err := s.ZeroGrad(); err != nil || has() != 0 {
		t.Errorf("%d gradients after ZeroGrad (%v)", has(), err)
	}
}

// A model_init is called when the run is seeded and again in Fit, but not twice in a row without
// need.
func TestModelIsMadeAnewForEachRun(t *testing.T) {
	calls := 0
	newTagStep(t, engine.Options{})
	s, err := engine.NewFromInit(func() (engine.Task[tokens, tokenBatch], error) {
		calls++
		return tag(newTagger(0)), nil
	}, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	seed := func() error { return s.Seed(7, trainer.SeedOptions{}) }
	begin := func() error { return s.Seed(7, trainer.SeedOptions{UnlessFresh: true}) }
	for i, c := range []struct {
		claim string
		do    func() error
		want  int
	}{
		{"New made it once", func() error { return nil }, 1},
		{"seeding makes it again", seed, 2},
		{"what has just been made stays", begin, 2},
		{"what an evaluation has drawn from does not", func() error {
			return errors.Join(s.StartLoader(false), begin())
		}, 3},
		{"a trained model does not", func() error {
			return errors.Join(s.Train(t.Context(), batchOf(t, 3), trainer.Window{Len: 1, Divisor: 1}),
				begin())
		}, 4},
		{"a model that the caller has does not", func() error { s.Model(); return begin() }, 5},
	} {
		if err := c.do(); err != nil || calls != c.want {
			t.Errorf("step %d: %s: made %d times (%v), want %d", i, c.claim, calls, err, c.want)
		}
	}
	if plain := newTagStep(t, engine.Options{}); plain.About().MakesModel || !s.About().MakesModel {
		t.Error("only a Step of NewFromInit makes its model")
	}
}

func TestNonFiniteWeightsAreNamed(t *testing.T) {
	s := newTagStep(t, engine.Options{})
	names, err := s.NonFinite()
	require.NoError(t, err)
	require.Empty(t, names)
	params := nn.Params(s.Model())
	torch.NoGrad(func() { params[1].Tensor.Fill_(math.Inf(1)) })
	names, err = s.NonFinite()
	require.NoError(t, err)
	require.Equal(t, []string{params[1].Name}, names)
}

func TestAnUpdateOfGradientsThatAreNotFiniteIsLeftOut(t *testing.T) {
	for _, limit := range []float64{0, -1} { // with and without clipping
		s := newTagStep(t, engine.Options{MaxGradNorm: limit})
		window := trainer.Window{Len: 1, Divisor: 1, SkipNonFinite: true}
		update := func(poison bool) bool {
			require.NoError(t, s.Train(t.Context(), batchOf(t, 3), window))
			if poison {
				for _, p := range nn.Params(s.Model())[:1] {
					p.Tensor.Grad().Fill_(math.NaN())
				}
			}
			require.NoError(t, s.Clip(t.Context()))
			applied, err := s.Update(t.Context(), 0.1)
			require.NoError(t, err)
			return applied
		}
		require.True(t, update(false))
		before := tagFingerprint(s)[:64]
		require.False(t, update(true), "limit %v", limit)
		require.Equal(t, before, tagFingerprint(s)[:64], "the weights stay")
		require.True(t, update(false))
		names, err := s.NonFinite()
		require.NoError(t, err)
		require.Empty(t, names)
	}
}
