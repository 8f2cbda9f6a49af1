package whisper_test

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
	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/seq2seq"
	"github.com/gotrainer/gotrainer/models/whisper"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// A small Whisper with random weights learns to write down the notes of melodies, and is saved and
// loaded again. Evaluations have it write down melodies that it has not heard.
func Example() {
	ctx := context.Background()
	tok, err := text.TrainByteLevel(slices.Values(names), text.TrainOptions{VocabSize: 280,
		SpecialTokens: []string{"<|endoftext|>", "<|startoftranscript|>"}})
	check(err)
	extractor, err := audio.NewFeatureExtractor(audio.FeatureExtractorOptions{FeatureSize: 16, SamplingRate: 4000,
		HopLength: 100, NFFT: 256, ChunkLength: 1})
	check(err)
	torch.ManualSeed(1)
	m, err := auto.NewSpeechToText(whisper.Config{VocabSize: int64(tok.VocabSize()), NumMelBins: 16, HiddenSize: 32,
		EncoderLayers: 1, DecoderLayers: 1, EncoderAttentionHeads: 4, DecoderAttentionHeads: 4, EncoderFFNDim: 64,
		DecoderFFNDim: 64, MaxSourcePositions: 20, MaxTargetPositions: 12, PadTokenID: new(int64(0)),
		EOSTokenIDs: []int64{0}, DecoderStartTokenID: new(int64(1)), BeginSuppressTokens: []int64{}}, extractor, tok)
	check(err)

	write, err := m.Writer(auto.Generation{MaxNewTokens: 8})
	check(err)
	task, err := seq2seq.NewSpeechTask(m, seq2seq.SpeechTaskOptions{Write: write,
		Metrics: []metrics.Metric[string]{&metrics.WER{}}})
	check(err)
	step, err := engine.New(task, engine.Options{Optimizer: optim.AdamW{LR: 3e-3}})
	check(err)
	dir, err := os.MkdirTemp("", "whisper")
	check(err)
	defer os.RemoveAll(dir)
	t, err := trainer.New(step, trainer.Options{OutputDir: dir, Epochs: 60, BatchSize: 8, Progress: io.Discard,
		Eval: trainer.Every(10, trainer.Epoch), Save: trainer.Never})
	check(err)
	var melodies []string
	for i := range 64 {
		melodies = append(melodies, strings.Join([]string{names[i/16], names[i/4%4], names[i%4]}, " "))
	}
	train, held, err := data.Split(data.Map(data.Slice[string](melodies), func(s string) (seq2seq.SpeechSample, error) {
		return m.Encode(play(s), s) // m.EncodeFile for a file; either happens while batches are loaded
	}), 0.9, 1)
	check(err)
	_, err = t.Fit(ctx, train, held)
	check(err)
	evaluated, err := t.Evaluate(ctx, held)
	check(err)
	fmt.Println("wrong notes below 20 %:", evaluated["wer"] < 0.2)

	check(m.Save(dir))
	m, err = auto.SpeechToText(ctx, dir, auto.Options{})
	check(err)
	written, err := m.Generate(ctx, play("sol do mi"), auto.Generation{})
	check(err)
	fmt.Println(written)
	// Output:
	// wrong notes below 20 %: true
	// sol do mi
}

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
