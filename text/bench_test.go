package text

import (
	"strings"
	"testing"
)

// benchmarkTexts are the texts of the workload tokenize: the sentences of SST-2 and the articles of
// AG News.
func benchmarkTexts(b *testing.B) []string {
	b.Helper()
	var texts []string
	for i, file := range []string{"sst2/train.tsv", "ag_news/sample10k.tsv"} {
		for k, line := range sharedLines(b, file) {
			if line != "" && (i > 0 || k > 0) {
				text, _, _ := strings.Cut(line, "\t")
				texts = append(texts, text)
			}
		}
	}
	return texts
}

func benchmarkTokenizer(b *testing.B) *Tokenizer {
	b.Helper()
	t, err := NewBert(sharedVocab(b), BertOptions{})
	if err != nil {
		b.Fatal(err)
	}
	if t, err = t.WithTruncation(&Truncation{MaxLength: 128}); err != nil {
		b.Fatal(err)
	}
	return t
}

// BenchmarkIDs computes only ids, on one goroutine.
func BenchmarkIDs(b *testing.B) {
	t, texts := benchmarkTokenizer(b), benchmarkTexts(b)
	b.ReportAllocs()
	tokens := 0
	buffer := make([]int64, 0, 256)
	for b.Loop() {
		for _, s := range texts {
			var err error
			if buffer, err = t.AppendIDs(buffer[:0], Input{Text: s}, nil); err != nil {
				b.Fatal(err)
			}
			tokens += len(buffer)
		}
	}
	b.ReportMetric(float64(tokens)/b.Elapsed().Seconds()/1e6, "Mtokens/s")
}

// BenchmarkEncode computes complete encodings, on one goroutine.
func BenchmarkEncode(b *testing.B) {
	t, texts := benchmarkTokenizer(b), benchmarkTexts(b)
	b.ReportAllocs()
	tokens := 0
	for b.Loop() {
		for _, s := range texts {
			e, err := t.Encode(s, nil)
			if err != nil {
				b.Fatal(err)
			}
			tokens += e.Len()
		}
	}
	b.ReportMetric(float64(tokens)/b.Elapsed().Seconds()/1e6, "Mtokens/s")
}

// BenchmarkLoad reads bert-base-uncased's vocabulary and creates the tokenizer.
func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		benchmarkTokenizer(b)
	}
}
