package auto_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/maskedlm"
	"github.com/gotrainer/gotrainer/models/question"
	"github.com/gotrainer/gotrainer/models/tokenclass"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// small makes the folder of a small model, with a vocabulary of the words and without weights.
// Programs name a model of the Hub and leave Options.FromConfig out.
func small(config string, words string) string {
	dir, err := os.MkdirTemp("", "auto")
	check(err)
	vocab := map[string]int64{}
	for _, w := range strings.Fields("[PAD] [UNK] [CLS] [SEP] [MASK] " + words) {
		vocab[w] = int64(len(vocab))
	}
	tok, err := text.NewBert(vocab, text.BertOptions{})
	check(err)
	check(tok.Save(dir))
	config = fmt.Sprintf(`{%s, "vocab_size": %d, "max_position_embeddings": 32, "initializer_range": 0.1}`, config,
		len(vocab))
	check(os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600))
	torch.ManualSeed(1)
	return dir
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func fit[S, B any](task engine.Task[S, B], epochs float64, samples []S) map[string]float64 {
	step, err := engine.New(task, engine.Options{Optimizer: optim.AdamW{LR: 5e-3}})
	check(err)
	t, err := trainer.New(step, trainer.Options{Epochs: epochs, Save: trainer.Never, Progress: io.Discard})
	check(err)
	result, err := t.Fit(context.Background(), data.Slice[S](samples), data.Slice[S](samples))
	check(err)
	return result.Best.Metrics
}

// Names of places are found in sentences that are cut into words.
func ExampleTokenClassification() {
	dir := small(`"model_type": "electra", "hidden_size": 32, "embedding_size": 16, "num_hidden_layers": 1,
		"num_attention_heads": 2, "intermediate_size": 64`, "we live in new york paris he left for moved to rome")
	defer os.RemoveAll(dir) //nolint:errcheck // a scratch folder
	ner, err := auto.TokenClassification(context.Background(), dir, auto.Options{FromConfig: true,
		ID2Label: []string{"O", "B-LOC", "I-LOC"}})
	check(err)

	var samples []tokenclass.Sample
	for _, s := range [][2]string{
		{"we live in new york", "O O O B-LOC I-LOC"}, {"he left new york for paris", "O O B-LOC I-LOC O B-LOC"},
		{"we moved to rome", "O O O B-LOC"}, {"paris", "B-LOC"},
	} {
		sample, err := ner.Encode(strings.Fields(s[0]), strings.Fields(s[1]))
		check(err)
		samples = append(samples, sample)
	}
	result := fit(ner.Task(), 40, samples)
	fmt.Println("F1 of whole names:", result["eval_f1"])
	tags, err := ner.Predict(strings.Fields("he moved to new york"))
	fmt.Println(tags, err)
	// Output:
	// F1 of whole names: 1
	// [O O O B-LOC I-LOC] <nil>
}

// Answers are stretches of a text.
func ExampleQuestionAnswering() {
	dir := small(`"model_type": "distilbert", "dim": 32, "n_layers": 1, "n_heads": 2, "hidden_dim": 64`,
		"who won ? where was it denver the broncos in santa clara")
	defer os.RemoveAll(dir) //nolint:errcheck // a scratch folder
	qa, err := auto.QuestionAnswering(context.Background(), dir, auto.Options{FromConfig: true})
	check(err)

	const text = "the denver broncos won in santa clara"
	var samples []question.Sample
	for _, e := range [][2]string{{"who won ?", "denver broncos"}, {"where was it ?", "santa clara"}} {
		made, err := qa.Encode(question.Example{Question: e[0], Context: text, Answers: []question.Answer{{
			Text: e[1], Start: strings.Index(text, e[1])}}}, question.FeatureOptions{})
		check(err)
		samples = append(samples, made...)
	}
	result := fit(qa.Task(), 40, samples)
	fmt.Println("exact match:", result["eval_exact_match"], "F1:", result["eval_f1"])
	answers, err := qa.Predict("where was it ?", text, question.AnswerOptions{})
	fmt.Println(answers[0].Text, err)
	// Output:
	// exact match: 100 F1: 100
	// santa clara <nil>
}

// A model learns the words of a language by guessing masked ones, other ones each time.
func ExampleMaskedLM() {
	dir := small(`"model_type": "bert", "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
		"intermediate_size": 64`, "the cat sat on a mat dog ran to house")
	defer os.RemoveAll(dir) //nolint:errcheck // a scratch folder
	mlm, err := auto.MaskedLM(context.Background(), dir, auto.Options{FromConfig: true})
	check(err)

	var samples []maskedlm.Sample
	for _, s := range []string{"the cat sat on a mat", "the dog ran to a house"} {
		sample, err := mlm.Encode(s)
		check(err)
		for range 8 {
			samples = append(samples, sample)
		}
	}
	task, err := mlm.Task(maskedlm.Masking{Probability: new(0.3), Seed: 7})
	check(err)
	fit(task, 30, samples)
	guesses, err := mlm.Predict("the cat [MASK] on a mat", 1)
	fmt.Println(guesses[0].Token, err)
	// Output: sat <nil>
}
