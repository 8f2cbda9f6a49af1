package trocr_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/seq2seq"
	"github.com/gotrainer/gotrainer/models/trocr"
	"github.com/gotrainer/gotrainer/models/vit"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/vision"
)

// A small TrOCR with random weights learns to read number plates of three digits, and is saved and
// loaded again. Evaluations have it read the plates that it has not seen.
func Example() {
	ctx := context.Background()
	tok, err := text.TrainByteLevel(slices.Values([]string{"0123456789"}), text.TrainOptions{VocabSize: 260,
		SpecialTokens: []string{"<s>", "<pad>", "</s>"}})
	check(err)
	processor, err := vision.NewProcessor(vision.ProcessorOptions{Width: 24, Height: 8, Rescale: 1 / 255., Float32: true,
		Mean: []float64{0.5}, Std: []float64{0.5}})
	check(err)
	torch.ManualSeed(1)
	m, err := auto.NewImageToText(trocr.Config{
		Encoder: vit.Config{ImageSize: vit.Size{Height: 8, Width: 24}, PatchSize: vit.Size{Height: 8, Width: 8},
			HiddenSize: 32, NumLayers: 2, NumHeads: 4, IntermediateSize: 64},
		VocabSize: int64(tok.VocabSize()), HiddenSize: 32, NumLayers: 2, NumHeads: 4, FFNDim: 64, MaxPositions: 8,
		Dropout: new(0.0),
	}, processor, tok)
	check(err)

	write, err := m.Writer(auto.Generation{MaxNewTokens: 5})
	check(err)
	task, err := seq2seq.NewImageTask(m, seq2seq.ImageTaskOptions{Write: write,
		Metrics: []metrics.Metric[string]{&metrics.CER{}, &metrics.ExactMatch{}}})
	check(err)
	step, err := engine.New(task, engine.Options{Optimizer: optim.AdamW{LR: 5e-3}})
	check(err)
	dir, err := os.MkdirTemp("", "trocr")
	check(err)
	defer os.RemoveAll(dir)
	t, err := trainer.New(step, trainer.Options{OutputDir: dir, Epochs: 20, BatchSize: 16, Progress: io.Discard,
		Eval: trainer.Every(5, trainer.Epoch), Save: trainer.Never})
	check(err)
	plates := make([]string, 600)
	for i := range plates {
		plates[i] = fmt.Sprintf("%03d", i)
	}
	train, held, err := data.Split(data.Map(data.Slice[string](plates), func(plate string) (seq2seq.ImageSample, error) {
		return m.Encode(draw(plate), plate) // m.EncodeFile for a file; either happens while batches are loaded
	}), 0.9, 1)
	check(err)
	_, err = t.Fit(ctx, train, held)
	check(err)
	evaluated, err := t.Evaluate(ctx, held)
	check(err)
	fmt.Println("wrong characters below 5 %:", evaluated["cer"] < 0.05)

	check(m.Save(dir))
	m, err = auto.ImageToText(ctx, dir, auto.Options{})
	check(err)
	written, err := m.Generate(ctx, draw("407"), auto.Generation{})
	check(err)
	fmt.Println(written)
	// Output:
	// wrong characters below 5 %: true
	// 407
}

// digits are the ten digits in 3x5 pixels.
var digits = strings.Fields(`
	### .#. ### ### #.# ### ### ### ### ###
	#.# ##. ..# ..# #.# #.. #.. ..# #.# #.#
	#.# .#. ### .## ### ### ### .#. ### ###
	#.# .#. #.. ..# ..# ..# #.# .#. #.# ..#
	### ### ### ### ..# ### ### .#. ### ###`)

// draw returns a picture of a plate.
func draw(plate string) *vision.Image {
	im := vision.NewImage(24, 8, 3)
	for i, digit := range plate {
		for y := range 5 {
			for x, pixel := range digits[10*y+int(digit-'0')] {
				if pixel == '#' {
					at := 3 * (24*(y+1) + 8*i + 2 + x)
					for channel := range 3 {
						im.Pix[at+channel] = 255
					}
				}
			}
		}
	}
	return im
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
