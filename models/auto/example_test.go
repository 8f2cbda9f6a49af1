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
	"github.com/gotrainer/gotrainer/models/causallm"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/maskedlm"
	"github.com/gotrainer/gotrainer/models/question"
	"github.com/gotrainer/gotrainer/models/tokenclass"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/text/chat"
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

// SequenceClassification classifies texts. Their classes have names, as in a table.
func ExampleSequenceClassification() {
	dir := small(`"model_type": "bert", "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
		"intermediate_size": 64`, "a good bad great awful film plot")
	defer os.RemoveAll(dir) //nolint:errcheck // a scratch folder
	m, err := auto.SequenceClassification(context.Background(), dir, auto.Options{FromConfig: true,
		ID2Label: []string{"neg", "pos"}})
	check(err)

	var samples []classify.Sample
	for _, s := range [][2]string{{"a good film", "pos"}, {"a great plot", "pos"}, {"a bad plot", "neg"},
		{"an awful film", "neg"}} {
		label, err := m.Head().LabelID(s[1])
		check(err)
		sample, err := m.Encode(text.Single(s[0]), label)
		check(err)
		samples = append(samples, sample)
	}
	result := fit(m.Task(), 40, samples)
	classes, err := m.Predict(text.Single("a great film"))
	check(err)
	fmt.Printf("accuracy %.1f; a great film: %s\n", result["eval_accuracy"], classes[0].Label)
	// Output:
	// accuracy 1.0; a great film: pos
}

// TokenClassification finds names of places in sentences that are given as words.
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

// QuestionAnswering finds answers that are spans of a text.
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

// MultipleChoice finds the right ending of a sentence.
func ExampleMultipleChoice() {
	dir := small(`"model_type": "bert", "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
		"intermediate_size": 64`, "the dog cat barks meows sings bird")
	defer os.RemoveAll(dir) //nolint:errcheck // a scratch folder
	m, err := auto.MultipleChoice(context.Background(), dir, auto.Options{FromConfig: true})
	check(err)

	var samples []classify.ChoiceSample
	for i, animal := range []string{"dog", "cat", "bird"} {
		s, err := m.Encode("the "+animal, []string{"barks", "meows", "sings"}, int64(i))
		check(err)
		samples = append(samples, s)
	}
	result := fit(m.Task(), 200, samples)
	fmt.Println("accuracy:", result["eval_accuracy"])
	probabilities, err := m.Predict("the cat", []string{"sings", "meows"})
	fmt.Println(probabilities[1] > 0.9, err)
	// Output:
	// accuracy: 1
	// true <nil>
}

// A model learns a language by predicting masked words, which are chosen again for each pass.
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

// A model is trained on the assistant's messages of conversations, and then answers.
func ExampleCausalLanguageModel_Chat() {
	dir := small(`"model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1,
		"num_attention_heads": 2`, "user assistant : what is red blue green fire the sea grass")
	defer os.RemoveAll(dir) //nolint:errcheck // a scratch folder
	lm, err := auto.CausalLM(context.Background(), dir, auto.Options{FromConfig: true})
	check(err)
	// The folder of a model that was made for conversations has a template.
	lm.ChatTemplate, err = chat.Parse(`{% for m in messages %}
{{ m.role }} : {{ m.content }} {{ eos_token }}
{% endfor %}
{% if add_generation_prompt %}assistant : {% endif %}`)
	check(err)
	lm.ChatTemplate.SpecialTokens = map[string]string{"eos_token": "[SEP]"}

	conversations, err := chat.Read(strings.NewReader(`
{"messages": [{"role": "user", "content": "what is red"}, {"role": "assistant", "content": "the fire is red"}]}
{"messages": [{"role": "user", "content": "what is blue"}, {"role": "assistant", "content": "the sea is blue"}]}
{"messages": [{"role": "user", "content": "what is green"}, {"role": "assistant", "content": "the grass is green"}]}`))
	check(err)
	var samples []causallm.Sample
	for _, c := range conversations {
		s, err := lm.EncodeChat(c)
		check(err)
		samples = append(samples, s)
	}
	fit(lm.Task(), 60, samples)

	c := chat.Conversation{Messages: []chat.Message{chat.User("what is blue")}}
	answer, err := lm.Chat(context.Background(), c, auto.Generation{MaxNewTokens: 10})
	fmt.Println(answer, err)
	// Output: the sea is blue <nil>
}
