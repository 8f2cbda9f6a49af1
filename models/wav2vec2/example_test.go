package wav2vec2_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/audio"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/ctc"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/models/wav2vec2"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// A small Wav2Vec2 with random weights learns to write down the notes of melodies, letter by
// letter, and is saved and loaded again. Evaluations compare what it writes about melodies that it
// has not heard.
func Example() {
	ctx := context.Background()
	tokens := text.CTCOptions{BOSToken: new(""), EOSToken: new("")}
	tok, err := text.NewCTCTokenizer(text.CTCVocabulary(slices.Values(names), tokens), tokens)
	check(err)
	blank, _ := tok.TokenToID("<pad>")
	extractor, err := audio.NewWaveformExtractor(audio.WaveformOptions{SamplingRate: 2000})
	check(err)
	torch.ManualSeed(1)
	config := small
	config.VocabSize, config.PadTokenID, config.CTCLossReduction = int64(tok.VocabSize()), &blank, ctc.Mean
	m, err := auto.NewCTC(config, extractor, tok)
	check(err)
	step, err := engine.New(m.Task(), engine.Options{Optimizer: optim.AdamW{LR: 5e-3}})
	check(err)
	dir, err := os.MkdirTemp("", "wav2vec2")
	check(err)
	defer os.RemoveAll(dir)
	t, err := trainer.New(step, trainer.Options{OutputDir: dir, Epochs: 40, BatchSize: 8, Progress: io.Discard,
		Eval: trainer.Every(10, trainer.Epoch), Save: trainer.Never})
	check(err)
	var melodies []string
	for i := range 64 {
		melodies = append(melodies, strings.Join([]string{names[i/16], names[i/4%4], names[i%4]}, " "))
	}
	train, held, err := data.Split(data.Map(data.Slice[string](melodies), func(s string) (ctc.Sample, error) {
		return m.Encode(play(s), s) // m.EncodeFile for a file; either happens while batches are loaded
	}), 0.9, 1)
	check(err)
	_, err = t.Fit(ctx, train, held)
	check(err)
	evaluated, err := t.Evaluate(ctx, held)
	check(err)
	fmt.Println("wrong notes below 20 %:", evaluated["wer"] < 0.2)

	check(m.Save(dir))
	m, err = auto.CTC(ctx, dir, auto.Options{})
	check(err)
	heard, err := m.Transcribe(play("sol do mi"))
	check(err)
	fmt.Println(heard.Text)
	// Output:
	// wrong notes below 20 %: true
	// sol do mi
}

// A small Wav2Vec2 with random weights learns to tell notes apart.
func Example_classification() {
	ctx := context.Background()
	extractor, err := audio.NewWaveformExtractor(audio.WaveformOptions{SamplingRate: 2000})
	check(err)
	torch.ManualSeed(1)
	config := small
	config.ID2Label = names
	m, err := auto.NewAudioClassification(config, extractor)
	check(err)
	step, err := engine.New(m.Task(), engine.Options{Optimizer: optim.AdamW{LR: 5e-3}})
	check(err)
	dir, err := os.MkdirTemp("", "wav2vec2")
	check(err)
	defer os.RemoveAll(dir)
	t, err := trainer.New(step, trainer.Options{OutputDir: dir, Epochs: 10, BatchSize: 8, Progress: io.Discard,
		Save: trainer.Never})
	check(err)
	train := data.Map(data.Slice[int](slices.Repeat([]int{0, 1, 2, 3}, 16)), func(i int) (classify.AudioSample, error) {
		return m.Encode(play(names[i]), int64(i))
	})
	_, err = t.Fit(ctx, train, nil)
	check(err)

	check(m.Save(dir))
	m, err = auto.AudioClassification(ctx, dir, auto.Options{})
	check(err)
	classes, err := m.Predict(play("mi"))
	check(err)
	fmt.Println(classes[0].Label)
	// Output: mi
}

// small is a model of one layer, whose frames are 20 milliseconds at 2000 samples in a second.
var small = wav2vec2.Config{HiddenSize: 32, NumLayers: 1, NumHeads: 4, IntermediateSize: 64, ConvDim: []int64{32, 32},
	ConvKernel: []int64{10, 8}, ConvStride: []int64{5, 8}, NumConvPosEmbeddings: 8, NumConvPosEmbeddingGroups: 4,
	Layerdrop: new(0.0), SpecAugment: transformer.SpecAugment{MaskTimeLength: 2}, ClassifierProjSize: 16}

// names are the notes, and pitches their frequencies in Hz.
var (
	names   = []string{"do", "mi", "sol", "ti"}
	pitches = []float64{261.6, 329.6, 392.0, 493.9}
)

// play returns the sound of a melody: 0.3 seconds of each note.
func play(melody string) *audio.Audio {
	a := &audio.Audio{Rate: 8000}
	for note := range strings.FieldsSeq(melody) {
		pitch := pitches[slices.Index(names, note)]
		for i := range a.Rate * 3 / 10 {
			a.Samples = append(a.Samples, float32(0.5*math.Sin(2*math.Pi*pitch*float64(i)/float64(a.Rate))))
		}
	}
	return a
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
