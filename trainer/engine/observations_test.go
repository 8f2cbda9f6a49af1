package engine_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/tcpstore"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// inGroup runs f as each of world processes, in goroutines of this process.
func inGroup(t *testing.T, world int, f func(g *dist.Group) error) []error {
	t.Helper()
	testenv.RequireTorch(t)
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
				Address: store.Addr().String(), Store: true, Timeout: time.Minute})
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

// tallied records what it sees by embedding Observations.
type tallied struct {
	tagTask
	engine.Observations[note]
}

type note struct{ Row, First int }

func (t *tallied) Observe(b tokenBatch, o engine.Outputs) {
	for i, row := range b.rows {
		t.Note(note{row, int(b.ids[i*b.width])})
	}
}

// The result of Metrics depends on every sample and on their order.
func (t *tallied) Metrics() map[string]float64 {
	h, n := 0, 0
	for _, s := range t.Noted() {
		h = (31*h + 7*s.Row + s.First) % 1000003
		n++
	}
	return map[string]float64{"order": float64(h), "noted": float64(n)}
}

// withoutSharing is an observer that does not share what it has seen.
type withoutSharing struct {
	tagTask
	rows int
}

func (t *withoutSharing) Observe(b tokenBatch, _ engine.Outputs) { t.rows += len(b.rows) }
func (t *withoutSharing) Metrics() map[string]float64 {
	n := t.rows
	t.rows = 0
	return map[string]float64{"rows": float64(n)}
}

func TestWhatTasksObserveOnSeveralProcessesIsWhatOneObserves(t *testing.T) {
	testenv.RequireTorch(t)
	var rows data.Slice[tokens]
	for i := range 21 {
		n := 2 + i%5
		s := tokens{row: i}
		for k := range n {
			s.ids, s.labels = append(s.ids, int64(1+(i+k)%19)), append(s.labels, int64((i+k)%taggerClasses))
		}
		rows = append(rows, s)
	}
	for _, c := range []struct {
		claim string
		task  func(m *tagger) engine.Task[tokens, tokenBatch]
	}{
		{"an observer that shares", func(m *tagger) engine.Task[tokens, tokenBatch] {
			return &tallied{tagTask: tagTask{m}}
		}},
		{"an observer that does not", func(m *tagger) engine.Task[tokens, tokenBatch] {
			return &withoutSharing{tagTask: tagTask{m}}
		}},
	} {
		for _, rules := range []semantics.Rules{semantics.Default, semantics.HuggingFace} {
			t.Run(c.claim+", "+rules.Name, func(t *testing.T) {
				evaluate := func(g *dist.Group, set data.Dataset[tokens]) (trainer.Metrics, error) {
					s, err := engine.New(c.task(newTagger(0)), engine.Options{})
					if err != nil {
						return nil, err
					}
					torch.NoGrad(func() {
						m := s.Model().(*tagger)
						m.Out.Weight.Fill_(0.5)
						m.Hidden.Weight.Fill_(0.25)
						m.Hidden.Bias.Zero_()
						m.Embed.Weight.Fill_(0.125)
						m.Out.Bias.Zero_()
					})
					tr, err := trainer.New(s, quiet(trainer.Options{Group: g, EvalBatchSize: 4, Semantics: rules}))
					if err != nil {
						return nil, err
					}
					return tr.Evaluate(context.Background(), set)
				}
				for _, set := range []data.Dataset[tokens]{rows,
					trainer.EvalStream[tokens]{Stream: data.StreamOf[tokens](rows, nil)}} {
					want, err := evaluate(nil, set)
					if err != nil {
						t.Fatal(err)
					}
					for world := 2; world <= 3; world++ {
						for rank, err := range inGroup(t, world, func(g *dist.Group) error {
							got, err := evaluate(g, set)
							if err != nil {
								return err
							}
							around := cmpopts.EquateApprox(1e-6, 0)
							if !rules.EvenEvalBatches {
								around = cmpopts.EquateApprox(0, 0)
							}
							if diff := cmp.Diff(want, got, around); diff != "" {
								return fmt.Errorf("(-one process +%d):\n%s", world, diff)
							}
							return nil
						}) {
							if err != nil {
								t.Errorf("rank %d of %d, %T: %v", rank, world, set, err)
							}
						}
					}
				}
			})
		}
	}
}

// TestClassifyOnSeveralProcesses tests the task whose predictions stay on the device.
func TestClassifyOnSeveralProcesses(t *testing.T) {
	testenv.RequireTorch(t)
	evaluate := func(g *dist.Group, rules semantics.Rules) (trainer.Metrics, error) {
		m := newNet()
		torch.NoGrad(func() {
			m.Hidden.Weight.Fill_(0.3)
			m.Hidden.Bias.Copy_(torch.TensorOptions{DType: torch.Float32}.Arange(0, 16, 1).MulScalar(0.1))
			m.Out.Weight.Copy_(torch.TensorOptions{DType: torch.Float32}.Arange(0, 32, 1).Reshape(2,
				16).MulScalar(0.2).Sin())
			m.Out.Bias.Zero_()
		})
		s, err := engine.New(engine.Classify(m), engine.Options{})
		if err != nil {
			return nil, err
		}
		tr, err := trainer.New(s, quiet(trainer.Options{Group: g, EvalBatchSize: 4, Semantics: rules}))
		if err != nil {
			return nil, err
		}
		return tr.Evaluate(context.Background(), ring(22))
	}
	for _, rules := range []semantics.Rules{semantics.Default, semantics.HuggingFace} {
		want, err := evaluate(nil, rules)
		if err != nil {
			t.Fatal(err)
		}
		for rank, err := range inGroup(t, 3, func(g *dist.Group) error {
			got, err := evaluate(g, rules)
			if err == nil && (got["accuracy"] != want["accuracy"] || !rules.EvenEvalBatches &&
				got["loss"] != want["loss"]) {
				err = fmt.Errorf("%v, want %v", got, want)
			}
			return err
		}) {
			if err != nil {
				t.Errorf("%s, rank %d: %v", rules.Name, rank, err)
			}
		}
	}
}

// clumsy is a task that fails on one row.
type clumsy struct{ tagTask }

func (c *clumsy) Predict(p engine.ForwardPass, b tokenBatch) engine.Outputs {
	for _, row := range b.rows {
		if row == 6 {
			torch.Zeros(2, 3).MatMul(torch.Zeros(2, 3))
		}
	}
	return c.tagTask.Predict(p, b)
}

func TestATaskThatFailsOnOneProcessEndsTheEvaluationOfAll(t *testing.T) {
	testenv.RequireTorch(t)
	var rows data.Slice[tokens]
	for i := range 11 {
		rows = append(rows, tokens{i, []int64{1, int64(1 + i)}, []int64{0, 1}})
	}
	for _, rules := range []semantics.Rules{semantics.Default, semantics.HuggingFace} {
		for _, preprocess := range []func(logits, _ []torch.Tensor) []torch.Tensor{nil,
			func(l, _ []torch.Tensor) []torch.Tensor { return l }} {
			for rank, err := range inGroup(t, 2, func(g *dist.Group) error {
				s, err := engine.New[tokens, tokenBatch](&clumsy{tagTask{newTagger(0)}},
					engine.Options{ComputeMetrics: right, PreprocessLogits: preprocess})
				if err != nil {
					return err
				}
				tr, err := trainer.New(s, quiet(trainer.Options{Group: g, EvalBatchSize: 4, Semantics: rules}))
				if err != nil {
					return err
				}
				if _, err = tr.Evaluate(context.Background(), rows); err == nil {
					return fmt.Errorf("no error")
				}
				if e := g.Barrier(context.Background()); e != nil {
					return e
				}
				if want := map[bool]string{true: "rank 1 has failed: ",
					false: "MatMul"}[g.Main()]; !strings.Contains(err.Error(), want) {
					return err
				}
				return nil
			}) {
				if err != nil {
					t.Errorf("%s, rank %d: %v", rules.Name, rank, err)
				}
			}
		}
	}
}
