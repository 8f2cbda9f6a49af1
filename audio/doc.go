// Package audio prepares sound for models. It reads WAV and FLAC files, resamples them as
// torchaudio.functional.resample does, and computes the features that Whisper takes, as transformers'
// WhisperFeatureExtractor does:
//
//	a, err := audio.Open("speech.wav")
//	e, err := audio.NewFeatureExtractor(audio.FeatureExtractorOptions{})
//	features, err := e.Extract(a)         // 80 bins of 3000 frames, for 30 seconds
//
// A [WaveformExtractor] is Wav2Vec2FeatureExtractor, for models that take the samples themselves.
//
// [Open], the decoders and a [WaveformExtractor] for sound of its own rate need no libtorch; the other
// functions do. All may be called from several goroutines at a time.
package audio
