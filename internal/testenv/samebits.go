package testenv

import (
	"fmt"
	"sync"

	"github.com/gotrainer/gotrainer/internal/fingerprint"
)

// Deviation says why results may differ in their last bits from the golden values of the package
// under test: the numbers of this process are others than those of the machine that is described by
// testdata/fingerprint.json. Where it is empty they are the same numbers, so the bits must be.
// Whoever made the CPU has no part in it.
var Deviation = sync.OnceValue(func() string {
	recorded, err := fingerprint.Read("testdata") // go test runs in the package's folder
	if err != nil {
		panic(fmt.Sprintf("testenv: the golden files of this package do not say what numbers they are: %v; make golden "+
			"writes the fingerprint beside them", err))
	}
	here := fingerprint.Here()
	if here.Equal(recorded) {
		return ""
	}
	return fmt.Sprintf("the fingerprint of the numbers here is %s, that of the golden files %s: they differ in %s", here,
		recorded, here.Differs(recorded))
})

// SameBits tells whether results must equal golden values to the last bit.
func SameBits() bool { return Deviation() == "" }
