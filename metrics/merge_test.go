package metrics_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/gotrainer/gotrainer/metrics"
)

// subject is a metric, and a function that adds the i-th of some random samples to it.
type subject struct {
	name string
	make func() (m metrics.Merger, add func(i int), result func() map[string]float64)
}

func of[P any](name string, m func() metrics.Metric[P], sample func(r *rand.Rand) P) subject {
	return subject{name, func() (metrics.Merger, func(int), func() map[string]float64) {
		made := m()
		return made.(metrics.Merger), func(i int) {
			r := rand.New(rand.NewPCG(uint64(i), 1))
			made.Add(sample(r), sample(r))
		}, made.Result
	}}
}

func scoredSubject(name string, m func() metrics.Scored) subject {
	return subject{name, func() (metrics.Merger, func(int), func() map[string]float64) {
		made := m()
		return made.(metrics.Merger), func(i int) {
			r := rand.New(rand.NewPCG(uint64(i), 1))
			made.Add([]float64{r.Float64(), r.Float64(), float64(r.IntN(2))}, i%3)
		}, made.Result
	}}
}

func label(r *rand.Rand) int      { return r.IntN(4) }
func number(r *rand.Rand) float64 { return r.NormFloat64() }
func line(r *rand.Rand) string {
	text := ""
	for range r.IntN(12) {
		text += []string{"a ", "b ", "چ", " ", "running ", "\n"}[r.IntN(6)]
	}
	return text
}
func tags(r *rand.Rand) []string {
	var list []string
	for range 5 {
		list = append(list, []string{"O", "B-X", "I-X", "B-Y"}[r.IntN(4)])
	}
	return list
}

func documents(r *rand.Rand) (list []string) {
	for _, i := range r.Perm(6)[:r.IntN(6)] {
		list = append(list, string(rune('a'+i)))
	}
	return list
}

var subjects = []subject{
	of("Accuracy", func() metrics.Metric[int] { return &metrics.Accuracy[int]{} }, label),
	of("F1", func() metrics.Metric[int] { return &metrics.F1{Average: metrics.Weighted()} }, label),
	of("Precision", func() metrics.Metric[int] {
		return &metrics.Precision{F1: metrics.F1{Average: metrics.Macro()}}
	}, label),
	of("Recall", func() metrics.Metric[int] { return &metrics.Recall{} }, label),
	of("Matthews", func() metrics.Metric[int] { return &metrics.Matthews{} }, label),
	of("ConfusionMatrix", func() metrics.Metric[int] { return &metrics.ConfusionMatrix{} }, label),
	of("MeanIoU", func() metrics.Metric[int] { return &metrics.MeanIoU{Labels: []string{"a", "b", "c", "d"}} }, label),
	of("MAE", func() metrics.Metric[float64] { return &metrics.MAE{} }, number),
	of("MSE", func() metrics.Metric[float64] { return &metrics.MSE{} }, number),
	of("RMSE", func() metrics.Metric[float64] { return &metrics.RMSE{} }, number),
	of("R2", func() metrics.Metric[float64] { return &metrics.R2{} }, number),
	of("Pearson", func() metrics.Metric[float64] { return &metrics.Pearson{} }, number),
	of("Spearman", func() metrics.Metric[float64] { return &metrics.Spearman{} }, number),
	of("ExactMatch", func() metrics.Metric[string] { return &metrics.ExactMatch{} }, line),
	of("CER", func() metrics.Metric[string] { return &metrics.CER{} }, line),
	of("CER, spaces collapsed", func() metrics.Metric[string] { return &metrics.CER{CollapseSpaces: true} }, line),
	of("WER", func() metrics.Metric[string] { return &metrics.WER{} }, line),
	of("Concatenated", func() metrics.Metric[string] { return &metrics.Concatenated{Of: &metrics.WER{}} }, line),
	of("BLEU", func() metrics.Metric[string] { return &metrics.BLEU{Smoothing: metrics.SmoothExp()} }, line),
	of("ROUGE", func() metrics.Metric[string] { return &metrics.ROUGE{} }, line),
	of("All", func() metrics.Metric[string] {
		return metrics.All[string]{&metrics.CER{}, &metrics.ROUGE{Stemmer: true}}
	}, line),
	of("Seqeval", func() metrics.Metric[[]string] { return &metrics.Seqeval{} }, tags),
	of("Retrieval", func() metrics.Metric[[]string] { return &metrics.Retrieval{MRRAt: []int{2, 4}} }, documents),
	squadSubject(false), squadSubject(true),
	scoredSubject("TopKAccuracy", func() metrics.Scored { return &metrics.TopKAccuracy{K: 2} }),
	scoredSubject("ROCAUC", func() metrics.Scored { return &metrics.ROCAUC{} }),
	{"Perplexity", func() (metrics.Merger, func(int), func() map[string]float64) {
		m := &metrics.Perplexity{}
		return m, func(i int) { m.Add(1/float64(i+1), int64(i%5)) }, m.Result
	}},
}

func TestMergedPartsAreTheWhole(t *testing.T) {
	for _, s := range subjects {
		t.Run(s.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				n := rapid.IntRange(0, 40).Draw(t, "samples")
				cut := rapid.IntRange(0, n).Draw(t, "cut")
				_, add, whole := s.make()
				first, addFirst, merged := s.make()
				second, addSecond, _ := s.make()
				for i := range n {
					add(i)
					if i < cut {
						addFirst(i)
					} else {
						addSecond(i)
					}
				}
				state, err := second.State()
				if err != nil {
					t.Fatal(err)
				}
				if err := first.Merge(state); err != nil {
					t.Fatal(err)
				}
				want, got := whole(), merged()
				if len(got) != len(want) {
					t.Fatalf("merged %v, want %v", got, want)
				}
				for key := range want {
					// sums in another order, close to a division by zero
					if !near(got[key], want[key]) && math.Abs(got[key]-want[key]) > 1e-9 {
						t.Fatalf("merged %v, want %v", got, want)
					}
				}
			})
		})
	}
}

func TestStatesOfOthersAreRefused(t *testing.T) {
	for i, s := range subjects {
		m, _, result := s.make()
		before := fmt.Sprint(result())
		other, addOther, _ := subjects[(i+5)%len(subjects)].make()
		addOther(1)
		state, err := other.State()
		if err != nil {
			t.Fatal(err)
		}
		for what, state := range map[string][]byte{"of another metric": state, "nothing": nil,
			"cut short": state[:len(state)/2], "noise": []byte("\xff\x00\x10noise")} {
			if err := m.Merge(state); !errors.Is(err, metrics.ErrState) {
				t.Errorf("%s: a state that is %s: error %v, want ErrState", s.name, what, err)
			}
		}
		if after := fmt.Sprint(result()); after != before {
			t.Errorf("%s: refused states changed %s to %s", s.name, before, after)
		}
	}
}

func TestBatchMeansAreMerged(t *testing.T) {
	a, b := &metrics.BatchMean[string]{Of: &metrics.CER{}, Decimals: 4}, &metrics.BatchMean[string]{Of: &metrics.CER{},
		Decimals: 4}
	a.Add("abx", "abc")
	a.EndBatch()
	b.Add("x", "y")
	state, err := b.State()
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Merge(state); err != nil {
		t.Fatal(err)
	}
	if got, want := a.Result()["cer"], (0.3333+1)/2; got != want {
		t.Errorf("merged batches give %v, want %v", got, want)
	}
	if err := a.Merge(nil); !errors.Is(err, metrics.ErrState) {
		t.Errorf("Merge of nothing: error %v", err)
	}
}

func FuzzMerge(f *testing.F) {
	for i, s := range subjects {
		m, add, _ := s.make()
		add(i)
		state, err := m.State()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(i), state)
	}
	f.Fuzz(func(t *testing.T, i uint8, state []byte) {
		m, add, result := subjects[int(i)%len(subjects)].make()
		if err := m.Merge(state); err != nil && !errors.Is(err, metrics.ErrState) {
			t.Fatalf("error %v, want ErrState", err)
		} else if err == nil {
			defer func() { // a different number of scores is a mistake of the caller, and documented to panic
				if r := recover(); r != nil && subjects[int(i)%len(subjects)].name != "ROCAUC" {
					panic(r)
				}
			}()
			add(1)
		}
		result()
	})
}
