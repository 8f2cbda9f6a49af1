package peak_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gotrainer/gotrainer/internal/peak"
)

var kept []byte

func TestMemorySeesWhatIsGoneAgain(t *testing.T) {
	const size = 100 << 20
	more := peak.Memory(t, func() {
		kept = make([]byte, size)
		for i := range kept {
			kept[i] = 1
		}
		kept = nil
	})
	assert.InDelta(t, size, more, 20<<20)
	assert.Less(t, peak.Memory(t, func() { kept = make([]byte, 1<<20) }), int64(20<<20), "the peak begins again")
}
