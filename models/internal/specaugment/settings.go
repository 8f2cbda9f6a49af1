package specaugment

import (
	"cmp"
	"fmt"

	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/torch"
)

// Fields are the settings in config.json.
func Fields(s *transformer.SpecAugment) []pretrained.Field {
	return []pretrained.Field{
		{Key: "apply_spec_augment", Value: &s.ApplySpecAugment},
		{Key: "mask_time_prob", Value: &s.MaskTimeProb}, {Key: "mask_time_length", Value: &s.MaskTimeLength},
		{Key: "mask_time_min_masks", Value: &s.MaskTimeMinMasks},
		{Key: "mask_feature_prob", Value: &s.MaskFeatureProb}, {Key: "mask_feature_length", Value: &s.MaskFeatureLength},
		{Key: "mask_feature_min_masks", Value: &s.MaskFeatureMinMasks},
	}
}

// Resolve fills in the defaults, of which apply is that of ApplySpecAugment, and checks the settings.
// features is how many features a frame has, under the name of another setting.
func Resolve(s *transformer.SpecAugment, apply bool, name string, features int64) error {
	s.ApplySpecAugment = cmp.Or(s.ApplySpecAugment, &apply)
	s.MaskTimeProb = cmp.Or(s.MaskTimeProb, new(0.05))
	s.MaskFeatureProb = cmp.Or(s.MaskFeatureProb, new(0.0))
	s.MaskTimeMinMasks = cmp.Or(s.MaskTimeMinMasks, new(int64(2)))
	s.MaskFeatureMinMasks = cmp.Or(s.MaskFeatureMinMasks, new(int64(0)))
	if err := cmp.Or(
		transformer.Positive("MaskTimeLength", &s.MaskTimeLength, 10),
		transformer.Positive("MaskFeatureLength", &s.MaskFeatureLength, 10),
		transformer.CheckProbability("MaskTimeProb", s.MaskTimeProb),
		transformer.CheckProbability("MaskFeatureProb", s.MaskFeatureProb),
	); err != nil {
		return err
	}
	switch {
	case *s.MaskTimeMinMasks < 0 || *s.MaskFeatureMinMasks < 0:
		return fmt.Errorf("MaskTimeMinMasks is %d and MaskFeatureMinMasks %d; want 0 or more", *s.MaskTimeMinMasks,
			*s.MaskFeatureMinMasks)
	case *s.MaskFeatureProb > 0 && s.MaskFeatureLength > features:
		return fmt.Errorf("MaskFeatureLength is %d; want at most %s, %d", s.MaskFeatureLength, name, features)
	}
	return nil
}

// defaultSeed is that of masks until a run seeds their generator.
const defaultSeed = 42

// Generator returns a new generator of masks; nil: the settings draw none.
func Generator(s transformer.SpecAugment) *torch.Generator {
	if !*s.ApplySpecAugment || *s.MaskTimeProb == 0 && *s.MaskFeatureProb == 0 {
		return nil
	}
	return torch.NewGenerator(defaultSeed)
}

// Time says how masks over frames are drawn.
func Time(s transformer.SpecAugment) Spans {
	return Spans{*s.MaskTimeProb, s.MaskTimeLength, *s.MaskTimeMinMasks}
}

// Feature says how masks over features are drawn.
func Feature(s transformer.SpecAugment) Spans {
	return Spans{*s.MaskFeatureProb, s.MaskFeatureLength, *s.MaskFeatureMinMasks}
}
