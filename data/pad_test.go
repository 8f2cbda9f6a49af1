package data_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gotrainer/gotrainer/data"
	"pgregory.net/rapid"
)

type encoded struct {
	InputIDs, TokenTypeIDs, Labels []int64
	Class                          int64
	Text                           string
}

type encodedBatch struct {
	AttentionMask data.Padded[int64] `mask:"InputIDs"`
	InputIDs      data.Padded[int64]
	TokenTypeIDs  data.Padded[int64]
	Labels        data.Padded[int64] `pad:"-100"`
	Class         []int64
	Text          []string
}

func TestCollatorIsThatOfTransformers(t *testing.T) {
	var golden []struct {
		Left             bool
		Multiple, Length int
		Lengths          []int
		InputIDs         [][]int64 `json:"input_ids"`
		TokenTypeIDs     [][]int64 `json:"token_type_ids"`
		AttentionMask    [][]int64 `json:"attention_mask"`
		Labels           [][]int64
	}
	text, err := os.ReadFile("testdata/padding.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &golden); err != nil {
		t.Fatal(err)
	}
	for _, g := range golden {
		var samples []encoded
		for row, n := range g.Lengths {
			s := encoded{Class: int64(row), Text: strings.Repeat("x", row)}
			for k := range n {
				id := int64(5 + 10*row + k)
				s.InputIDs, s.TokenTypeIDs, s.Labels = append(s.InputIDs, id), append(s.TokenTypeIDs, int64(k%2)),
					append(s.Labels, id%7)
			}
			samples = append(samples, s)
		}
		p := data.Padding{Length: g.Length, Multiple: g.Multiple, Left: g.Left}
		collate, err := data.Collator[encoded, encodedBatch](p)
		if err != nil {
			t.Fatal(err)
		}
		b, err := collate(samples)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			name string
			want [][]int64
			got  data.Padded[int64]
		}{{"input_ids", g.InputIDs, b.InputIDs}, {"token_type_ids", g.TokenTypeIDs, b.TokenTypeIDs},
			{"attention_mask", g.AttentionMask, b.AttentionMask}, {"labels", g.Labels, b.Labels}} {
			var rows [][]int64
			for i := range c.got.Rows {
				rows = append(rows, c.got.Row(i))
			}
			if diff := cmp.Diff(c.want, rows); diff != "" {
				t.Errorf("%+v of lengths %v: %s (-want +got):\n%s", p, g.Lengths, c.name, diff)
			}
		}
		if len(b.Class) != len(samples) || b.Class[len(samples)-1] != int64(len(samples)-1) ||
			len(b.Text[len(samples)-1]) != len(samples)-1 {
			t.Errorf("scalars: %v %q", b.Class, b.Text)
		}
	}
}

func TestPadKeepsEverySequence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sequences := rapid.SliceOf(rapid.SliceOfN(rapid.Int32(), 0, 9)).Draw(t, "sequences")
		p := data.Padding{Length: rapid.SampledFrom([]int{0, 9, 16}).Draw(t, "length"), Multiple: rapid.IntRange(0,
			8).Draw(t, "multiple"), Left: rapid.Bool().Draw(t, "left")}
		padded, err := data.Pad(sequences, -7, p)
		if err != nil {
			t.Fatal(err)
		}
		mask := padded.Mask()
		if p.Multiple > 0 && padded.Width%p.Multiple != 0 {
			t.Fatalf("width %d is no multiple of %d", padded.Width, p.Multiple)
		}
		for i, s := range sequences {
			if diff := cmp.Diff(append([]int32{}, s...), append([]int32{}, padded.Sequence(i)...)); diff != "" {
				t.Fatalf("sequence %d:\n%s", i, diff)
			}
			ones := 0
			for k, m := range mask.Row(i) {
				ones += int(m)
				if m == 0 && padded.Row(i)[k] != -7 {
					t.Fatalf("row %d holds %d at padding %d", i, padded.Row(i)[k], k)
				}
			}
			if ones != len(s) {
				t.Fatalf("the mask of row %d has %d ones, want %d", i, ones, len(s))
			}
		}
	})
}

func TestPaddingRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		p    data.Padding
		want string
	}{
		{"a longer sequence than the fixed width", data.Padding{Length: 2},
			"sequence 1 of the batch has 3 items, more than the 2"},
		{"a negative width", data.Padding{Length: -1}, "negative"},
		{"a negative multiple", data.Padding{Multiple: -8}, "negative"},
	} {
		if _, err := data.Pad([][]int64{{1}, {1, 2, 3}}, 0, c.p); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestCollatorRefuses(t *testing.T) {
	type sample struct {
		IDs  []int64
		Text string
	}
	for _, c := range []struct {
		name string
		make func() error
		want string
	}{
		{"a field the sample lacks", refused[sample, struct{ Labels data.Padded[int64] }], "no field of this name"},
		{"another item type", refused[sample, struct{ IDs data.Padded[int32] }], "is made from []int32"},
		{"a slice of another type", refused[sample, struct{ Text []int }], "want []string"},
		{"a tag that is no number", refused[sample, struct {
			IDs data.Padded[int64] `pad:"x"`
		}], `pad:"x" is not of type int64`},
		{"a padding for what is not padded", refused[sample, struct {
			Text []string `pad:"1"`
		}], "want data.Padded"},
		{"a mask of nothing", refused[sample, struct {
			Mask data.Padded[int64] `mask:"Labels"`
		}], "not a padded field"},
		{"a mask of itself", refused[sample, struct {
			Mask data.Padded[int64] `mask:"Mask"`
		}], "not a padded field"},
		{"a mask that is not int64", refused[sample, struct {
			IDs  data.Padded[int64]
			Mask []bool `mask:"IDs"`
		}], "a mask is a data.Padded[int64]"},
		{"samples that are no structs", refused[int, struct{}], "two structs"},
	} {
		if err := c.make(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func refused[S, B any]() error {
	_, err := data.Collator[S, B](data.Padding{})
	return err
}

func BenchmarkCollator(b *testing.B) {
	samples := make([]encoded, 32)
	for i := range samples {
		samples[i].InputIDs = make([]int64, 64+i)
		samples[i].TokenTypeIDs, samples[i].Labels = samples[i].InputIDs, samples[i].InputIDs
	}
	collate, err := data.Collator[encoded, encodedBatch](data.Padding{Multiple: 8})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := collate(samples); err != nil {
			b.Fatal(err)
		}
	}
}
