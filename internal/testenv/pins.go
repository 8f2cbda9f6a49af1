package testenv

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/torch"
)

// TestPins is the environment variable that makes a whole test run use other code paths than those
// of the golden files, like another kind of CPU: NAME=VALUE settings, separated by spaces, that
// replace those of [PinBits].
//
//	GOTRAINER_TEST_PINS="ATEN_CPU_CAPABILITY=default MKL_CBWR=SSE4_2" go test ./nn
//
// A setting without a value unsets the variable. REPRODUCIBLE_ANSWER=0 disables the library that
// makes MKL treat all kinds of CPUs alike.
const TestPins = "GOTRAINER_TEST_PINS"

// answer is the setting in [TestPins] that is not itself an environment variable.
const answer = "REPRODUCIBLE_ANSWER"

// PinBits makes the numbers of this process reproducible, with the settings of the golden files, as
// modified by [TestPins]. Call it in TestMain: libtorch reads the settings once, when it is loaded.
// If the CPU does not support this, nothing is pinned: its fingerprint then differs, and golden
// values are compared with a tolerance.
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

// Pinned reports whether [PinBits] has pinned the numbers of this process. If not, two ways to
// compute the same number may round differently, because MKL's kernels then depend on the alignment
// of matrices in memory.
func Pinned() bool { return pinned }

// parsePins parses the value of [TestPins].
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
