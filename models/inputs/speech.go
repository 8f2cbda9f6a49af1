package inputs

import (
	"fmt"

	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// SpeechLimits says which speech a model takes: all of the same length, whose features are those of
// an audio.FeatureExtractor.
type SpeechLimits struct {
	Bins, Frames int64 // of the log-mel features
}

// Speech is speech as numbers, prepared for a model.
type Speech struct {
	Features []float32 // log-mel features: all frames of the first bin, then of the second, ...
}

// SpeechBatch is some speech.
type SpeechBatch struct {
	Features []float32
	Shape    []int64 // rows, bins and frames
}

// Collate joins speech to a batch and refuses what a model with these limits cannot take. Errors
// begin with the name of the task's package. memory returns a slice of n numbers for the features.
func (l SpeechLimits) Collate(pkg string, speech []Speech, memory func(n int) []float32) (b SpeechBatch, err error) {
	size := int(l.Bins * l.Frames)
	for i, s := range speech {
		if len(s.Features) != size {
			return b, &SampleError{pkg, i, fmt.Sprintf("Features has %d values; the model takes %d, for %d bins of %d frames",
				len(s.Features), size, l.Bins, l.Frames)}
		}
	}
	b = SpeechBatch{memory(len(speech) * size), []int64{int64(len(speech)), l.Bins, l.Frames}}
	for i, s := range speech {
		copy(b.Features[i*size:], s.Features)
	}
	return b, nil
}

// To copies the features to the device of a pass, [B, bins, frames].
func (b SpeechBatch) To(p engine.ForwardPass) torch.Tensor {
	return engine.Input(p, b.Features, b.Shape...)
}
