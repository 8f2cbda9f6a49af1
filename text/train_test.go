package text

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTrainedVocabulariesAreTheReferences(t *testing.T) {
	data, err := os.ReadFile("testdata/train.json")
	if err != nil {
		t.Fatal(err)
	}
	var f struct {
		Texts []string
		Cases []struct {
			Settings struct {
				VocabSize     int `json:"vocab_size"`
				MinFrequency  int `json:"min_frequency"`
				LimitAlphabet int `json:"limit_alphabet"`
			}
			Vocab []string
		}
	}
	if err := json.Unmarshal(data, &f); err != nil {
		t.Fatal(err)
	}
	if len(f.Cases) < 5 {
		t.Fatalf("only %d cases", len(f.Cases))
	}
	for _, c := range f.Cases {
		o := TrainOptions{VocabSize: c.Settings.VocabSize, MinFrequency: c.Settings.MinFrequency,
			LimitAlphabet: c.Settings.LimitAlphabet}
		tok, err := TrainBert(slices.Values(f.Texts), BertOptions{}, o)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for token := range tok.Config().Model.Vocab() {
			got = append(got, token)
		}
		slices.Sort(got)
		slices.Sort(c.Vocab)
		if d := cmp.Diff(c.Vocab, got); d != "" {
			t.Errorf("%+v: -reference +here\n%s", o, d)
		}
	}
}

func TestTrainingTwiceGivesTheSameVocabulary(t *testing.T) {
	texts := randomTexts(300, 3)
	var first []byte
	for range 3 {
		tok, err := TrainBert(slices.Values(texts), BertOptions{}, TrainOptions{VocabSize: 1500})
		if err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(tok)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = data
		}
		if string(data) != string(first) {
			t.Fatal("the same texts gave another vocabulary")
		}
	}
}

func ExampleTrainBert() {
	texts := []string{"low lower lowest", "new newer newest", "wide wider widest"}
	tok, err := TrainBert(slices.Values(texts), BertOptions{}, TrainOptions{VocabSize: 32})
	if err != nil {
		fmt.Println(err)
		return
	}
	e, err := tok.Encode("widest lower", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(tok.VocabSize(), e.Tokens)
	// Output: 32 [[CLS] wide ##st lo ##wer [SEP]]
}
