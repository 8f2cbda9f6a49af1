package transformer

// SpecAugment says how a model of sound masks spans of frames and of features in training (Park et
// al., 2019), with the settings and defaults of transformers.
type SpecAugment struct {
	ApplySpecAugment *bool // nil: true for Wav2Vec2 and HuBERT, false for Whisper
	// MaskTimeProb and MaskFeatureProb are the shares of frames and of features that are masked; nil:
	// 0.05 and 0.
	MaskTimeProb, MaskFeatureProb *float64
	// MaskTimeLength and MaskFeatureLength are how long a mask is, in frames or features; zero: 10.
	MaskTimeLength, MaskFeatureLength     int64
	MaskTimeMinMasks, MaskFeatureMinMasks *int64 // the fewest masks of a row; nil: 2 and 0
}
