package crossencoder_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/crossencoder"
	"github.com/gotrainer/gotrainer/models/llama"
	"github.com/gotrainer/gotrainer/models/lora"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/text/chat"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// newModel makes a small model of random weights, whose vocabulary is the words of texts. Programs
// name a model of the Hub in crossencoder.Load instead.
func newModel(dir string, texts ...string) *crossencoder.CrossEncoder {
	vocab := map[string]int64{}
	for _, word := range append([]string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}, strings.Fields(strings.Join(texts,
		" "))...) {
		if _, known := vocab[word]; !known {
			vocab[word] = int64(len(vocab))
		}
	}
	tok, err := text.NewBert(vocab, text.BertOptions{})
	check(err)
	check(tok.Save(dir))
	config := fmt.Sprintf(`{"model_type": "bert", "vocab_size": %d, "hidden_size": 32, "num_hidden_layers": 1,
		"num_attention_heads": 2, "intermediate_size": 64, "max_position_embeddings": 24, "initializer_range": 0.1}`, len(vocab))
	check(os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600))
	torch.ManualSeed(1)
	m, err := crossencoder.Load(context.Background(), dir, auto.Options{FromConfig: true})
	check(err)
	return m
}

// A model learns which answer belongs to which question, and then ranks the answers to a question.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "crossencoder")
	check(err)
	defer os.RemoveAll(dir) //nolint:errcheck // a scratch folder
	questions := []string{"where is my parcel", "how do i return shoes", "can i pay by card", "when do you open"}
	answers := []string{"your order is on its way", "send them back within a month", "we take visa and cash",
		"our shop is there from nine to five"}
	m := newModel(dir, append(questions, answers...)...)

	var pairs []crossencoder.Sample
	for i, question := range questions {
		for k, answer := range answers {
			pair := crossencoder.Sample{Query: question, Documents: []string{answer}, Labels: []float32{0}}
			if i == k {
				pair.Labels[0] = 1
			}
			pairs = append(pairs, pair)
		}
	}
	task, err := crossencoder.NewTask(m, crossencoder.TaskOptions{Loss: crossencoder.BinaryCrossEntropyLoss{PosWeight: 3}})
	check(err)
	step, err := engine.New(task, engine.Options{Optimizer: optim.AdamW{LR: 5e-3}})
	check(err)
	t, err := trainer.New(step, trainer.Options{Epochs: 60, Save: trainer.Never, Progress: io.Discard})
	check(err)
	_, err = t.Fit(ctx, data.Slice[crossencoder.Sample](pairs), nil)
	check(err)
	check(m.Save(filepath.Join(dir, "model"))) // for sentence-transformers, too

	m, err = crossencoder.Load(ctx, filepath.Join(dir, "model"), auto.Options{})
	check(err)
	ranking, err := m.Rank(ctx, questions[1], answers, crossencoder.RankOptions{TopK: 2})
	check(err)
	fmt.Println(ranking[0].Text)
	fmt.Println(ranking[0].Score > 0.5, ranking[1].Score > 0.5)
	// Output:
	// send them back within a month
	// true false
}

// Qwen3-Reranker is loaded and an adapter of it trained, in bf16. Prompts are its instructions.
func ExampleLoad() {
	ctx := context.Background()
	m, err := crossencoder.Load(ctx, "Qwen/Qwen3-Reranker-0.6B", auto.Options{DType: torch.BFloat16})
	check(err)
	check(m.AddLoRA(lora.Config{R: 16, Alpha: 32, TargetModules: []string{lora.AllLinear}}))
	m.SetGradientCheckpointing(true)
	m.MaxLength = 1024

	const instruction = "Given a question of a customer, find the answer of our shop"
	task, err := crossencoder.NewTask(m, crossencoder.TaskOptions{
		Loss: crossencoder.MultipleNegativesRankingLoss{ActivationFn: crossencoder.Identity, Scale: 1}, Prompt: instruction})
	check(err)
	step, err := engine.New(task, engine.Options{Optimizer: optim.AdamW{LR: 1e-4}})
	check(err)
	t, err := trainer.New(step, trainer.Options{OutputDir: "runs/reranker", Epochs: 1, BatchSize: 8})
	check(err)
	train := data.Slice[crossencoder.Sample]{{Query: "can i pay by card", Documents: []string{"we take visa and cash"}}}
	_, err = t.Fit(ctx, train, nil)
	check(err)

	m.Prompts, m.DefaultPromptName = map[string]string{"shop": instruction}, "shop"
	check(m.MergeLoRA())
	check(m.Save("runs/reranker/model")) // for sentence-transformers, too
	ranking, err := m.Rank(ctx, "do you ship abroad", []string{"we ship to all countries", "we take visa and cash"},
		crossencoder.RankOptions{})
	check(err)
	fmt.Println(ranking[0].Text)
}

// A small Llama of random weights learns to answer in words which document belongs to a query. Its
// chat template asks for the answer.
func ExampleNewWithLogitScore() {
	ctx := context.Background()
	tok, err := text.TrainByteLevel(slices.Values([]string{"yes", "no"}), text.TrainOptions{VocabSize: 270})
	check(err)
	torch.ManualSeed(1)
	lm, err := auto.NewCausalLM(llama.Config{VocabSize: int64(tok.VocabSize()), HiddenSize: 32, IntermediateSize: 64,
		NumLayers: 1, NumHeads: 4, MaxPositions: 64}, tok)
	check(err)
	lm.ChatTemplate, err = chat.Parse(`Does {{ messages[1].content }} suit {{ messages[0].content }}? `)
	check(err)
	words, err := crossencoder.LogitScoreOf(lm, "yes", "no")
	check(err)
	m, err := crossencoder.NewWithLogitScore(lm, words)
	check(err)

	documents := []string{"paw", "fin", "wing"}
	train := data.Slice[crossencoder.Sample]{{Query: "cat", Documents: documents, Labels: []float32{1, 0, 0}},
		{Query: "fish", Documents: documents, Labels: []float32{0, 1, 0}},
		{Query: "owl", Documents: documents, Labels: []float32{0, 0, 1}}}
	task, err := crossencoder.NewTask(m, crossencoder.TaskOptions{Loss: crossencoder.ListNetLoss{}})
	check(err)
	step, err := engine.New(task, engine.Options{Optimizer: optim.AdamW{LR: 5e-3}})
	check(err)
	t, err := trainer.New(step, trainer.Options{Epochs: 60, BatchSize: 3, Save: trainer.Never, Progress: io.Discard})
	check(err)
	_, err = t.Fit(ctx, train, nil)
	check(err)
	ranking, err := m.Rank(ctx, "fish", documents, crossencoder.RankOptions{TopK: 1})
	check(err)
	fmt.Println(ranking[0].Text)
	// Output:
	// fin
}
