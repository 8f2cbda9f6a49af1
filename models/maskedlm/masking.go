package maskedlm

import (
	"fmt"

	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/torch"
)

// Masking says which tokens are masked, and how. Special tokens and padding are never masked. The
// zero value has the defaults of DataCollatorForLanguageModeling.
type Masking struct {
	// Probability is that of a token to be masked: mlm_probability. Nil: 0.15.
	Probability *float64
	// Replace and Random are the shares of the masked tokens that become the mask token and a
	// random token: mask_replace_prob, random_replace_prob. The rest keep their token but are
	// predicted too. Nil: 0.8 and 0.1.
	Replace, Random *float64
	// WholeWord masks and replaces either all tokens of a word or none: whole_word_mask. Samples
	// need Offsets.
	WholeWord bool
	// Seed is that of a generator used only for masks: seed. Zero: torch's default generator.
	Seed uint64
}

// resolved fills in the defaults and checks the settings.
func (m Masking) resolved() (Masking, error) {
	for _, f := range []struct {
		name     string
		value    **float64
		fallback float64
	}{{"Probability", &m.Probability, 0.15}, {"Replace", &m.Replace, 0.8}, {"Random", &m.Random, 0.1}} {
		switch {
		case *f.value == nil:
			*f.value = &f.fallback
		case !(**f.value >= 0 && **f.value <= 1):
			return m, fmt.Errorf("maskedlm: Masking.%s is %g; want 0 to 1", f.name, **f.value)
		case m.WholeWord && f.name != "Probability" && **f.value != map[string]float64{"Replace": 1,
			"Random": 0}[f.name]:
			return m,
				fmt.Errorf("maskedlm: Masking.%s is %g, but Masking.WholeWord replaces every masked token by the "+
					"mask token; leave it open", f.name, **f.value)
		}
	}
	if m.WholeWord {
		m.Replace, m.Random = new(1.0), new(0.0)
	}
	if *m.Replace+*m.Random > 1 {
		return m, fmt.Errorf("maskedlm: Masking.Replace is %g and Masking.Random %g; want a sum of at most 1",
			*m.Replace,
			*m.Random)
	}
	return m, nil
}

// vocabulary is the information about the tokenizer that masking needs.
type vocabulary struct{ maskID, size int64 }

// mask draws masks for ids, [B, L], and returns the input ids and the labels, which are
// [inputs.IgnoreIndex] where nothing is predicted. Tensors are on the CPU. keep is 1 where a mask
// may not start; words contains the number of each token's word, or is undefined.
func (m Masking) mask(ids, keep, words torch.Tensor, v vocabulary, g *torch.Generator) (masked, labels torch.Tensor) {
	shape := ids.Shape()
	draw := func(p torch.Tensor) torch.Tensor { return p.Bernoulli(g).ToDType(torch.Bool) }
	chosen := draw(torch.Full(*m.Probability, shape...).MaskedFill(keep.ToDType(torch.Bool), 0))
	if words.Defined() {
		same := words.Unsqueeze(2).Eq(words.Unsqueeze(1)).LogicalAnd(words.GeScalar(0).Unsqueeze(2))
		chosen = same.LogicalAnd(chosen.Unsqueeze(1)).AnyDim(2, false)
	}
	labels = ids.MaskedFill(chosen.LogicalNot(), inputs.IgnoreIndex)
	replaced := draw(torch.Full(*m.Replace, shape...)).LogicalAnd(chosen)
	masked = ids.MaskedFill(replaced, float64(v.maskID))
	if *m.Replace == 1 || *m.Random == 0 {
		return masked, labels
	}
	random := draw(torch.Full(*m.Random/(1-*m.Replace), shape...)).LogicalAnd(chosen).LogicalAnd(replaced.LogicalNot())
	drawn := torch.TensorOptions{Generator: g}.RandInt(0, v.size, shape...)
	return torch.Where(random, drawn, masked), labels
}
