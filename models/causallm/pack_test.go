package causallm_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/models/causallm"
	"github.com/gotrainer/gotrainer/models/inputs"
)

// FuzzPack: no token is lost or moves within its text, but for those that BFD cuts off.
func FuzzPack(f *testing.F) {
	f.Add([]byte{5, 2, 0, 3, 1, 9}, uint8(4))
	f.Add([]byte{}, uint8(2))
	f.Add(make([]byte, 1200), uint8(255))
	f.Fuzz(func(t *testing.T, lengths []byte, size uint8) {
		if size < 2 {
			return
		}
		var list []causallm.Sample
		var all []int64
		for _, n := range lengths {
			var s causallm.Sample
			for range n {
				s.InputIDs = append(s.InputIDs, int64(len(all)))
				all = append(all, int64(len(all)))
			}
			list = append(list, s)
		}
		for _, how := range []causallm.Packing{causallm.BFD, causallm.BFDSplit, causallm.Wrapped} {
			packed, err := causallm.Pack(list, int(size), how)
			require.NoError(t, err)
			want, got := all, []int64(nil)
			if how == causallm.BFD {
				want = nil
				for _, s := range list {
					want = append(want, s.InputIDs[:min(len(s.InputIDs), int(size))]...)
				}
			}
			for _, s := range packed {
				require.LessOrEqual(t, len(s.InputIDs), int(size))
				require.NotEmpty(t, s.InputIDs)
				require.Equal(t, s.InputIDs, s.Labels)
				got = append(got, s.InputIDs...)
				sum := 0
				for _, n := range s.Lengths {
					text := s.InputIDs[sum:][:n]
					require.EqualValues(t, n, text[n-1]-text[0]+1, "tokens of a text are no longer side by side")
					sum += int(n)
				}
				if how != causallm.Wrapped {
					require.Len(t, s.InputIDs, sum)
				}
			}
			if how != causallm.Wrapped {
				slices.Sort(got)
			}
			require.Equal(t, want, got, how)
		}
	})
}

func TestWhatPackRefuses(t *testing.T) {
	one := func(s causallm.Sample) []causallm.Sample { return []causallm.Sample{{}, s} }
	text := inputs.Text{InputIDs: []int64{1, 2}}
	for want, pack := range map[string]func() error{
		`there is no packing "best"`:   func() error { _, err := causallm.Pack(nil, 8, "best"); return err },
		"samples of 1 tokens":          func() error { _, err := causallm.Pack(nil, 1, causallm.BFD); return err },
		"text 1 is packed already":     func() error { return packs(one(causallm.Sample{Text: text, Lengths: []int64{2}})) },
		"text 1 has 1 labels":          func() error { return packs(one(causallm.Sample{Text: text, Labels: []int64{1}})) },
		"text 1 has padding already":   func() error { return packs(one(causallm.Sample{Text: masked(text, 0)})) },
		"want token ids and, if not":   func() error { return packs(one(causallm.Sample{Text: masked(text, 0)})) },
		"text 1 has TokenTypeIDs; wan": func() error { return packs(one(causallm.Sample{Text: typed(text)})) },
	} {
		require.ErrorContains(t, pack(), want)
	}
	packed, err := causallm.Pack(one(causallm.Sample{Text: masked(text, 1), Labels: []int64{-100, 2}}), 8, causallm.BFD)
	require.NoError(t, err)
	assert.Equal(t, []causallm.Sample{{Text: text, Labels: []int64{-100, 2}, Lengths: []int64{2}}}, packed)
}

func packs(texts []causallm.Sample) error {
	_, err := causallm.Pack(texts, 8, causallm.BFD)
	return err
}

func masked(t inputs.Text, last int64) inputs.Text {
	t.AttentionMask = []int64{1, last}
	return t
}

func typed(t inputs.Text) inputs.Text {
	t.TokenTypeIDs = []int64{0, 0}
	return t
}
