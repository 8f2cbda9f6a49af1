package contrastive_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/clip"
	"github.com/gotrainer/gotrainer/models/contrastive"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/vision"
)

var colors = map[string][3]uint8{"red": {200, 30, 30}, "green": {30, 180, 30}, "blue": {30, 30, 200},
	"white": {230, 230, 230}}

// paint makes an image of a color, with noise.
func paint(color string, random *rand.Rand) *vision.Image {
	im := &vision.Image{Width: 16, Height: 16, Channels: 3}
	for range im.Width * im.Height {
		for _, value := range colors[color] {
			im.Pix = append(im.Pix, value+uint8(random.IntN(25)))
		}
	}
	return im
}

// A small CLIP of random weights learns what colors are called. Programs name a model of the Hub in
// auto.ZeroShotImageClassification instead.
func Example() {
	ctx := context.Background()
	names := slices.Sorted(maps.Keys(colors))
	tok, err := text.TrainByteLevel(slices.Values(names), text.TrainOptions{VocabSize: 300,
		SpecialTokens: []string{"<|endoftext|>"}})
	check(err)
	processor, err := vision.NewProcessor(vision.ProcessorOptions{Rescale: 1. / 255, Mean: []float64{0.5},
		Std: []float64{0.5}, Float32: true})
	check(err)
	torch.ManualSeed(1)
	layers := clip.Layers{HiddenSize: 32, IntermediateSize: 64, NumLayers: 1, NumHeads: 4}
	m, err := auto.NewZeroShotImageClassification(clip.Config{ProjectionDim: 16,
		Text: clip.TextConfig{Layers: layers, VocabSize: int64(tok.VocabSize()), MaxPositions: 16,
			EOSTokenID: new(int64(0))},
		Vision: clip.VisionConfig{Layers: layers, ImageSize: 16, PatchSize: 8}}, tok, processor)
	check(err)

	random := rand.New(rand.NewPCG(1, 2))
	var pairs []contrastive.Sample
	for range 20 { // batches of four, in order: no color is twice in a batch
		for _, name := range names {
			pair, err := m.Encode(paint(name, random), "the color "+name)
			check(err)
			pairs = append(pairs, pair)
		}
	}
	step, err := engine.New(m.Task(), engine.Options{Optimizer: optim.AdamW{LR: 3e-3}})
	check(err)
	t, err := trainer.New(step, trainer.Options{Epochs: 4, BatchSize: 4, Order: data.Sequential{}, Save: trainer.Never,
		Progress: io.Discard})
	check(err)
	_, err = t.Fit(ctx, data.Slice[contrastive.Sample](pairs), nil)
	check(err)
	dir, err := os.MkdirTemp("", "clip")
	check(err)
	defer os.RemoveAll(dir)
	check(m.Save(filepath.Join(dir, "model"))) // for CLIPModel of transformers, too

	m, err = auto.ZeroShotImageClassification(ctx, filepath.Join(dir, "model"), auto.Options{})
	check(err)
	classes, err := m.Predict(paint("blue", random), names, auto.ZeroShotOptions{HypothesisTemplate: "the color {}"})
	check(err)
	fmt.Println(classes[0].Label, classes[0].Score > 0.9)
	// Output: blue true
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
