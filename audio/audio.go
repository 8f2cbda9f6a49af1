package audio

import (
	"fmt"
	"time"
)

// Audio is sound of one channel.
type Audio struct {
	Samples []float32 // from -1 to 1
	Rate    int       // samples in a second
}

// maxRate is far above the rate of any microphone.
const maxRate = 1 << 20

// Duration is how long the sound is.
func (a *Audio) Duration() time.Duration {
	return time.Duration(float64(len(a.Samples)) / float64(a.Rate) * float64(time.Second))
}

// check returns an error for a rate that cannot be.
func (a *Audio) check() error {
	if a == nil || a.Rate < 1 || a.Rate > maxRate {
		rate := 0
		if a != nil {
			rate = a.Rate
		}
		return fmt.Errorf("audio: the rate is %d samples in a second; want 1 to %d", rate, maxRate)
	}
	return nil
}
