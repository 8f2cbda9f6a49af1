package testenv

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/torch"
)

// TestPins is the environment variable by which a whole test run takes other code paths than those
// of the golden files, as another make of CPU would: NAME=VALUE settings, separated by spaces, that
// replace those of [PinBits].
//
//	GOTRAINER_TEST_PINS="ATEN_CPU_CAPABILITY=default MKL_CBWR=SSE4_2" go test ./nn
//
// A setting without a value takes the variable away. REPRODUCIBLE_ANSWER=0 leaves out the library
// that makes MKL treat every make of CPU alike.
const TestPins = "GOTRAINER_TEST_PINS"

// answer is the setting of [TestPins] that is no environment variable itself.
const answer = "REPRODUCIBLE_ANSWER"

// PinBits makes the numbers of this process reproducible, as those of the golden files are, but for
// what [TestPins] replaces. Call it in TestMain: libtorch reads its settings once, when it is
// loaded. Where the CPU cannot do it nothing is pinned: the fingerprint of its numbers is another
// one then, and golden values are compared within a tolerance.
func PinBits() {
	settings, err := parsePins(os.Getenv(TestPins))
	if err != nil {
		panic(err)
	}
	threads := 1
	if n, err := strconv.Atoi(settings["OMP_NUM_THREADS"]); err == nil {
		threads = n
	}
	err = torch.Reproducible(threads)
	if err != nil && !errors.Is(err, torch.ErrNotSupported) {
		panic(err)
	}
	pinned = err == nil && len(settings) == 0
	for name, value := range settings {
		if err := set(name, value); err != nil {
			panic(err)
		}
	}
}

var pinned bool

// Pinned tells whether [PinBits] has pinned the numbers of this process. Elsewhere two ways to the
// same number may round differently: MKL's kernels then depend on where a matrix is in memory.
func Pinned() bool { return pinned }

// parsePins reads the value of [TestPins].
func parsePins(text string) (map[string]string, error) {
	settings := map[string]string{}
	for _, setting := range strings.Fields(text) {
		name, value, ok := strings.Cut(setting, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("%s: %q is no setting: want NAME=VALUE, separated by spaces", TestPins, setting)
		}
		if name == answer {
			if value != "0" {
				return nil, fmt.Errorf("%s: %s is %q: want 0, or leave it out", TestPins, answer, value)
			}
			name, value = "GOTRAINER_MKL", "native"
		}
		settings[name] = value
	}
	return settings, nil
}

func set(name, value string) error {
	if value == "" {
		return os.Unsetenv(name)
	}
	return os.Setenv(name, value)
}
