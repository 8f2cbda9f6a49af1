package auto_test

import (
	"bytes"
	"context"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/audio"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/ctc"
	"github.com/gotrainer/gotrainer/models/lora"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/models/wav2vec2"
	"github.com/gotrainer/gotrainer/models/whisper"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/quantized"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// hearing is a small model for sound of 2000 samples in a second, with frames of 20 milliseconds.
func hearing() wav2vec2.Config {
	return wav2vec2.Config{HiddenSize: 24, NumLayers: 1, NumHeads: 4, IntermediateSize: 32, ConvDim: []int64{24, 24},
		ConvKernel: []int64{10, 8}, ConvStride: []int64{5, 8}, NumConvPosEmbeddings: 8, NumConvPosEmbeddingGroups: 4,
		Layerdrop: new(0.0), SpecAugment: transformer.SpecAugment{MaskTimeLength: 2}, ClassifierProjSize: 16}
}

// letterTokens are those of small tokenizers of CTC.
var letterTokens = text.CTCOptions{PadToken: "[PAD]", UnkToken: "[UNK]", BOSToken: new(""), EOSToken: new("")}

func ctcTokenizer(t *testing.T, texts ...string) *text.CTCTokenizer {
	t.Helper()
	tok, err := text.NewCTCTokenizer(text.CTCVocabulary(slices.Values(texts), letterTokens), letterTokens)
	require.NoError(t, err)
	return tok
}

func waveforms(t *testing.T) *audio.WaveformExtractor {
	t.Helper()
	e, err := audio.NewWaveformExtractor(audio.WaveformOptions{SamplingRate: 2000, ReturnAttentionMask: true})
	require.NoError(t, err)
	return e
}

// twoTones is half a second of a low tone and one of a high tone, or the other way round, and what
// models of CTC write down about them.
func twoTones(kind, phase, rate int) (a *audio.Audio, written string) {
	a = tone(kind, phase, rate)
	a.Samples = append(a.Samples, tone(1-kind, phase, rate).Samples...)
	return a, []string{"o i", "i o"}[kind]
}

// lettered makes a small model that is to write down tones.
func lettered(t *testing.T) *auto.CTCModel {
	t.Helper()
	testenv.RequireTorch(t)
	tok, c := ctcTokenizer(t, "o i"), hearing()
	blank, _ := tok.TokenToID("[PAD]")
	c.VocabSize, c.PadTokenID, c.CTCLossReduction = int64(tok.VocabSize()), &blank, ctc.Mean
	torch.ManualSeed(3)
	m, err := auto.NewCTC(c, waveforms(t), tok)
	require.NoError(t, err)
	return m
}

// fitted trains a task for some epochs and returns the folder of its checkpoints and the numbers of
// the last evaluation.
func fitted[S, B any](t *testing.T, task engine.Task[S, B], samples []S, epochs int) (dir string, last trainer.Logs) {
	t.Helper()
	step, err := engine.New(task, engine.Options{Optimizer: optim.AdamW{LR: 5e-3}})
	require.NoError(t, err)
	dir = t.TempDir()
	fit, err := trainer.New(step, trainer.Options{Epochs: float64(epochs), BatchSize: 8, EvalBatchSize: 1,
		OutputDir: dir, Progress: io.Discard,
		Save: trainer.Every(epochs, trainer.Epoch), Eval: trainer.Every(epochs, trainer.Epoch)})
	require.NoError(t, err)
	set := data.Slice[S](samples)
	result, err := fit.Fit(t.Context(), set, set)
	require.NoError(t, err)
	return dir, result.History[len(result.History)-2] // the entry before that of the whole run
}

// TestAModelOfCTCIsTrainedSavedAndLoaded checks that evaluations score what the model writes, that
// checkpoints and the output of Save are complete, and that a WAV file is written down with times.
func TestAModelOfCTCIsTrainedSavedAndLoaded(t *testing.T) {
	m := lettered(t)
	require.NoError(t, m.FreezeFeatureEncoder())
	for _, p := range nn.Params(m) {
		frozen, _ := filepath.Match("wav2vec2.feature_extractor.*", p.Name)
		assert.NotEqual(t, frozen, p.Tensor.NeedsGrad(), p.Name)
	}
	require.NoError(t, nn.Unfreeze(m))
	var samples []ctc.Sample
	var sounds []*audio.Audio
	for i := range 24 {
		a, written := twoTones(i%2, i, 2000)
		a.Samples = a.Samples[10*i:]
		s, err := m.Encode(a, written)
		require.NoError(t, err)
		assert.Equal(t, written, s.Target)
		samples, sounds = append(samples, s), append(sounds, a)
	}
	out, last := fitted(t, m.Task(), samples, 2)
	nn.SetTraining(m, false)
	var wer metrics.WER
	var cer metrics.CER
	for i, a := range sounds {
		heard, err := m.Transcribe(a)
		require.NoError(t, err)
		wer.Add(heard.Text, samples[i].Target)
		cer.Add(heard.Text, samples[i].Target)
	}
	for name, want := range map[string]float64{"eval_wer": wer.Result()["wer"], "eval_cer": cer.Result()["cer"]} {
		assert.Equal(t, want, last[name], name)
	}
	names := []string{"preprocessor_config.json", "vocab.json", "tokenizer_config.json", "config.json",
		"model.safetensors"}
	for _, name := range names {
		found, err := filepath.Glob(filepath.Join(out, "checkpoint-*", name))
		require.NoError(t, err)
		assert.NotEmpty(t, found, name)
	}

	state := nn.StateDict(m) // a model that always hears an i
	id, _ := m.CTCTokenizer.TokenToID("i")
	torch.NoGrad(func() { state[len(state)-1].Tensor.Select(0, id).AddScalar_(100.0) })
	first, second := t.TempDir(), t.TempDir()
	require.NoError(t, m.Save(first))
	again, err := auto.CTC(t.Context(), first, auto.Options{Warnings: io.Discard})
	require.NoError(t, err)
	require.NoError(t, again.Save(second))
	for _, name := range names {
		want, err := os.ReadFile(filepath.Join(first, name))
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(second, name))
		require.NoError(t, err)
		assert.True(t, bytes.Equal(want, got), name)
	}
	path := filepath.Join(t.TempDir(), "tones.wav")
	a, written := twoTones(1, 3, 4000)
	writeTone(t, path, a)
	heard, err := again.TranscribeFile(path)
	require.NoError(t, err)
	letter := []auto.TimedText{{Text: "i", End: 49 * 20 * time.Millisecond}}
	assert.Equal(t, auto.Transcription{Text: "i", Words: letter, Letters: letter}, heard)
	sample, err := again.EncodeFile(path, written)
	require.NoError(t, err)
	assert.Len(t, sample.Values, 2000)
}

// TestASoundClassifierIsTrainedSavedAndLoaded checks that evaluations count right answers, and that
// a WAV file is classified.
func TestASoundClassifierIsTrainedSavedAndLoaded(t *testing.T) {
	testenv.RequireTorch(t)
	c := hearing()
	c.ID2Label, c.UseWeightedLayerSum = tones, true
	torch.ManualSeed(3)
	m, err := auto.NewAudioClassification(c, waveforms(t))
	require.NoError(t, err)
	var samples []classify.AudioSample
	for i := range 24 {
		a := tone(i%2, i, 2000)
		a.Samples = a.Samples[:600+10*i]
		s, err := m.Encode(a, int64(i%2))
		require.NoError(t, err)
		samples = append(samples, s)
	}
	_, last := fitted(t, m.Task(), samples, 8)
	assert.InDelta(t, 1, last["eval_accuracy"], 0, "%v", last)
	dir := t.TempDir()
	require.NoError(t, m.Save(dir))
	again, err := auto.AudioClassification(t.Context(), dir, auto.Options{Warnings: io.Discard})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "low.wav")
	writeTone(t, path, tone(0, 3, 4000))
	classes, err := again.PredictFile(path)
	require.NoError(t, err)
	require.Len(t, classes, 2)
	assert.Equal(t, "low", classes[0].Label)
	assert.InDelta(t, 1, classes[0].Score+classes[1].Score, 1e-6)
	sample, err := again.EncodeFile(path, 1)
	require.NoError(t, err)
	assert.EqualValues(t, 1, sample.Label)

	_, err = auto.AudioClassification(t.Context(), dir, auto.Options{ID2Label: []string{"a", "b", "c"}})
	require.ErrorContains(t, err, "InitMismatched")
	other, err := auto.AudioClassification(t.Context(), dir, auto.Options{ID2Label: []string{"a", "b", "c"},
		InitMismatched: true, Warnings: io.Discard})
	require.NoError(t, err)
	assert.EqualValues(t, 3, other.Head().NumLabels)
}

// TestAModelOfCTCGetsOtherLetters: as run_speech_recognition_ctc.py gives a model a vocabulary that
// it has not learned, with an adapter beside the new layer.
func TestAModelOfCTCGetsOtherLetters(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, lettered(t).Save(dir))
	tok := ctcTokenizer(t, "a longer text, with more letters")
	_, err := auto.CTC(t.Context(), dir, auto.Options{CTCTokenizer: tok, Warnings: io.Discard})
	require.ErrorContains(t, err, "lm_head.weight has shape")
	m, err := auto.CTC(t.Context(), dir, auto.Options{CTCTokenizer: tok, InitMismatched: true, Warnings: io.Discard})
	require.NoError(t, err)
	assert.EqualValues(t, tok.VocabSize(), m.CTC().Classes)
	assert.EqualValues(t, tok.VocabSize()-1, m.CTC().Blank)
	require.NoError(t, m.AddLoRA(lora.Config{R: 2, TargetModules: []string{"q_proj", "v_proj"}}))
	adapted := t.TempDir()
	require.NoError(t, m.Save(adapted))
	again, err := auto.CTC(t.Context(), adapted, auto.Options{CTCTokenizer: tok, BaseModel: dir, Warnings: io.Discard})
	require.NoError(t, err)
	want, err := m.Encode(tone(0, 0, 2000), "text")
	require.NoError(t, err)
	got, err := again.Encode(tone(0, 0, 2000), "text")
	require.NoError(t, err)
	assert.Equal(t, want, got)
	_, err = m.Encode(tone(0, 0, 2000), "TexT")
	require.ErrorContains(t, err, `auto: "TexT" has the letters ["T"], which the tokenizer does not know`)
	nn.SetTraining(m, false)
	frames, err := m.TranscribeValues(want.Waveform)
	require.NoError(t, err)
	adaptedFrames, err := again.TranscribeValues(want.Waveform)
	require.NoError(t, err)
	assert.Equal(t, frames, adaptedFrames)
}

// seeded records the seeds that a task is given.
type seeded struct {
	*ctc.Task
	seeds *[]uint64
}

func (s seeded) TakeSeed(seed uint64) {
	*s.seeds = append(*s.seeds, seed)
	s.Task.TakeSeed(seed)
}

// TestMasksContinueInACheckpoint: masks begin with the seed of the run, and a run that resumes
// draws the masks that the whole run does.
func TestMasksContinueInACheckpoint(t *testing.T) {
	var samples []ctc.Sample
	for i := range 8 {
		s, err := lettered(t).Encode(twoTones(i%2, i, 2000))
		require.NoError(t, err)
		samples = append(samples, s)
	}
	dir := t.TempDir()
	train := func(steps int, resume bool) []torch.Named {
		m := lettered(t)
		var seeds []uint64
		step, err := engine.New(seeded{m.Task(), &seeds}, engine.Options{Optimizer: optim.AdamW{LR: 0.01}})
		require.NoError(t, err)
		o := trainer.Options{MaxSteps: steps, BatchSize: 4, OutputDir: dir, Progress: io.Discard, Seed: 5,
			Save: trainer.Every(3, trainer.Update)}
		if resume {
			o.ResumeFrom = filepath.Join(dir, "checkpoint-3")
		}
		fit, err := trainer.New(step, o)
		require.NoError(t, err)
		_, err = fit.Fit(t.Context(), data.Slice[ctc.Sample](samples), nil)
		require.NoError(t, err)
		assert.Contains(t, seeds, uint64(5))
		return nn.StateDict(m)
	}
	whole := train(6, false)
	resumed := train(6, true)
	for i, s := range whole {
		assert.True(t, s.Tensor.Equal(resumed[i].Tensor), s.Name)
	}
}

// TestModelsOfSoundRefuseWhatTheyCannotDo names what is missing or in the wrong place.
func TestModelsOfSoundRefuseWhatTheyCannotDo(t *testing.T) {
	m := lettered(t)
	dir := t.TempDir()
	require.NoError(t, m.Save(dir))
	ctx := context.Background()
	_, err := auto.CTC(ctx, dir, auto.Options{Quantize: &quantized.Config{}})
	require.ErrorContains(t, err, "Options.Quantize is set; want nil")
	_, err = auto.AudioClassification(ctx, dir, auto.Options{Quantize: &quantized.Config{}})
	require.ErrorContains(t, err, "Options.Quantize is set; want nil")
	_, err = auto.AudioClassification(ctx, dir, auto.Options{CTCTokenizer: m.CTCTokenizer})
	require.ErrorContains(t, err, "Options.CTCTokenizer is set; want nil, except for CTC")
	_, err = auto.SpeechToText(ctx, dir, auto.Options{})
	require.ErrorContains(t, err, `model_type is "wav2vec2"; want one of ["whisper"]`)
	_, err = auto.NewCTC(whisper.Config{}, nil, nil)
	require.ErrorContains(t, err, "a Whisper is not for ForCTC of sound")
	_, err = auto.NewCTC(hearing(), nil, ctcTokenizer(t, "more than 32: abcdefghijklmnopqrstuvwxyz0123456789"))
	require.ErrorContains(t, err, "letters, and its [PAD] has the id")
	err = torch.Try(func() { m.Model.Forward(torch.Zeros(1, 100), torch.Tensor{}, torch.Tensor{}) })
	require.ErrorContains(t, err, "Wav2Vec2ForCTC takes sound: CTCModel.Forward")
	_, err = m.Encode(&audio.Audio{Rate: 2000}, "o")
	require.ErrorContains(t, err, "the sound has no samples")
	_, err = m.Transcribe(&audio.Audio{Rate: 2000, Samples: make([]float32, 5)})
	require.ErrorContains(t, err, "Values has 5 samples; the model takes at least 45")
	require.ErrorContains(t, heardOf(t).FreezeFeatureEncoder(), "has no feature encoder")

	for _, name := range []string{"vocab.json", "preprocessor_config.json"} {
		require.NoError(t, os.Remove(filepath.Join(dir, name)))
	}
	var warnings bytes.Buffer
	bare, err := auto.CTC(ctx, dir, auto.Options{Warnings: &warnings})
	require.NoError(t, err)
	assert.Contains(t, warnings.String(), "the model takes samples, but no sound")
	assert.Contains(t, warnings.String(), "has no tokenizer: the model gives ids of letters")
	_, err = bare.Transcribe(tone(0, 0, 2000))
	require.ErrorContains(t, err, "has no vocab.json beside the weights; set Model.CTCTokenizer")
	bare.CTCTokenizer = m.CTCTokenizer
	_, err = bare.Transcribe(tone(0, 0, 2000))
	require.ErrorContains(t, err, "has no preprocessor_config.json beside the weights; set Model.WaveformExtractor")
	assert.False(t, bare.WaveformLimits().Masked, "as its group norm says")

	step := func(o engine.Options) error {
		_, err := engine.New(m.Task(), o)
		return err
	}
	require.ErrorContains(t, step(engine.Options{LabelSmoothing: 0.1}), "LabelSmoothing is 0.1; want 0")
	require.ErrorContains(t, step(engine.Options{NEFTuneAlpha: 5}), "NEFTuneAlpha is 5; want 0")
	_, err = ctc.NewTask(m, ctc.TaskOptions{Decode: m.CTCTokenizer.Decode})
	require.ErrorContains(t, err, "TaskOptions.Decode and Metrics go together")
	assert.Equal(t, []string{"spec_augment"}, slices.Collect(maps.Keys(m.Task().Generators())))
}

// heardOf is a model without a feature encoder.
func heardOf(t *testing.T) *auto.Model {
	t.Helper()
	return listener(t).Model
}
