package data_test

import (
	"errors"
	"iter"
	"slices"
	"testing"

	"github.com/gotrainer/gotrainer/data"
	"pgregory.net/rapid"
)

// drain returns the samples of a pass.
func drain[S any](t rapid.TB, s data.Stream[S], pass, skip int) []S {
	t.Helper()
	list := []S{}
	for sample, err := range s.Samples(pass, skip) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, sample)
	}
	return list
}

func TestShuffleStreamIsEnteredAnywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, size := rapid.IntRange(0, 60).Draw(t, "n"), rapid.IntRange(1, 20).Draw(t, "size")
		pass, seed := rapid.IntRange(0, 3).Draw(t, "pass"), rapid.Uint64().Draw(t, "seed")
		s, err := data.ShuffleStream(data.StreamOf(numbers(n), nil), size, seed)
		if err != nil {
			t.Fatal(err)
		}
		whole := drain(t, s, pass, 0)
		sorted := slices.Clone(whole)
		slices.Sort(sorted)
		if !slices.Equal(sorted, data.Sequential{}.Indices(0, n)) {
			t.Fatalf("not every sample once: %v", whole)
		}
		for i, sample := range whole {
			if d := i - sample; d >= size || -d >= size {
				t.Fatalf("sample %d is at %d, farther than the window of %d", sample, i, size)
			}
		}
		skip := rapid.IntRange(0, n).Draw(t, "skip")
		if rest := drain(t, s, pass, skip); !slices.Equal(rest, whole[skip:]) {
			t.Fatalf("from %d on: %v, want %v", skip, rest, whole[skip:])
		}
	})
}

func TestShuffleStreamReadsOneWindowToResume(t *testing.T) {
	var begins []int
	source := data.StreamFunc[int](func(pass, skip int) iter.Seq2[int, error] {
		begins = append(begins, skip)
		return data.StreamOf(numbers(100_000), nil).Samples(pass, skip)
	})
	s, err := data.ShuffleStream[int](source, 100, 1)
	if err != nil {
		t.Fatal(err)
	}
	for range s.Samples(0, 99_000) {
		break
	}
	if len(begins) != 1 || begins[0] <= 98_900 {
		t.Errorf("the source was entered at %v to skip 99000 samples", begins)
	}
	if slices.Equal(drain(t, s, 0, 0), drain(t, s, 1, 0)) {
		t.Error("two passes have the same order")
	}
}

func TestStrideStreamGivesEachProcessAsMany(t *testing.T) {
	for k, want := range [][]int{{0, 3, 6}, {1, 4, 7}, {2, 5, 8}} {
		s, err := data.StrideStream(data.StreamOf(numbers(11), nil), k, 3)
		if err != nil {
			t.Fatal(err)
		}
		for skip := range 4 {
			if got := drain(t, s, 0, skip); !slices.Equal(got, want[skip:]) {
				t.Errorf("process %d from %d on: %v, want %v", k, skip, got, want[skip:])
			}
		}
	}
	if _, err := data.StrideStream(data.StreamOf(numbers(11), nil), 3, 3); err == nil {
		t.Error("process 3 of 3 is accepted")
	}
	if _, err := data.ShuffleStream(data.StreamOf(numbers(1), nil), 0, 1); err == nil {
		t.Error("a window of 0 is accepted")
	}
}

func TestTakeStream(t *testing.T) {
	s := data.TakeStream(data.StreamOf(numbers(9), nil), 4)
	for skip, want := range [][]int{{0, 1, 2, 3}, {1, 2, 3}, {2, 3}, {3}, {}, {}} {
		if got := drain(t, s, 0, skip); !slices.Equal(got, want) {
			t.Errorf("from %d on: %v, want %v", skip, got, want)
		}
	}
}

func TestStreamsPassErrorsOn(t *testing.T) {
	bad := errors.New("bad")
	source := counting(10, func(i int) error {
		if i == 5 {
			return bad
		}
		return nil
	})
	shuffled, _ := data.ShuffleStream(source, 3, 1)
	strided, _ := data.StrideStream(source, 0, 2)
	for name, s := range map[string]data.Stream[int]{"ShuffleStream": shuffled, "StrideStream": strided,
		"TakeStream": data.TakeStream(source, 9)} {
		var last error
		count := 0
		for _, err := range s.Samples(0, 0) {
			if last != nil {
				break
			}
			last = err
			count++
		}
		if !errors.Is(last, bad) || count > 6 {
			t.Errorf("%s: %v after %d samples", name, last, count)
		}
	}
}

func TestTheErrorOfOneSampleKeepsItsPlace(t *testing.T) {
	bad := errors.New("bad")
	source := data.StreamOf(data.Func(11, func(i int) (int, error) {
		if i == 5 {
			return 0, bad
		}
		return i, nil
	}), nil)
	places := func(s data.Stream[int], skip int) (list []int) {
		for v, err := range s.Samples(0, skip) {
			if err != nil {
				if !errors.Is(err, bad) {
					t.Error(err)
				}
				v = -1
			}
			list = append(list, v)
		}
		return list
	}
	shuffled, _ := data.ShuffleStream(source, 3, 1)
	good, _ := data.ShuffleStream(data.StreamOf(numbers(11), nil), 3, 1)
	want := drain(t, good, 0, 0)
	want[slices.Index(want, 5)] = -1
	for skip := range want {
		if got := places(shuffled, skip); !slices.Equal(got, want[skip:]) {
			t.Errorf("ShuffleStream from %d on: %v, want %v", skip, got, want[skip:])
		}
	}
	for k, want := range [][]int{{0, 2, 4, 6, 8}, {1, 3, -1, 7, 9}} {
		s, _ := data.StrideStream(source, k, 2)
		if got := places(s, 0); !slices.Equal(got, want) {
			t.Errorf("StrideStream of process %d: %v, want %v", k, got, want)
		}
	}
}
