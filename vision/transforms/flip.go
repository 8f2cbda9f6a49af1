package transforms

import "fmt"

// RandomHorizontalFlip flips images left to right: torchvision.transforms.RandomHorizontalFlip.
type RandomHorizontalFlip struct {
	P float64 // how often; zero: 0.5
}

// Apply flips the image or leaves it.
func (f RandomHorizontalFlip) Apply(p *Picture, g Generator) error {
	flip, err := chance(p, g, f.P)
	if flip {
		p.Image = p.Image.Clone()
		p.Image.Mirror()
		if p.Labels != nil {
			p.Labels = p.Labels.Clone()
			p.Labels.Mirror()
		}
	}
	return err
}

// RandomVerticalFlip turns images upside down: torchvision.transforms.RandomVerticalFlip.
type RandomVerticalFlip struct {
	P float64 // how often; zero: 0.5
}

// Apply flips the image or leaves it.
func (f RandomVerticalFlip) Apply(p *Picture, g Generator) error {
	flip, err := chance(p, g, f.P)
	if flip {
		p.Image = p.Image.Clone()
		p.Image.Flip()
		if p.Labels != nil {
			p.Labels = p.Labels.Clone()
			p.Labels.Flip()
		}
	}
	return err
}

// chance draws whether to flip the image: torch.rand(1) < p.
func chance(p *Picture, g Generator, often float64) (bool, error) {
	switch {
	case p.Image == nil:
		return false, errNumbers
	case g == nil:
		return false, errNoGenerator
	case !(often >= 0 && often <= 1):
		return false, fmt.Errorf("its P is %v: want 0 to 1", often)
	case often == 0:
		often = 0.5
	}
	return uniform(g, 0, 1) < float32(often), nil
}
