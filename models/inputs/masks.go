package inputs

import (
	"math"

	"github.com/gotrainer/gotrainer/torch"
)

// MaskTask is embedded in the tasks of models that draw masks over sound in training (SpecAugment).
type MaskTask struct {
	MaskGenerator *torch.Generator // nil: the model draws none
}

// TakeSeed seeds the generator of masks: engine.Seeder.
func (t MaskTask) TakeSeed(seed uint64) {
	if t.MaskGenerator != nil {
		t.MaskGenerator.Seed(seed & math.MaxUint32) // numpy's seeds have 32 bits
	}
}

// Generators returns the generator of masks: engine.GeneratorOwner.
func (t MaskTask) Generators() map[string]*torch.Generator {
	if t.MaskGenerator == nil {
		return nil
	}
	return map[string]*torch.Generator{"spec_augment": t.MaskGenerator}
}
