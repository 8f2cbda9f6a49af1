package auto_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/audio"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/bart"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/lora"
	"github.com/gotrainer/gotrainer/models/seq2seq"
	"github.com/gotrainer/gotrainer/models/whisper"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/quantized"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// The special tokens of a small Whisper, by their ids.
var speechTokens = []string{"<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|de|>", "<|translate|>",
	"<|transcribe|>", "<|notimestamps|>"}

// listener makes a small model that is to write down tones.
func listener(t *testing.T) *auto.SpeechToTextModel {
	t.Helper()
	testenv.RequireTorch(t)
	tok, err := text.TrainByteLevel(slices.Values([]string{"low high"}), text.TrainOptions{VocabSize: 280,
		SpecialTokens: speechTokens})
	require.NoError(t, err)
	extractor, err := audio.NewFeatureExtractor(audio.FeatureExtractorOptions{FeatureSize: 16, ChunkLength: 1,
		SamplingRate: 2000, HopLength: 100, NFFT: 200})
	require.NoError(t, err)
	torch.ManualSeed(3)
	m, err := auto.NewSpeechToText(whisper.Config{VocabSize: int64(tok.VocabSize()) + 1, NumMelBins: 16, HiddenSize: 24,
		EncoderLayers: 1, DecoderLayers: 1, EncoderAttentionHeads: 2, DecoderAttentionHeads: 2, EncoderFFNDim: 32,
		DecoderFFNDim: 32, MaxSourcePositions: 10, MaxTargetPositions: 12, PadTokenID: new(int64(0)),
		EOSTokenIDs: []int64{0}, DecoderStartTokenID: new(int64(1)), BeginSuppressTokens: []int64{}}, extractor, tok)
	require.NoError(t, err)
	return m
}

// heard saves the model of listener with a generation_config.json and loads it.
func heard(t *testing.T, generation map[string]any) (m *auto.SpeechToTextModel, dir string) {
	t.Helper()
	dir = t.TempDir()
	require.NoError(t, listener(t).Save(dir))
	writeGeneration(t, dir, generation)
	m, err := auto.SpeechToText(t.Context(), dir, auto.Options{Warnings: io.Discard})
	require.NoError(t, err)
	return m, dir
}

func writeGeneration(t *testing.T, dir string, settings map[string]any) {
	t.Helper()
	content, err := json.Marshal(settings)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "generation_config.json"), content, 0o600))
}

// multilingual is the generation_config.json of a Whisper of two languages.
func multilingual() map[string]any {
	return map[string]any{"lang_to_id": map[string]any{"<|en|>": 2, "<|de|>": 3}, "task_to_id": map[string]any{
		"translate": 4, "transcribe": 5}, "is_multilingual": true, "no_timestamps_token_id": 6, "max_length": 12,
		"decoder_start_token_id": 1, "eos_token_id": 0, "suppress_tokens": []int{1, 2, 3, 4, 5, 6}}
}

var tones = []string{"low", "high"}

// tone makes half a second of a low or a high tone at the given rate.
func tone(kind, phase, rate int) *audio.Audio {
	a := &audio.Audio{Rate: rate}
	for i := range rate / 2 {
		f := []float64{100, 400}[kind]
		a.Samples = append(a.Samples, float32(math.Sin(float64(phase)+2*math.Pi*f*float64(i)/float64(rate))))
	}
	return a
}

func writeTone(t *testing.T, path string, a *audio.Audio) {
	t.Helper()
	var f bytes.Buffer
	for _, part := range []any{[]byte("RIFF\xff\xff\xff\xffWAVEfmt \x10\x00\x00\x00"), uint16(3), uint16(1),
		uint32(a.Rate), uint32(4 * a.Rate), uint16(4), uint16(32), []byte("data"), uint32(4 * len(a.Samples)), a.Samples} {
		require.NoError(t, binary.Write(&f, binary.LittleEndian, part))
	}
	require.NoError(t, os.WriteFile(path, f.Bytes(), 0o600))
}

// TestAModelThatListensIsTrainedSavedAndLoaded checks that evaluations score what the model writes,
// and that checkpoints and the output of Save are complete.
func TestAModelThatListensIsTrainedSavedAndLoaded(t *testing.T) {
	m, _ := heard(t, multilingual())
	require.NoError(t, m.SetLanguage("German", "transcribe"))
	nn.SetTraining(m, true)
	var samples []seq2seq.SpeechSample
	for i := range 24 {
		s, err := m.Encode(tone(i%2, i, 2000), tones[i%2])
		require.NoError(t, err)
		require.Equal(t, []int64{3, 5, 6}, s.Labels[:3], "language, task and no times, without the start")
		require.Equal(t, int64(0), s.Labels[len(s.Labels)-1], "the end")
		samples = append(samples, s)
	}
	write, err := m.Writer(auto.Generation{})
	require.NoError(t, err)
	task, err := seq2seq.NewSpeechTask(m, seq2seq.SpeechTaskOptions{Write: write,
		Metrics: []metrics.Metric[string]{&metrics.WER{}}})
	require.NoError(t, err)
	step, err := engine.New(task, engine.Options{Optimizer: optim.AdamW{LR: 0.01}})
	require.NoError(t, err)
	out := t.TempDir()
	fit, err := trainer.New(step, trainer.Options{Epochs: 12, BatchSize: 6, OutputDir: out, Progress: io.Discard})
	require.NoError(t, err)
	set := data.Slice[seq2seq.SpeechSample](samples)
	result, err := fit.Fit(t.Context(), set, set)
	require.NoError(t, err)
	last := result.History[len(result.History)-2] // the entry before that of the whole run
	assert.InDelta(t, 0, last["eval_wer"], 0, "%v", last)
	for _, name := range []string{"preprocessor_config.json", "tokenizer.json", "tokenizer_config.json", "config.json",
		"generation_config.json"} {
		found, err := filepath.Glob(filepath.Join(out, "checkpoint-*", name))
		require.NoError(t, err)
		assert.NotEmpty(t, found, name)
	}

	dir := t.TempDir()
	require.NoError(t, m.Save(dir))
	again, err := auto.SpeechToText(t.Context(), dir, auto.Options{})
	require.NoError(t, err)
	assert.False(t, again.Training())
	file := filepath.Join(dir, "high.wav")
	writeTone(t, file, tone(1, 3, 4000))
	written, err := again.GenerateFile(t.Context(), file, auto.Generation{NumBeams: 2})
	require.NoError(t, err)
	assert.Equal(t, "high", written)
	all, err := again.GenerateBatch(t.Context(), []*audio.Audio{tone(0, 0, 2000), tone(1, 7, 8000)}, auto.Generation{
		Sample: true, TopK: 1, NumReturnSequences: 2})
	require.NoError(t, err)
	assert.Equal(t, []string{"low", "low", "high", "high"}, all)
	var parts string
	_, err = again.Generate(t.Context(), tone(0, 0, 2000), auto.Generation{Stream: func(part string) { parts += part }})
	require.NoError(t, err)
	assert.Equal(t, "low", parts)
	s, err := again.EncodeFile(file, "high")
	require.NoError(t, err)
	assert.Equal(t, samples[1].Labels, s.Labels)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = again.Generate(ctx, tone(0, 0, 2000), auto.Generation{})
	require.ErrorIs(t, err, context.Canceled)
}

// TestTheLanguageIsSaved checks the files for transformers, and that an adapter has its language, too.
func TestTheLanguageIsSaved(t *testing.T) {
	m, base := heard(t, multilingual())
	e, err := m.Tokenizer.Encode("low", nil)
	require.NoError(t, err)
	assert.Equal(t, []int64{1, 6}, e.IDs[:2], "without a language")
	require.NoError(t, m.SetLanguage("en", "translate"))
	dir := t.TempDir()
	require.NoError(t, m.Save(dir))
	for _, name := range []string{"generation_config.json", "tokenizer_config.json"} {
		content, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		var f struct{ Language, Task string }
		require.NoError(t, json.Unmarshal(content, &f))
		assert.Equal(t, "en", f.Language, name)
		assert.Equal(t, "translate", f.Task, name)
	}
	again, err := auto.SpeechToText(t.Context(), dir, auto.Options{})
	require.NoError(t, err)
	s, err := again.Encode(tone(0, 0, 2000), "low")
	require.NoError(t, err)
	assert.Equal(t, []int64{2, 4, 6}, s.Labels[:3])

	adapted, err := auto.SpeechToText(t.Context(), base, auto.Options{})
	require.NoError(t, err)
	require.NoError(t, adapted.SetLanguage("german", ""))
	require.NoError(t, adapted.AddLoRA(lora.Config{R: 2, Init: lora.InitRandom}))
	dir = t.TempDir()
	require.NoError(t, adapted.Save(dir))
	loaded, err := auto.SpeechToText(t.Context(), dir, auto.Options{})
	require.NoError(t, err)
	assert.Equal(t, must(adapted.Encode(tone(0, 0, 2000), "low")), must(loaded.Encode(tone(0, 0, 2000), "low")))
	speech := []inputs.Speech{s.Speech}
	want, err := adapted.GenerateIDs(t.Context(), speech, auto.Generation{})
	require.NoError(t, err)
	got, err := loaded.GenerateIDs(t.Context(), speech, auto.Generation{})
	require.NoError(t, err)
	assert.Equal(t, want, got)
	require.NoError(t, loaded.MergeLoRA())
	for _, p := range nn.Params(loaded) {
		assert.Equal(t, p.Name != "model.encoder.embed_positions.weight", p.Tensor.NeedsGrad(), p.Name)
	}
}

// TestTimesAreNotPartOfTexts: a text may have tokens of times, which are not special.
func TestTimesAreNotPartOfTexts(t *testing.T) {
	_, dir := heard(t, map[string]any{})
	path := filepath.Join(dir, "tokenizer.json")
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	var d map[string]any
	require.NoError(t, json.Unmarshal(content, &d))
	time := listener(t).Limits().VocabSize - 1
	d["added_tokens"] = append(d["added_tokens"].([]any), map[string]any{"id": time, "content": "<|12.34|>",
		"special": false, "normalized": false, "lstrip": false, "rstrip": false, "single_word": false})
	content, err = json.Marshal(d)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, content, 0o600))
	m, err := auto.SpeechToText(t.Context(), dir, auto.Options{})
	require.NoError(t, err)
	assert.Equal(t, "<|12.34|>", m.Tokenizer.Decode([]int64{time}, nil))
	written, err := m.Generate(t.Context(), tone(0, 0, 2000), auto.Generation{MaxNewTokens: 3,
		SuppressTokens: others(m.Limits().VocabSize, time)})
	require.NoError(t, err)
	assert.Empty(t, written)
}

// others are all ids below n besides one.
func others(n, but int64) (ids []int64) {
	for id := range n {
		if id != but {
			ids = append(ids, id)
		}
	}
	return ids
}

// TestLongSpeechIsWrittenDownInSegments checks the windows of a model that knows the tokens of times.
func TestLongSpeechIsWrittenDownInSegments(t *testing.T) {
	file := multilingual()
	m, dir := heard(t, file)
	long := tone(0, 0, 2000)
	long.Samples = slices.Concat(long.Samples, tone(1, 0, 2000).Samples, tone(0, 3, 2000).Samples)
	_, err := m.Generate(t.Context(), long, auto.Generation{})
	require.ErrorContains(t, err, "the sound is 1.50 seconds long; want at most 1")
	file["suppress_tokens"] = []int{1, 4, 5} // what follows 6 are times here, so that texts are of 2 and 3
	writeGeneration(t, dir, file)
	path := filepath.Join(dir, "long.wav")
	writeTone(t, path, long)
	segments, err := m.TranscribeFile(t.Context(), path, auto.Generation{})
	require.NoError(t, err)
	require.NotEmpty(t, segments)
	for i, s := range segments {
		assert.LessOrEqual(t, s.Start, s.End)
		assert.True(t, i == 0 || s.Start >= segments[i-1].Start)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = m.Transcribe(ctx, long, auto.Generation{})
	require.ErrorIs(t, err, context.Canceled)
	_, err = m.Transcribe(t.Context(), long, auto.Generation{Stream: func(string) {}})
	require.ErrorContains(t, err, "Transcribe returns segments")
	_, err = m.TranscribeFeatures(t.Context(), inputs.Speech{Features: make([]float32, 17)}, auto.Generation{})
	require.ErrorContains(t, err, "Features has 17 values; want frames of 16")
	for want, change := range map[string]map[string]any{
		"there is no no_timestamps_token_id":                        {"no_timestamps_token_id": nil},
		"after which the vocabulary of":                             {"no_timestamps_token_id": 5000},
		"max_initial_timestamp_index is -1; want at least 0":        {"max_initial_timestamp_index": -1},
		"generation_config.json: no_speech_threshold is set, which": {"no_speech_threshold": 0.5},
	} {
		changed := multilingual()
		for key, value := range change {
			changed[key] = value
		}
		writeGeneration(t, dir, changed)
		_, err := m.Transcribe(t.Context(), long, auto.Generation{})
		require.ErrorContains(t, err, want)
	}
	m.FeatureExtractor = nil
	_, err = m.Transcribe(t.Context(), long, auto.Generation{})
	require.ErrorContains(t, err, "has no preprocessor_config.json")
	m.Tokenizer = nil
	_, err = m.Transcribe(t.Context(), long, auto.Generation{})
	require.ErrorContains(t, err, "has no tokenizer")
}

// TestProcessorsOfWhisperLoad: WhisperProcessor of transformers 5 saves its extractor inside another
// file.
func TestProcessorsOfWhisperLoad(t *testing.T) {
	_, dir := heard(t, multilingual())
	inner, err := os.ReadFile(filepath.Join(dir, "preprocessor_config.json"))
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(dir, "preprocessor_config.json")))
	path := filepath.Join(dir, "processor_config.json")
	require.NoError(t, os.WriteFile(path, slices.Concat([]byte(`{"processor_class": "WhisperProcessor",
		"feature_extractor": `), inner, []byte("}")), 0o600))
	m, err := auto.SpeechToText(t.Context(), dir, auto.Options{})
	require.NoError(t, err)
	require.NotNil(t, m.FeatureExtractor)
	assert.Equal(t, 16, m.FeatureExtractor.Options().FeatureSize)

	require.NoError(t, os.WriteFile(path, []byte(`{"feature_extractor": {"feature_size": 80}}`), 0o600))
	_, err = auto.SpeechToText(t.Context(), dir, auto.Options{})
	require.ErrorContains(t, err, "the feature extractor makes 80 bins of 3000 frames")

	var warnings bytes.Buffer
	require.NoError(t, os.Remove(path))
	m, err = auto.SpeechToText(t.Context(), dir, auto.Options{Warnings: &warnings})
	require.NoError(t, err)
	assert.Contains(t, warnings.String(), "has no preprocessor_config.json: the model takes features")
	_, err = m.Generate(t.Context(), tone(0, 0, 2000), auto.Generation{})
	require.ErrorContains(t, err, "has no preprocessor_config.json beside the weights")
}

// TestFilesOfSpeechThatCannotBeFollowedAreRefused checks what generation_config.json may say.
func TestFilesOfSpeechThatCannotBeFollowedAreRefused(t *testing.T) {
	m, dir := heard(t, nil)
	for _, c := range []struct {
		change map[string]any
		g      auto.Generation
		want   string
	}{
		{map[string]any{"return_timestamps": true}, auto.Generation{},
			"return_timestamps is true; want false, or SpeechToTextModel.Transcribe"},
		{map[string]any{"no_speech_threshold": 0.6}, auto.Generation{}, "no_speech_threshold is set"},
		{map[string]any{"is_multilingual": false}, auto.Generation{Language: "en"}, "the model knows only English"},
		{nil, auto.Generation{Language: "klingon"}, `there is no language "klingon"; want a name or a code`},
		{nil, auto.Generation{Language: "french"}, `lang_to_id has no language "<|fr|>"; want one of ["<|de|>" "<|en|>"]`},
		{nil, auto.Generation{Task: "sing"}, `the task is "sing"; want "transcribe" or "translate"`},
		{map[string]any{"task_to_id": map[string]any{}}, auto.Generation{Task: "translate"}, `has no task "translate"`},
		{map[string]any{"lang_to_id": nil}, auto.Generation{Language: "en"}, "there is no lang_to_id"},
		{map[string]any{"lang_to_id": map[string]any{"<|en|>": 5000}}, auto.Generation{Language: "en"},
			"has the token 5000 for speech"},
		{map[string]any{"lang_to_id": []int{1}}, auto.Generation{}, "lang_to_id"},
		{map[string]any{"forced_decoder_ids": []any{[]int{1, 2}, []int{3, 4}}}, auto.Generation{}, "has the place 3 after 1"},
		{map[string]any{"forced_decoder_ids": []any{[]int{1}}}, auto.Generation{}, "has an entry of 1 numbers"},
		{nil, auto.Generation{NumBeams: 2, Sample: true}, "Whisper draws tokens only without beams"},
	} {
		file := multilingual()
		for key, value := range c.change {
			file[key] = value
		}
		writeGeneration(t, dir, file)
		_, err := m.Generate(t.Context(), tone(0, 0, 2000), c.g)
		require.ErrorContains(t, err, c.want)
	}
	writeGeneration(t, dir, map[string]any{"return_timestamps": true})
	_, err := m.Generate(t.Context(), tone(0, 0, 2000), auto.Generation{IgnoreFile: true})
	require.NoError(t, err)
	writeGeneration(t, dir, multilingual())
	require.ErrorContains(t, m.SetLanguage("klingon", ""), `there is no language "klingon"`)
	require.ErrorContains(t, m.SetLanguage("french", ""), "lang_to_id has no language")
	require.ErrorContains(t, m.SetLanguage("english", "sing"), `the task is "sing"`)
	writeGeneration(t, dir, map[string]any{"is_multilingual": false})
	require.ErrorContains(t, m.SetLanguage("english", ""), "the model knows only English")
	require.NoError(t, m.SetLanguage("", ""), "what it is anyway")
}

// TestListenersRefuseWhatTheyCannotDo checks the errors of programs' mistakes.
func TestListenersRefuseWhatTheyCannotDo(t *testing.T) {
	m := listener(t)
	_, err := m.Encode(nil, "low")
	require.ErrorContains(t, err, "the rate is 0")
	_, err = m.Encode(&audio.Audio{Samples: make([]float32, 2001), Rate: 2000}, "low")
	require.ErrorContains(t, err, "want at most 1, ChunkLength of the feature extractor")
	_, err = m.GenerateBatch(t.Context(), nil, auto.Generation{})
	require.ErrorContains(t, err, "there is no speech to write down")
	_, err = m.EncodeFile("no such file", "low")
	require.ErrorContains(t, err, "no such file")
	require.ErrorContains(t, m.SetLanguage("french", ""), `the vocabulary has no token "<|fr|>"`)
	long, err := m.Encode(tone(0, 0, 2000), "low high low high low high low high low high")
	require.NoError(t, err)
	assert.LessOrEqual(t, len(long.Labels), 12, "cut to the positions of the model")
	_, err = seq2seq.NewSpeechTask(m, seq2seq.SpeechTaskOptions{Metrics: []metrics.Metric[string]{&metrics.WER{}}})
	require.ErrorContains(t, err, "Write and Metrics go together")
	_, err = seq2seq.NewSpeechTask(m, seq2seq.SpeechTaskOptions{TargetPadding: data.Padding{Length: 13}})
	require.ErrorContains(t, err, "positions for 12")
	_, err = m.Task().Collate([]seq2seq.SpeechSample{{Speech: long.Speech}})
	require.ErrorContains(t, err, "sample 0 of the batch: Labels is empty")
	_, err = m.Task().Collate([]seq2seq.SpeechSample{{Speech: inputs.Speech{Features: make([]float32, 3)},
		Labels: long.Labels}})
	require.ErrorContains(t, err, "Features has 3 values; the model takes 320, for 16 bins of 20 frames")
	other, err := audio.NewFeatureExtractor(audio.FeatureExtractorOptions{})
	require.NoError(t, err)
	small := whisper.Config{EncoderLayers: 1, DecoderLayers: 1, MaxSourcePositions: 10}
	_, err = auto.NewSpeechToText(small, other, nil)
	require.ErrorContains(t, err, "the feature extractor makes 80 bins of 3000 frames")
	_, err = auto.NewSpeechToText(bart.Config{}, nil, nil)
	require.ErrorContains(t, err, "a Bart is not for ForSpeechSeq2Seq")
	_, err = auto.NewSeq2SeqLM(small, nil)
	require.ErrorContains(t, err, "a WhisperForConditionalGeneration is not for ForConditionalGeneration")
	_, err = auto.NewImageToText(small, nil, nil)
	require.ErrorContains(t, err, "a Whisper is not for ForImageTextToText")
	_, err = auto.SpeechToText(t.Context(), "no-such-model", auto.Options{Quantize: &quantized.Config{}})
	require.ErrorContains(t, err, "weights in four bits are for models of texts")
	_, err = colourReader(t).Generate(t.Context(), colour(0, 0), auto.Generation{Language: "en"})
	require.ErrorContains(t, err, "Language and Task are for models of speech, not for VisionEncoderDecoderModel")
	err = torch.Try(func() { m.Forward(torch.Ones(1), torch.Tensor{}, torch.Tensor{}) })
	require.ErrorContains(t, err, "SpeechToTextModel.ForwardPair")
	m.Tokenizer = nil
	require.ErrorContains(t, m.SetLanguage("en", ""), "the model has no tokenizer")
	_, err = m.Generate(t.Context(), tone(0, 0, 2000), auto.Generation{})
	require.ErrorContains(t, err, "the model has no tokenizer")
	m = listener(t)
	m.FeatureExtractor = nil
	_, err = m.Encode(tone(0, 0, 2000), "low")
	require.ErrorContains(t, err, "the model has no feature extractor")
}
