package causallm

import (
	"fmt"
	"slices"

	"github.com/gotrainer/gotrainer/models/inputs"
)

// Packing is a way to join texts so that rows of a batch are full: packing_strategy of TRL.
type Packing string

// The ways of TRL.
const (
	// BFD (best fit, decreasing) fills each sample with whole texts, the longest first, and cuts texts
	// that are longer than a sample. Texts do not attend to each other.
	BFD Packing = "bfd"
	// BFDSplit is BFD that makes several texts of one that is longer than a sample, so that no token is
	// lost.
	BFDSplit Packing = "bfd_split"
	// Wrapped joins all texts end to end and cuts the result into samples of equal length. Texts attend
	// to those before them in their sample, as with [Blocks], which drops what does not fill a block.
	Wrapped Packing = "wrapped"
)

// packedTogether is the number of texts that are packed at a time, as datasets.map gives them to
// TRL's pack_dataset.
const packedTogether = 1000

// Pack joins texts into samples of at most size tokens: pack_dataset of TRL 1.16, which packs every
// thousand texts by themselves, and leaves out empty ones. Samples of [BFD] and [BFDSplit] have
// [Sample.Lengths], which only a model without padding takes: SetPaddingFree of package auto. With
// them the loss is that of each text by itself; the tokens that begin texts are not learned.
//
// Texts have no TokenTypeIDs, and no AttentionMask that leaves something out. Their Target is lost.
// Shuffle texts before that, or samples will hold texts that stood side by side.
func Pack(texts []Sample, size int, how Packing) (packed []Sample, err error) {
	if known := []Packing{BFD, BFDSplit, Wrapped}; !slices.Contains(known, how) {
		return nil, fmt.Errorf("causallm: there is no packing %q; there are %q", how, known)
	}
	if size < 2 {
		return nil, fmt.Errorf("causallm: samples of %d tokens; want at least 2: the first predicts the second", size)
	}
	rows := make([]Sample, len(texts))
	for i, s := range texts {
		if rows[i], err = s.single(i); err != nil {
			return nil, err
		}
	}
	for some := range slices.Chunk(rows, packedTogether) {
		switch how {
		case BFD:
			packed = append(packed, fit(cutAt(some, size, false), size)...)
		case BFDSplit:
			packed = append(packed, fit(cutAt(some, size, true), size)...)
		default:
			packed = append(packed, wrap(some, size)...)
		}
	}
	return packed, nil
}

// single returns what packing keeps of a text, with its labels.
func (s Sample) single(number int) (Sample, error) {
	fault := ""
	switch {
	case s.Lengths != nil:
		fault = "is packed already"
	case s.Labels != nil && len(s.Labels) != len(s.InputIDs):
		fault = fmt.Sprintf("has %d labels for %d tokens", len(s.Labels), len(s.InputIDs))
	case s.TokenTypeIDs != nil:
		fault = "has TokenTypeIDs"
	case slices.Contains(s.AttentionMask, 0):
		fault = "has padding already (AttentionMask)"
	}
	if fault != "" {
		return s, fmt.Errorf("causallm: text %d %s; want token ids and, if not all are to be learned, labels", number, fault)
	}
	labels := s.Labels
	if labels == nil {
		labels = s.InputIDs
	}
	return Sample{Text: inputs.Text{InputIDs: s.InputIDs}, Labels: labels}, nil
}

// slice returns the tokens of a text between two places.
func (s Sample) slice(from, to int) Sample {
	return Sample{Text: inputs.Text{InputIDs: s.InputIDs[from:to:to]}, Labels: s.Labels[from:to:to]}
}

// join adds the tokens of a text.
func (s *Sample) join(text Sample) {
	s.InputIDs = append(s.InputIDs, text.InputIDs...)
	s.Labels = append(s.Labels, text.Labels...)
}

// cutAt makes texts of at most size tokens, without empty ones. What is longer is cut off, or, with
// split, becomes texts of its own.
func cutAt(texts []Sample, size int, split bool) (cut []Sample) {
	for _, s := range texts {
		for from := 0; from < len(s.InputIDs); from += size {
			cut = append(cut, s.slice(from, min(from+size, len(s.InputIDs))))
			if !split {
				break
			}
		}
	}
	return cut
}

// fit puts texts, longest first, each into the sample with the least space that is enough for it,
// and of several such samples into the first that had that space.
//
// Source: Ding and others, Fewer Truncations Improve Language Modeling, https://arxiv.org/abs/2404.10830.
func fit(texts []Sample, size int) (bins []Sample) {
	slices.SortStableFunc(texts, func(a, b Sample) int { return len(b.InputIDs) - len(a.InputIDs) })
	withSpace := make([][]int, size+1) // the samples that have room for so many more tokens
	for _, s := range texts {
		n := len(s.InputIDs)
		space := n
		for space < size && len(withSpace[space]) == 0 {
			space++
		}
		bin := len(bins)
		if space < size {
			bin, withSpace[space] = withSpace[space][0], withSpace[space][1:]
		} else {
			bins = append(bins, Sample{})
		}
		bins[bin].join(s)
		bins[bin].Lengths = append(bins[bin].Lengths, int64(n))
		withSpace[space-n] = append(withSpace[space-n], bin)
	}
	return bins
}

// wrap joins texts end to end and cuts the result into samples of size tokens; the last may have
// fewer.
func wrap(texts []Sample, size int) (samples []Sample) {
	var all Sample
	for _, s := range texts {
		all.join(s)
	}
	return cutAt([]Sample{all}, size, true)
}
