package trainer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/tcpstore"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/semantics"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// member is a step that trains in a group: its weights do not depend on the others, but it joins
// and has its own random numbers.
type member struct {
	*trainertest.Step
	group *dist.Group
}

func (m *member) JoinGroup(_ context.Context, g *dist.Group) error { m.group = g; return nil }
func (m *member) RandomState() ([]byte, error)                     { return []byte{1}, nil }
func (m *member) SetRandomState([]byte) error                      { return nil }
func (m *member) SharesEval(trainer.Evaluation) bool               { return false }
func (m *member) EvalRound(context.Context, trainer.EvalRound[[]int]) error {
	return errors.New("a round of an evaluation that is not shared")
}

// sharer is a member that shares evaluations. The result of an evaluation is its samples, in the
// order in which they were gathered.
type sharer struct {
	member
	order []int // samples of all processes
	own   [][]int
}

func (s *sharer) SharesEval(trainer.Evaluation) bool { return true }

func (s *sharer) EvalRound(ctx context.Context, r trainer.EvalRound[[]int]) error {
	if r.Rows > 0 {
		s.own = append(s.own, r.Batch)
		if err := s.Eval(ctx, r.Batch); err != nil {
			return err
		}
	}
	text, err := json.Marshal(r.Batch)
	if err != nil {
		return err
	}
	all, err := s.group.AllGather(ctx, text)
	if err != nil {
		return err
	}
	var round []int
	for _, text := range all {
		var rows []int
		if err := json.Unmarshal(text, &rows); err != nil {
			return err
		}
		round = append(round, rows...)
	}
	if s.Evaluations[len(s.Evaluations)-1].Even {
		round = round[:r.Round]
	}
	s.order = append(s.order, round...)
	return nil
}

func (s *sharer) Metrics(ctx context.Context) (trainer.Metrics, error) {
	m, err := s.Step.Metrics(ctx)
	if m != nil {
		m["rows"] = float64(len(s.order))
	}
	return m, err
}

// inGroup runs f as each of world processes, in goroutines of this process, and returns the errors.
func inGroup(t *testing.T, world int, timeout time.Duration, f func(g *dist.Group) error) []error {
	t.Helper()
	store, err := tcpstore.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	errs := make([]error, world)
	var ranks sync.WaitGroup
	for rank := range world {
		ranks.Go(func() {
			g, err := dist.Init(context.Background(), dist.Options{Rank: rank, World: world,
				Address: store.Addr().String(), Store: true, Timeout: timeout})
			if err != nil {
				errs[rank] = err
				return
			}
			errs[rank] = f(g)
			_ = g.Close()
		})
	}
	ranks.Wait()
	return errs
}

func shareOptions(g *dist.Group, o trainer.Options) trainer.Options {
	o.Group, o.Progress = g, io.Discard
	return o
}

// lookup returns a set of numbers, or a stream of them.
func lookup(n int, stream bool) data.Dataset[int] {
	if stream {
		return trainer.EvalStream[int]{Stream: data.StreamOf(trainertest.Samples(n), nil)}
	}
	return trainertest.Samples(n)
}

func TestAllProcessesTogetherEvaluateEverySampleOnceInTheOrderOfTheSet(t *testing.T) {
	for world := 2; world <= 3; world++ {
		for rank, err := range inGroup(t, world, 0, func(g *dist.Group) error {
			for n := 1; n <= 13; n++ {
				for size := 1; size <= 4; size++ {
					for kind := range 4 {
						stream, rules := kind%2 == 1, semantics.Default
						rules.EvenEvalBatches = kind > 1
						s := &sharer{member: member{Step: new(trainertest.Step)}}
						tr, err := trainer.New(s, shareOptions(g, trainer.Options{EvalBatchSize: size,
							Semantics: rules}))
						if err != nil {
							return err
						}
						m, err := tr.Evaluate(context.Background(), lookup(n, stream))
						if err != nil {
							return err
						}
						what := fmt.Sprintf("%d samples in batches of %d, stream %v, even %v", n, size, stream,
							rules.EvenEvalBatches)
						if !slices.Equal(s.order, data.Sequential{}.Indices(0, n)) || m["rows"] != float64(n) {
							return fmt.Errorf("%s: the samples were %v", what, s.order)
						}
						if rules.EvenEvalBatches && len(s.own) != (n+size*world-1)/(size*world) {
							return fmt.Errorf("%s: this process has %d batches", what, len(s.own))
						}
						for i, b := range s.own {
							first := (i*world + g.Rank()) * size // first sample of the batch that a single process would have
							if !rules.EvenEvalBatches && (b[0] != first || len(b) != min(size, n-first)) {
								return fmt.Errorf("%s: batch %d is %v", what, i, b)
							}
						}
						e := s.Evaluations[0]
						if want := map[bool]int{true: 0, false: n}[stream]; e.Rows != want || !e.Shared {
							return fmt.Errorf("%s: StartEval got %+v", what, e)
						}
					}
				}
			}
			return nil
		}) {
			if err != nil {
				t.Errorf("rank %d of %d: %v", rank, world, err)
			}
		}
	}
}

func TestWhatCannotBeSharedIsEvaluatedWholeByAll(t *testing.T) {
	for rank, err := range inGroup(t, 2, 0, func(g *dist.Group) error {
		for _, o := range []trainer.Options{{EvalBatchSize: 2}, {EvalBatchSize: 2, LimitEvalBatches: 2}} {
			m := &member{Step: new(trainertest.Step)}
			tr, err := trainer.New(m, shareOptions(g, o))
			if err != nil {
				return err
			}
			if _, err := tr.Evaluate(context.Background(), trainertest.Samples(5)); err != nil {
				return err
			}
			want := "eval(0,1) eval(2,3) eval(4) metrics"
			if o.LimitEvalBatches == 2 {
				want = "eval(0,1) eval(2,3) metrics"
			}
			if got := m.Trace(); got != want {
				return fmt.Errorf("%s, want %s", got, want)
			}
			if p, err := tr.Predict(context.Background(), lookup(5, true), ""); err != nil || p.Samples != 5 &&
				o.LimitEvalBatches == 0 || p.Samples != 4 && o.LimitEvalBatches == 2 {
				return fmt.Errorf("a prediction of a stream: %+v, %w", p, err)
			}
		}
		return nil
	}) {
		if err != nil {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}

// onEvalStep is a hook that calls f after each batch of an evaluation.
type onEvalStep func() error

func (f onEvalStep) EvalStep(*trainer.Run) error { return f() }

func TestAFailureOfOneProcessEndsTheEvaluationOfAll(t *testing.T) {
	unlucky := errors.New("unlucky")
	for _, c := range []struct {
		claim string
		spoil func(s *sharer, o *trainer.Options, n *int)
		want  string // error of the other process
	}{
		{"a sample that cannot be loaded", func(_ *sharer, o *trainer.Options, n *int) { *n = -1 },
			"rank 1 has failed: trainer: load a batch to evaluate"},
		{"a hook", func(_ *sharer, o *trainer.Options, _ *int) {
			o.Callbacks = []any{onEvalStep(func() error { return unlucky })}
		}, "rank 1 has failed: trainer: hook trainer_test.onEvalStep.EvalStep"},
		{"a set of another length", func(_ *sharer, _ *trainer.Options, n *int) { *n = 3 },
			"have no batch left after 1"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			errs := inGroup(t, 2, time.Minute, func(g *dist.Group) error {
				s := &sharer{member: member{Step: new(trainertest.Step)}}
				o := trainer.Options{EvalBatchSize: 2, Semantics: semantics.HuggingFace}
				n := 12
				if g.Rank() == 1 {
					c.spoil(s, &o, &n)
				}
				set := lookup(max(n, 1), false)
				if n < 0 {
					set = data.Func(12, func(i int) (int, error) {
						if i == 7 {
							return 0, unlucky
						}
						return i, nil
					})
				}
				tr, err := trainer.New(s, shareOptions(g, o))
				if err != nil {
					return err
				}
				if _, err = tr.Evaluate(context.Background(), set); err == nil {
					return errors.New("no error")
				}
				return errors.Join(err, g.Barrier(context.Background())) // the group still works
			})
			if errs[0] == nil || !strings.Contains(errs[0].Error(), c.want) || strings.Contains(errs[0].Error(),
				"dist:") {
				t.Errorf("rank 0: %v; want %q", errs[0], c.want)
			}
			if errs[1] == nil || strings.Contains(errs[1].Error(), "dist:") || !errors.Is(errs[1], unlucky) &&
				!strings.Contains(errs[1].Error(), c.want) {
				t.Errorf("rank 1: %v", errs[1])
			}
		})
	}
}

func TestAnInterruptionOfOneProcessEndsTheEvaluationOfAllAndItIsMadeAgain(t *testing.T) {
	dir := memoryDir(t)
	run := func(g *dist.Group, cancelAt int, from string) (*trainer.Result, []int, error) {
		s := &sharer{member: member{Step: new(trainertest.Step)}}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		n := 0
		o := shareOptions(g, trainer.Options{OutputDir: dir, BatchSize: 2, EvalBatchSize: 2, Epochs: 2,
			ResumeFrom: from, Save: trainer.Every(1, trainer.Epoch),
			Callbacks: []any{onEvalStep(func() error {
				if n++; n == cancelAt && g.Rank() == 1 {
					cancel()
				}
				return nil
			})}})
		tr, err := trainer.New(s, o)
		if err != nil {
			return nil, nil, err
		}
		r, err := tr.Fit(ctx, trainertest.Samples(8), trainertest.Samples(13))
		return r, s.order, err
	}
	for rank, err := range inGroup(t, 2, time.Minute, func(g *dist.Group) error {
		_, order, err := run(g, 2, "")
		stop, ok := errors.AsType[*trainer.InterruptedError](err)
		if !ok || stop.GlobalStep != 2 || stop.Checkpoint == "" || len(order) != 8 {
			return fmt.Errorf("after %d samples: %w; want an interruption after 8, in the evaluation after update 2",
				len(order), err)
		}
		if err := g.Barrier(context.Background()); err != nil {
			return err
		}
		r, order, err := run(g, 0, trainer.Latest)
		if err != nil {
			return err
		}
		if len(order) != 26 || r.GlobalStep != 4 {
			return fmt.Errorf("the resumed run evaluated %d samples and ended after %d updates; want two evaluations "+
				"of 13, and 4", len(order), r.GlobalStep)
		}
		s := &sharer{member: member{Step: new(trainertest.Step)}}
		tr, err := trainer.New(s, shareOptions(g, trainer.Options{EvalBatchSize: 2}))
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		if g.Rank() == 0 {
			cancel()
		}
		if _, err := tr.Evaluate(ctx, trainertest.Samples(5)); !errors.Is(err, context.Canceled) ||
			!strings.Contains(err.Error(), "evaluation interrupted") {
			return fmt.Errorf("an evaluation by itself: %w", err)
		}
		return nil
	}) {
		if err != nil {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}

func TestAProcessThatLeavesOrHangsInAnEvaluationEndsItWithAnErrorThatNamesIt(t *testing.T) {
	for _, c := range []struct {
		claim string
		hangs bool
		want  error
	}{{"leaves", false, dist.ErrPeerLeft}, {"hangs", true, dist.ErrTimeout}} {
		t.Run(c.claim, func(t *testing.T) {
			over := make(chan struct{})
			errs := inGroup(t, 2, time.Second, func(g *dist.Group) error {
				s := &sharer{member: member{Step: new(trainertest.Step)}}
				if g.Rank() == 0 {
					defer close(over)
				}
				s.Inject = func(op string, n int) error {
					if g.Rank() == 1 && op == "eval" && n == 2 {
						if c.hangs {
							<-over
							return nil
						}
						return g.Close()
					}
					return nil
				}
				tr, err := trainer.New(s, shareOptions(g, trainer.Options{EvalBatchSize: 2}))
				if err != nil {
					return err
				}
				_, err = tr.Evaluate(context.Background(), trainertest.Samples(20))
				return err
			})
			var failed *dist.Error
			if !errors.Is(errs[0], c.want) || !errors.As(errs[0], &failed) || failed.Peer != 1 {
				t.Errorf("rank 0: %v; want %v of rank 1", errs[0], c.want)
			}
			if errs[1] == nil {
				t.Error("rank 1 ended without an error")
			}
		})
	}
}

func TestAStreamIsEvaluatedAndPredictedLikeASet(t *testing.T) {
	for _, valid := range []func(int) data.Dataset[int]{
		func(n int) data.Dataset[int] { return lookup(n, false) },
		func(n int) data.Dataset[int] { return lookup(n, true) },
	} {
		step := new(trainertest.Step)
		tr, err := trainer.New(step, trainer.Options{Epochs: 1, BatchSize: 2, EvalBatchSize: 2, Progress: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tr.Fit(t.Context(), trainertest.Samples(2), trainer.EvalSets[int]{{Name: "a", Set: valid(3)},
			{Name: "b", Set: trainertest.Samples(1)}}); err != nil {
			t.Fatal(err)
		}
		p, err := tr.Predict(t.Context(), valid(5), "")
		if err != nil || p.Samples != 5 {
			t.Errorf("%+v, %v: want 5 samples", p, err)
		}
		want := "train(0,1) update(5e-05) eval(0,1) eval(2) metrics eval(0) metrics eval(0,1) eval(2,3) eval(4) metrics"
		if diff := cmp.Diff(want, step.Trace()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		p, err = tr.Predict(t.Context(), valid(5), "")
		if ratio := p.Metrics["test_samples_per_second"] / p.Metrics["test_steps_per_second"]; err != nil ||
			ratio < 5./3-0.01 || ratio > 5./3+0.01 {
			t.Errorf("%v, %v: want 5 samples for 3 steps", p.Metrics, err)
		}
	}
}

func TestMistakesInStreamsOfEvaluationsAreNamed(t *testing.T) {
	once := data.StreamFunc[int](func(int, int) iter.Seq2[int, error] { return func(func(int, error) bool) {} })
	for _, c := range []struct {
		stream data.Stream[int]
		order  data.Order
		want   string
	}{
		{nil, nil, "an EvalStream without a Stream"},
		{once, nil, "the stream has no sample"},
		{once, data.Sequential{}, "Options.EvalOrder is data.Sequential"},
	} {
		tr, err := trainer.New(new(trainertest.Step), trainer.Options{EvalOrder: c.order, Progress: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tr.Evaluate(t.Context(), trainer.EvalStream[int]{Stream: c.stream}); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%v; want %q", err, c.want)
		}
	}
	five := trainer.EvalStream[int]{Stream: data.StreamOf(trainertest.Samples(5), nil)}
	if v, err := five.At(3); v != 3 || err != nil || five.Len() != -1 {
		t.Errorf("At(3) = %d, %v; Len() = %d", v, err, five.Len())
	}
	if _, err := five.At(5); err == nil {
		t.Error("a stream of 5 samples has a sample 5")
	}
}
