package metrics_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gotrainer/gotrainer/metrics"
)

func TestOneOfSeveralReferencesIsEnough(t *testing.T) {
	references := []string{"the cat", "a cat sat", ""}
	for _, c := range []struct {
		m interface {
			metrics.Metric[string]
			AddReferences(prediction string, references ...string)
		}
		want float64
	}{
		{&metrics.CER{}, 0}, {&metrics.WER{}, 0}, {&metrics.ExactMatch{}, 1}, {&metrics.BLEU{MaxOrder: 3}, 1},
		{&metrics.ROUGE{}, 1},
	} {
		c.m.AddReferences("a cat sat", references...)
		if got := c.m.Result()[c.m.Name()]; got != c.want {
			t.Errorf("%T of a text that is the second reference = %v, want %v", c.m, got, c.want)
		}
	}
}

func TestEmptyReferencesAreDefined(t *testing.T) {
	for _, c := range []struct {
		name string
		m    interface {
			metrics.Metric[string]
			AddReferences(prediction string, references ...string)
		}
		wrong, right float64 // results of "ab c" for an empty reference, and of an empty text for an empty reference
	}{
		{"CER counts edits", &metrics.CER{}, 4, 0}, {"WER counts edits", &metrics.WER{}, 2, 0},
		{"ExactMatch", &metrics.ExactMatch{}, 0, 1},
		{"BLEU has no matches", &metrics.BLEU{}, 0, 0}, {"ROUGE has no matches", &metrics.ROUGE{}, 0, 0},
	} {
		for _, references := range [][]string{nil, {""}} {
			c.m.Reset()
			c.m.AddReferences("ab c", references...)
			if got := c.m.Result()[c.m.Name()]; got != c.wrong {
				t.Errorf("%s: a text for references %q gives %v, want %v", c.name, references, got, c.wrong)
			}
			c.m.Reset()
			c.m.AddReferences("", references...)
			if got := c.m.Result()[c.m.Name()]; got != c.right {
				t.Errorf("%s: nothing for references %q gives %v, want %v", c.name, references, got, c.right)
			}
		}
	}
}

func TestWordsKeepEveryScript(t *testing.T) {
	for text, want := range map[string][]string{
		"Don't STOP, e-mail_me 3.5":   {"don", "t", "stop", "e", "mail", "me", "3", "5"},
		"می\u200cروم به خانه، ۱۲ بار": {"می\u200cروم", "به", "خانه", "۱۲", "بار"},
		"\u200cالف\u200c ب\u200c":     {"الف", "ب"},
		"e\u0301te\u0301 Ünïcode 東京":  {"e\u0301te\u0301", "ünïcode", "東京"},
		"...":                         nil,
		"":                            nil,
	} {
		if got := metrics.Words(text); !slices.Equal(got, want) {
			t.Errorf("Words(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestConcatenatedTextsMayBeCutElsewhere(t *testing.T) {
	m := &metrics.Concatenated{Of: &metrics.WER{}}
	m.Add("one two", "one")
	m.Add("three", "two three ")
	m.Add(" ", "")
	if got := m.Result()["wer"]; got != 0 {
		t.Errorf("the same words, cut elsewhere: %v, want 0", got)
	}
	m.Reset()
	m.Add("x", "y")
	if got := m.Result()["wer"]; got != 1 {
		t.Errorf("after Reset: %v, want 1", got)
	}
}

func TestSequencesOfDifferentLengthsHaveWrongTags(t *testing.T) {
	var m metrics.Seqeval
	m.Add([]string{"B-X"}, []string{"B-X", "I-X"})
	m.Add([]string{"O", ""}, nil)
	got := m.Result()
	if got["accuracy"] != 0.25 || got["f1"] != 0 {
		t.Errorf("accuracy %v and f1 %v, want 0.25 and 0", got["accuracy"], got["f1"])
	}
}

func TestAllGivesEveryNumber(t *testing.T) {
	all := metrics.All[string]{&metrics.CER{}, &metrics.ExactMatch{}}
	all.Add("ab", "ac")
	if got := all.Result(); got["cer"] != 0.5 || got["exact_match"] != 0 || all.Name() != "cer" {
		t.Errorf("%s: %v", all.Name(), got)
	}
	all.Reset()
	all.Add("a", "a")
	if got := all.Result(); got["cer"] != 0 || got["exact_match"] != 1 {
		t.Errorf("after Reset: %v", got)
	}
	if got := (metrics.All[int]{}).Result(); len(got) != 0 {
		t.Errorf("no metrics give %v", got)
	}
}

func ExampleSeqeval() {
	var ner metrics.Seqeval
	ner.Add([]string{"B-PER", "I-PER", "O", "B-LOC"}, []string{"B-PER", "I-PER", "O", "B-ORG"})
	r := ner.Result()
	fmt.Println(r["f1"], r["precision"], r["recall"], r["accuracy"])
	for _, t := range ner.Types() {
		fmt.Println(t.Type, t.F1, t.Support)
	}
	// Output:
	// 0.5 0.5 0.5 0.75
	// LOC 0 0
	// ORG 0 1
	// PER 1 1
}

func ExampleBLEU_AddReferences() {
	var bleu metrics.BLEU
	bleu.AddReferences("the cat sat on the mat", "a cat sat on the mat", "the cat is on the mat")
	fmt.Printf("%.4f\n", bleu.Result()["bleu"])
	// Output: 0.8409
}

func ExampleROUGE() {
	var rouge metrics.ROUGE
	rouge.Add("او به خانه می\u200cرود", "او دیروز به خانه رفت") // any script
	r := rouge.Result()
	fmt.Printf("%.3f %.3f %.3f\n", r["rouge1"], r["rouge2"], r["rougeL"])
	// Output: 0.667 0.286 0.667
}

// ExampleMerger adds up what two processes counted.
func ExampleMerger() {
	var first, second metrics.CER
	first.Add("abx", "abc")
	second.Add("abc", "abc")
	state, _ := second.State()
	if err := first.Merge(state); err != nil {
		fmt.Println(err)
	}
	fmt.Printf("%.4f\n", first.Result()["cer"])
	// Output: 0.1667
}
