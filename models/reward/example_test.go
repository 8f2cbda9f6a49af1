package reward_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"slices"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/gpt2"
	"github.com/gotrainer/gotrainer/models/reward"
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

// A model learns that polite answers are better, and then says which of two new ones is.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "reward")
	check(err)
	defer os.RemoveAll(dir) //nolint:errcheck // a scratch folder
	polite, rude := []string{" with pleasure", " thank you", " you are welcome"}, []string{" no", " go away", " not now"}
	var preferences []chat.Preference // programs read them: chat.ReadPreferencesFile
	var texts []string
	for _, question := range []string{"may i come in", "help me please", "where is the station", "i have a question"} {
		for i := range polite {
			p := chat.Preference{Prompt: chat.Content{Text: question}, Chosen: chat.Content{Text: polite[i]},
				Rejected: chat.Content{Text: rude[i]}}
			preferences = append(preferences, p)
			texts = append(texts, question+polite[i], question+rude[i])
		}
	}

	// A small GPT-2 of random weights. Programs name a model in auto.RewardModel instead.
	tok, err := text.TrainByteLevel(slices.Values(texts), text.TrainOptions{VocabSize: 320})
	check(err)
	end, _ := tok.TokenToID("<|endoftext|>")
	torch.ManualSeed(1)
	m, err := auto.NewSequenceClassification(gpt2.Config{VocabSize: int64(tok.VocabSize()), MaxPositions: 32,
		HiddenSize: 32, NumLayers: 1, NumHeads: 2, EOSTokenIDs: []int64{end}}, classify.Head{NumLabels: 1}, tok)
	check(err)

	task, err := m.RewardTask(reward.TaskOptions{})
	check(err)
	step, err := engine.New(task, engine.Options{Optimizer: optim.AdamW{LR: 5e-3}})
	check(err)
	t, err := trainer.New(step, trainer.Options{Epochs: 10, Save: trainer.Never, Progress: io.Discard})
	check(err)
	train := data.Map(data.Slice[chat.Preference](preferences), m.EncodePreference)
	result, err := t.Fit(ctx, train, train)
	check(err)
	fmt.Printf("accuracy %.2f\n", result.Best.Metrics["eval_accuracy"])
	check(m.Save(filepath.Join(dir, "model"))) // for AutoModelForSequenceClassification, too

	m, err = auto.RewardModel(ctx, filepath.Join(dir, "model"), auto.Options{})
	check(err)
	rewards, err := m.Score(ctx, []string{"may i have a question thank you", "may i have a question go away"})
	check(err)
	fmt.Println("the polite answer is better:", rewards[0] > rewards[1])
	// Output:
	// accuracy 1.00
	// the polite answer is better: true
}
