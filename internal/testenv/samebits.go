package testenv

import (
	"fmt"
	"sync"

	"github.com/gotrainer/gotrainer/internal/fingerprint"
)

// Deviation returns why the last bits of results may differ from the golden values of the package
// under test: the fingerprint of this process differs from testdata/fingerprint.json. If it is
// empty, the fingerprints are equal, and so must be the bits. The maker of the CPU does not matter.
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

// SameBits reports whether results must be bitwise equal to golden values.
func SameBits() bool { return Deviation() == "" }
