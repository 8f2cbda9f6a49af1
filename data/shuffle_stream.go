package data

import (
	"fmt"
	"iter"
	"math/rand/v2"
)

// ShuffleStream returns the samples of s shuffled within windows of size samples, which it holds in
// memory. The positions of the windows differ from pass to pass, and so does the order in each.
//
// The order is a function of seed and pass, and the position of a sample in it depends only on its
// position in the stream. A run that is resumed in the middle of a pass therefore reads one window
// and not everything before it. The shuffle buffer of PyTorch, datasets and WebDataset, which
// exchanges each new sample for a random one that it holds, mixes a little farther, but its order
// can only be reproduced by repeating the pass from its start. To mix more, shuffle the files too:
// [StreamOf] of a data set of files with [Shuffled].
//
// The error of one sample ([OneSample]) takes that sample's place in the order; any other error
// ends the pass.
func ShuffleStream[S any](s Stream[S], size int, seed uint64) (Stream[S], error) {
	if s == nil || size < 1 {
		return nil, fmt.Errorf("data: ShuffleStream needs a stream and a window of at least 1 sample, got %T and %d", s,
			size)
	}
	return shuffledStream[S]{s, size, seed}, nil
}

type shuffledStream[S any] struct {
	s    Stream[S]
	size int
	seed uint64
}

// window returns the number of the window that a sample is in and where it begins and ends. The
// first window of a pass has a random length of at most size.
func (w shuffledStream[S]) window(pass, at int) (number, begin, end int) {
	first := 1 + int(mix(w.seed^mix(uint64(pass)))%uint64(w.size))
	if at < first {
		return 0, 0, first
	}
	number = 1 + (at-first)/w.size
	begin = first + (number-1)*w.size
	return number, begin, begin + w.size
}

func (w shuffledStream[S]) Samples(pass, skip int) iter.Seq2[S, error] {
	return func(yield func(S, error) bool) {
		var none S
		if skip < 0 {
			yield(none, fmt.Errorf("data: cannot skip %d samples", skip))
			return
		}
		number, begin, end := w.window(pass, skip)
		skip -= begin
		type place struct {
			sample S
			err    error
		}
		window := make([]place, 0, min(end-begin, 1024))
		flush := func() bool {
			// The pass and the window share the second word of the seed, mixed as in Augment.
			r := rand.New(rand.NewPCG(w.seed, mix(uint64(pass))^mix(^uint64(number))))
			r.Shuffle(len(window), func(i, j int) { window[i], window[j] = window[j], window[i] })
			for _, p := range window[min(skip, len(window)):] {
				if !yield(p.sample, p.err) {
					return false
				}
			}
			number, begin, end, skip = number+1, end, end+w.size, 0
			clear(window) // lets delivered samples be freed
			window = window[:0]
			return true
		}
		for sample, err := range w.s.Samples(pass, begin) {
			if err != nil && !isOneSample(err) {
				yield(none, err)
				return
			}
			if window = append(window, place{sample, err}); len(window) == end-begin && !flush() {
				return
			}
		}
		if len(window) > 0 {
			flush()
		}
	}
}

// StrideStream returns the samples k, k+n, k+2n, ... of s: the part of process k of n. An
// incomplete last round is left out, so that all processes have the same number of samples and none
// waits for the others. It reads all samples; if s reads files, it is cheaper to give each process
// its own files. The error of one sample ([OneSample]) affects only the process of that sample; any
// other error ends the pass for all.
func StrideStream[S any](s Stream[S], k, n int) (Stream[S], error) {
	if err := checkShard("StrideStream", k, n); err != nil {
		return nil, err
	}
	return StreamFunc[S](func(pass, skip int) iter.Seq2[S, error] {
		return func(yield func(S, error) bool) {
			var mine S
			var bad error
			at := 0
			for sample, err := range s.Samples(pass, skip*n) {
				if err != nil && !isOneSample(err) {
					yield(sample, err)
					return
				}
				if at == k {
					mine, bad = sample, err
				}
				if at++; at == n {
					if at = 0; !yield(mine, bad) {
						return
					}
				}
			}
		}
	}), nil
}

// TakeStream returns the first n samples of each pass over s.
func TakeStream[S any](s Stream[S], n int) Stream[S] {
	return StreamFunc[S](func(pass, skip int) iter.Seq2[S, error] {
		return func(yield func(S, error) bool) {
			left := n - skip
			if left <= 0 {
				return
			}
			for sample, err := range s.Samples(pass, skip) {
				if !yield(sample, err) {
					return
				}
				if left--; left == 0 {
					return
				}
			}
		}
	})
}
