package llava_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/causallm"
	"github.com/gotrainer/gotrainer/models/clip"
	"github.com/gotrainer/gotrainer/models/llama"
	"github.com/gotrainer/gotrainer/models/llava"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/text/chat"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/vision"
)

// A small LLaVA with random weights learns to name the colour of an image, and is saved and loaded
// again. With files, auto.ImageTextToText takes the place of the first half, and FreezeVisionTower or
// AddLoRA usually comes before Task.
func Example() {
	ctx := context.Background()
	tok, err := text.TrainByteLevel(slices.Values([]string{"user: assistant: which colour is this? red green blue"}),
		text.TrainOptions{VocabSize: 300, SpecialTokens: []string{"<pad>", "<s>", "</s>", "<image>"}})
	check(err)
	template, err := chat.Parse("{% for m in messages %}{{ m.role }}: {% for part in m.content %}" +
		"{{ '<image>' if part.type == 'image' else part.text }}{% endfor %}" +
		"{{ '</s>' if m.role == 'assistant' else ' ' }}{% endfor %}" +
		"{% if add_generation_prompt %}assistant: {% endif %}")
	check(err)
	template.SpecialTokens = map[string]string{"eos_token": "</s>"}
	processor, err := vision.NewProcessor(vision.ProcessorOptions{Width: 8, Height: 8, Rescale: 1 / 255., Float32: true,
		Mean: []float64{0.5, 0.5, 0.5}, Std: []float64{0.5, 0.5, 0.5}})
	check(err)
	torch.ManualSeed(1)
	m, err := auto.NewImageTextToText(llava.Config{
		Vision: clip.VisionConfig{ImageSize: 8, PatchSize: 4,
			Layers: clip.Layers{HiddenSize: 16, NumLayers: 2, NumHeads: 2, IntermediateSize: 32}},
		Text: llama.Config{VocabSize: int64(tok.VocabSize()), HiddenSize: 32, NumLayers: 2, NumHeads: 4,
			IntermediateSize: 64, MaxPositions: 64, EOSTokenIDs: []int64{2}},
		ImageTokenIndex: 3,
	}, processor, tok)
	check(err)
	m.ChatTemplate = template

	colours := map[string][3]uint8{"red": {200, 20, 20}, "green": {20, 200, 20}, "blue": {20, 20, 200}}
	names := slices.Sorted(maps.Keys(colours))
	paint := func(name string, brighter int) *vision.Image {
		im := vision.NewImage(8, 8, 3)
		for i := range im.Pix {
			im.Pix[i] = colours[name][i%3] + uint8(brighter)
		}
		return im
	}
	question := chat.User("which colour is this?")
	numbers := make(data.Slice[int], 60)
	for i := range numbers {
		numbers[i] = i
	}
	samples := data.Map(numbers, func(i int) (causallm.ImageSample, error) { // on the loader's goroutines
		name := names[i%3]
		return m.EncodeChat(chat.Conversation{Messages: []chat.Message{question, chat.Assistant(name)}}, paint(name, i%50))
	})

	write, err := m.Writer(auto.Generation{MaxNewTokens: 6})
	check(err)
	task, err := causallm.NewImageTask(m, causallm.ImageTaskOptions{Write: write,
		Metrics: []metrics.Metric[string]{&metrics.ExactMatch{}}})
	check(err)
	step, err := engine.New(task, engine.Options{Optimizer: optim.AdamW{LR: 5e-3}})
	check(err)
	dir, err := os.MkdirTemp("", "llava")
	check(err)
	defer os.RemoveAll(dir)
	t, err := trainer.New(step, trainer.Options{OutputDir: dir, Epochs: 10, BatchSize: 6, Progress: io.Discard,
		Eval: trainer.Every(10, trainer.Epoch), Save: trainer.Never})
	check(err)
	result, err := t.Fit(ctx, samples, samples)
	check(err)
	for _, row := range result.History {
		if match, ok := row["eval_exact_match"]; ok {
			fmt.Println("exact match:", match)
		}
	}
	check(m.Save(dir))
	again, err := auto.ImageTextToText(ctx, dir, auto.Options{})
	check(err)
	answer, err := again.Chat(ctx, chat.Conversation{Messages: []chat.Message{question}},
		auto.Generation{MaxNewTokens: 6}, paint("green", 7))
	check(err)
	fmt.Println(strings.TrimSpace(answer))
	// Output:
	// exact match: 1
	// green
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
