package expected

import "testing"

func TestArchitecturesAreReadStrictly(t *testing.T) {
	const end = "; no padding, stride 1; eval mode"
	for _, text := range []string{"relu", "conv1(1,8) relu" + end, "conv1(1,8,3)x" + end, "fc1(0,2)" + end,
		"batchnorm1d norm1" + end, "tanh" + end, "relu; padding 1"} {
		if _, err := parseArchitecture(text); err == nil {
			t.Errorf("%q is understood, want an error", text)
		}
	}
}
