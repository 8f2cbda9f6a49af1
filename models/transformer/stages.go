package transformer

import "fmt"

// CheckStages checks the channels and the numbers of layers of the stages of a convolutional
// network, HiddenSizes and Depths. Nil means the defaults.
func CheckStages(sizes, depths *[]int64, defaultSizes, defaultDepths []int64) error {
	if *sizes == nil {
		*sizes = defaultSizes
	}
	if *depths == nil {
		*depths = defaultDepths
	}
	if len(*sizes) != len(*depths) || len(*sizes) == 0 {
		return fmt.Errorf("HiddenSizes is %v and Depths is %v; want as many numbers in each, at least one", *sizes, *depths)
	}
	layers := int64(0)
	for i, depth := range *depths {
		if (*sizes)[i] < 1 || depth < 1 {
			return fmt.Errorf("HiddenSizes is %v and Depths is %v; want positive numbers", *sizes, *depths)
		}
		if layers += min(depth, MaxLayers+1); layers > MaxLayers {
			return fmt.Errorf("the layers of Depths, %v, are too many; want at most %d", *depths, MaxLayers)
		}
	}
	return nil
}
