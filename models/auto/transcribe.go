package auto

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gotrainer/gotrainer/audio"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// Segment is a part of speech that has been written down.
type Segment struct {
	Start, End time.Duration // from the beginning of the speech
	Text       string        // without special tokens and times
	IDs        []int64       // its tokens, with those of times
}

// Transcribe writes down speech of any length, in segments with times: generate of transformers'
// Whisper with return_timestamps, and return_segments. Speech of more than 30 seconds is taken in
// windows of that length, each of which begins where the last whole segment of the one before has
// ended. The language is detected once. It needs no_timestamps_token_id of generation_config.json.
// See [SpeechToTextModel.Generate] for concurrency; if ctx ends, Transcribe returns the segments so
// far and the context's cause.
func (m *SpeechToTextModel) Transcribe(ctx context.Context, a *audio.Audio, g Generation) ([]Segment, error) {
	if m.Tokenizer == nil {
		return nil, m.errNoTokenizer()
	}
	if m.FeatureExtractor == nil {
		return nil, m.errNoFeatureExtractor()
	}
	features, err := m.FeatureExtractor.ExtractAll(a)
	if err != nil {
		return nil, fmt.Errorf("auto: %w", err)
	}
	segments, err := m.TranscribeFeatures(ctx, inputs.Speech{Features: features}, g)
	for i, s := range segments {
		segments[i].Text = m.withoutTimes([][]int64{s.IDs})[0]
	}
	return segments, err
}

// TranscribeFile is [SpeechToTextModel.Transcribe] for a WAV or FLAC file.
func (m *SpeechToTextModel) TranscribeFile(ctx context.Context, path string, g Generation) ([]Segment, error) {
	return ofSpeech(path, func(a *audio.Audio) ([]Segment, error) { return m.Transcribe(ctx, a, g) })
}

// TranscribeFeatures is [SpeechToTextModel.Transcribe] for log-mel features, those of
// audio.FeatureExtractor.ExtractAll. The segments have no Text.
func (m *SpeechToTextModel) TranscribeFeatures(ctx context.Context, features inputs.Speech, g Generation) (
	segments []Segment, err error) {
	bins := int(m.SpeechLimits().Bins)
	if n := len(features.Features); n == 0 || n%bins != 0 {
		return nil, fmt.Errorf("auto: Features has %d values; want frames of %d", n, bins)
	}
	if g.Stream != nil {
		return nil, errors.New("auto: Generation.Stream is for one text; Transcribe returns segments")
	}
	g.single, g.times = true, &timeTokens{}
	if g, err = m.pairGeneration(g, 1); err != nil {
		return nil, err
	}
	_, err = m.generated(func(p engine.ForwardPass) ([][]int64, error) {
		segments, err = m.transcribe(ctx, p, features.Features, g)
		return nil, err
	})
	return segments, err
}

// transcribe goes through the windows of features.
func (m *SpeechToTextModel) transcribe(ctx context.Context, p engine.ForwardPass, features []float32, g Generation) (
	segments []Segment, err error) {
	limits := m.SpeechLimits()
	all, window := len(features)/int(limits.Bins), int(limits.Frames)
	for seek := 0; seek < all; {
		b := inputs.SpeechBatch{Features: cutFrames(features, all, seek, window),
			Shape: []int64{1, limits.Bins, limits.Frames}}
		if g.detected != nil {
			g = m.withDetected(p, b, g)
		}
		rows, err := m.listen(ctx, p, b, g)
		if err != nil {
			return segments, err
		}
		ids := rows[0]
		if n := len(ids); n > 0 && slices.Contains(g.EOSTokenIDs, ids[n-1]) {
			ids = ids[:n-1]
		}
		frames := min(window, all-seek)
		found, used := g.times.segments(ids, frames)
		for _, s := range found {
			offset := seconds(float64(seek) * timePrecision / 2)
			s.Start, s.End = s.Start+offset, s.End+offset
			segments = append(segments, s)
		}
		if used < 1 { // a window that ends where it begins would come again and again
			used = frames
		}
		seek += used
	}
	return segments, nil
}

// withDetected puts the language of the first window into the beginning of all texts.
func (m *SpeechToTextModel) withDetected(p engine.ForwardPass, b inputs.SpeechBatch, g Generation) Generation {
	torch.NoGrad(func() {
		torch.Scope(func() {
			prompt := [][]int64{slices.Concat([]int64{g.start}, g.begin)}
			g.begin = m.withLanguages(p, m.backbone.EncodeSignal(b.To(p)), prompt, g.detected)[0][1:]
		})
	})
	g.detected = nil
	return g
}

// cutFrames returns a window of features of all frames of each bin, with zeros after their end.
func cutFrames(features []float32, all, from, window int) []float32 {
	bins := len(features) / all
	cut := make([]float32, bins*window)
	for b := range bins {
		copy(cut[b*window:(b+1)*window], features[b*all+from:(b+1)*all])
	}
	return cut
}

// timePrecision is how many seconds there are between the times of two tokens: time_precision of
// transformers' Whisper. The model has a position for each, and two frames for each position.
const timePrecision = 0.02

func seconds(s float64) time.Duration { return time.Duration(math.Round(s * float64(time.Second))) }

// timeTokens are the tokens of times, which are the last of the vocabulary.
type timeTokens struct {
	first      int64  // 0.00 seconds; the one before it says that there are no times
	maxInitial *int64 // how many after it the first time is at most; nil: any
}

func (t *timeTokens) is(id int64) bool { return id >= t.first }

// segments cuts the text of a window at its pairs of times, and returns how many of the window's
// frames it is the text of: _retrieve_segment of transformers' Whisper.
func (t *timeTokens) segments(ids []int64, frames int) (list []Segment, used int) {
	var ends []int
	for i := 1; i < len(ids); i++ {
		if t.is(ids[i-1]) && t.is(ids[i]) {
			ends = append(ends, i)
		}
	}
	at := func(i int) time.Duration { return seconds(float64(ids[i]-t.first) * timePrecision) }
	if len(ends) == 0 { // all is one segment
		end := seconds(float64(frames) / 2 * timePrecision)
		for i, id := range slices.Backward(ids) {
			if t.is(id) {
				if id != t.first {
					end = at(i)
				}
				break
			}
		}
		return []Segment{{End: end, IDs: ids}}, frames
	}
	n := len(ids)
	alone := t.is(ids[n-1]) && !t.is(ids[n-2]) // no speech follows the last time
	if alone {
		ends = append(ends, n)
	} else { // what comes after the last pair is left out, but both of its times are kept
		ends[len(ends)-1]++
	}
	begin := 0
	for i, end := range ends {
		last := end - 1
		if i == len(ends)-1 && !alone {
			last--
		}
		list = append(list, Segment{Start: at(begin), End: at(last), IDs: ids[begin:end]})
		begin = end
	}
	if alone {
		return list, frames
	}
	return list, 2 * int(ids[begin-2]-t.first)
}

// allowed excludes tokens so that times come in pairs around texts and do not go back:
// WhisperTimeStampLogitsProcessor of transformers. logits are [B, vocabulary]; the first begun tokens
// of the seen ones are not generated, and end is the token that ends a text.
func (t *timeTokens) allowed(logits torch.Tensor, seen [][]int64, begun int, end int64) torch.Tensor {
	vocabulary := logits.Size(1)
	banned := make([][]int64, len(seen))
	ban := func(row int, from, to int64) {
		for id := from; id < to; id++ {
			banned[row] = append(banned[row], id)
		}
	}
	for i, ids := range seen {
		written := ids[begun:]
		n := len(written)
		ban(i, t.first-1, t.first)
		if n == 0 {
			ban(i, 0, t.first)
			if t.maxInitial != nil {
				ban(i, t.first+*t.maxInitial+1, vocabulary)
			}
			continue
		}
		last, before := t.is(written[n-1]), n < 2 || t.is(written[n-2])
		switch {
		case last && before: // text comes next
			ban(i, t.first, vocabulary)
		case last: // another time, or the end
			ban(i, 0, end)
		}
		for _, id := range slices.Backward(written) {
			if t.is(id) {
				if !last || before { // a segment is not empty
					id++
				}
				ban(i, t.first, id)
				break
			}
		}
	}
	logits = forbidden(logits, banned)
	logs := logits.ToDType(torch.Float32).LogSoftmax(-1, torch.DefaultDType)
	times := torch.Values[float32](logs.Narrow(1, t.first, vocabulary-t.first).LogSumExp([]int64{-1}, false))
	texts := torch.Values[float32](logs.Narrow(1, 0, t.first).AMax([]int64{-1}, false))
	clear(banned)
	for i := range banned { // times together are more probable than any other token
		if times[i] > texts[i] {
			ban(i, 0, t.first)
		}
	}
	return forbidden(logits, banned)
}
