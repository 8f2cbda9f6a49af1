package datasets

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/text/hezar"
)

// prepared is a data set that prepares samples on demand, from any number of goroutines.
type prepared[R, S any] struct {
	Config Config // set if the data set was read by [Load]

	closers []io.Closer
	rows    data.Dataset[R]
	sample  func(row R) (S, error)
	length  int
}

// prepare makes a data set of the first rows, limited to a number or a fraction.
func prepare[R, S any](rows data.Dataset[R], most int, fraction float64, sample func(R) (S, error)) (prepared[R, S],
	error) {
	p := prepared[R, S]{rows: rows, sample: sample, length: rows.Len()}
	switch {
	case most < 0 || !(fraction >= 0 && fraction <= 1) || most > 0 && fraction > 0:
		return p, fmt.Errorf("datasets: MaxSamples is %d and MaxFraction %g; want one of them, a number of samples "+
			"or a share of at most 1", most, fraction)
	case fraction > 0:
		p.length = int(math.Ceil(fraction * float64(p.length)))
	case most > 0:
		p.length = min(p.length, most)
	}
	return p, nil
}

// loaded records what [Load] has read.
func (p *prepared[R, S]) loaded(c Config, closers []io.Closer) { p.Config, p.closers = c, closers }

// Close closes the files of a data set that [Load] has read.
func (p prepared[R, S]) Close() (err error) {
	for _, c := range p.closers {
		err = errors.Join(err, c.Close())
	}
	return err
}

// Len returns the number of samples used.
func (p prepared[R, S]) Len() int { return p.length }

// At prepares a sample.
func (p prepared[R, S]) At(i int) (s S, err error) {
	if i < 0 || i >= p.length {
		return s, fmt.Errorf("datasets: there is no sample %d of %d", i, p.length)
	}
	row, err := p.rows.At(i)
	if err != nil {
		return s, err
	}
	return p.sample(row)
}

// tokens is a configured tokenizer, with the ID for padding.
type tokens struct {
	*text.Tokenizer
	pad int64
}

func newTokens(t *hezar.Tokenizer, call hezar.CallOptions) (tokens, error) {
	if t == nil {
		return tokens{}, fmt.Errorf("datasets: a data set of texts without a tokenizer: Hezar's preprocessor is " +
			"required")
	}
	pad, ok := t.TokenToID(t.Config.PadToken)
	if !ok {
		return tokens{}, fmt.Errorf("datasets: the vocabulary lacks the padding token %q", t.Config.PadToken)
	}
	configured, err := t.Configured(call)
	return tokens{configured, pad}, err
}

// padded is a field of samples that is padded in a batch.
type padded[S any] struct {
	to *[][]int64
	of func(s S) []int64
	id int64 // the padding
}

// collate pads fields to the longest row of the batch, and truncates them to the maximum length.
func collate[S any](samples []S, o PadOptions, fields ...padded[S]) (err error) {
	if len(samples) == 0 {
		return data.ErrEmptyBatch
	}
	o.Padding = "longest"
	for _, f := range fields {
		o.PadID = f.id
		if *f.to, err = PadBatch(data.Stack(samples, f.of), o); err != nil {
			return err
		}
	}
	return nil
}
