package callback

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"sort"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
)

// Histogram is the distribution of values as TensorBoard shows it: HistogramProto.
type Histogram struct {
	Min, Max   float64
	Num        float64 // number of values
	Sum        float64
	SumSquares float64
	Limits     []float64 // upper bound of each bucket; ascending
	Counts     []float64 // number of values in each bucket
}

// bucketLimits are the bins of SummaryWriter: 0, and powers of 1.1 from 1e-12 to 1e20 on both
// sides.
var bucketLimits = sync.OnceValue(func() []float64 {
	limits := []float64{0}
	for v := 1e-12; v < 1e20; v *= 1.1 {
		limits = append(limits, v, -v)
	}
	slices.Sort(limits)
	return limits
})

// NewHistogram counts values: make_histogram of torch.utils.tensorboard. Values beyond 1e20 are in
// no bucket. An empty list, a list of only such values, and values that are not finite are errors.
func NewHistogram(values []float64) (Histogram, error) {
	h := Histogram{Min: math.Inf(1), Max: math.Inf(-1), Num: float64(len(values))}
	limits := bucketLimits()
	last := len(limits) - 1
	counts := make([]float64, last) // counts[i]: from limits[i] on, below limits[i+1]
	first, end := last, 0           // range of the counts that are not zero
	for i, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return Histogram{}, fmt.Errorf("value %d is %v, want a finite number", i, v)
		}
		h.Min, h.Max, h.Sum, h.SumSquares = min(h.Min, v), max(h.Max, v), h.Sum+v, h.SumSquares+v*v
		at := sort.Search(len(limits), func(i int) bool { return limits[i] > v }) - 1
		if v == limits[last] {
			at = last - 1
		}
		if at >= 0 && at < last {
			counts[at]++
			first, end = min(first, at), max(end, at+1)
		}
	}
	if first >= end {
		return Histogram{}, errors.New("want at least one value from -1e20 to 1e20")
	}
	// Only the upper limits of buckets are stored, so an empty bucket in front gives the first
	// lower limit.
	h.Limits, h.Counts = slices.Clone(limits[first:end+1]), slices.Insert(counts[first:end:end], 0, 0)
	return h, nil
}

// AddHistogram writes the distribution of values: add_histogram. [NewHistogram] uses its default
// bins.
func (w *EventWriter) AddHistogram(tag string, h Histogram, step int) error {
	return w.value(step, appendMessage(appendString(nil, fieldTag, tag), fieldHistogram, h.marshal()))
}

// Field numbers of HistogramProto.
const (
	fieldMin = iota + 1
	fieldMax
	fieldNum
	fieldSum
	fieldSumSquares
	fieldLimits
	fieldCounts
)

func (h *Histogram) marshal() (b []byte) {
	for i, v := range []float64{h.Min, h.Max, h.Num, h.Sum, h.SumSquares} {
		if v != 0 {
			b = protowire.AppendFixed64(protowire.AppendTag(b, fieldMin+protowire.Number(i), protowire.Fixed64Type),
				math.Float64bits(v))
		}
	}
	return appendMessage(appendMessage(b, fieldLimits, packed(h.Limits)), fieldCounts, packed(h.Counts))
}

func packed(values []float64) (b []byte) {
	for _, v := range values {
		b = protowire.AppendFixed64(b, math.Float64bits(v))
	}
	return b
}

// histogramOf parses a HistogramProto.
func histogramOf(message iter.Seq[field]) *Histogram {
	h := &Histogram{}
	for f := range message {
		v := math.Float64frombits(f.v)
		switch f.number {
		case fieldMin:
			h.Min = v
		case fieldMax:
			h.Max = v
		case fieldNum:
			h.Num = v
		case fieldSum:
			h.Sum = v
		case fieldSumSquares:
			h.SumSquares = v
		case fieldLimits:
			h.Limits = unpacked(f.data)
		case fieldCounts:
			h.Counts = unpacked(f.data)
		}
	}
	return h
}

func unpacked(b []byte) (values []float64) {
	for ; len(b) >= 8; b = b[8:] {
		values = append(values, math.Float64frombits(binary.LittleEndian.Uint64(b)))
	}
	return values
}
