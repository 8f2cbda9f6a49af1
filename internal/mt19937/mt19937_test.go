package mt19937

import "testing"

// The C++ standard specifies the 10,000th number for the seed 5489.
func TestMersenneTwisterIsTheStandardOne(t *testing.T) {
	g := New(5489)
	if got := g.Uint32(); got != 3499211612 {
		t.Errorf("the first number is %d, want 3499211612", got)
	}
	var last uint32
	for range 9999 {
		last = g.Uint32()
	}
	if last != 4123659995 {
		t.Errorf("the 10000th number is %d, want 4123659995", last)
	}
}
