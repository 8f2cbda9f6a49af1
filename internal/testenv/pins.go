package testenv

import (
	"fmt"
	"maps"
	"os"
	"strings"
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

// answer is the setting of [TestPins] that is no environment variable.
const answer = "REPRODUCIBLE_ANSWER"

// pins choose the code paths of libtorch, MKL and oneDNN that the recorded runs took; other paths
// differ in last bits.
var pins = map[string]string{
	"ATEN_CPU_CAPABILITY": "avx2",
	"MKL_CBWR":            "COMPATIBLE",
	"ONEDNN_MAX_CPU_ISA":  "AVX2",
	"OMP_NUM_THREADS":     "1",
	"MKL_NUM_THREADS":     "1",
}

var pinned bool

// PinBits chooses the code paths of the recorded runs for this process, but for what [TestPins]
// replaces. Call it in TestMain: libtorch reads the environment once, when it is loaded.
func PinBits() {
	settings, err := replaced(pins, os.Getenv(TestPins))
	if err != nil {
		panic(err)
	}
	for name, value := range settings {
		if err := set(name, value); err != nil {
			panic(err)
		}
	}
	pinned = true
}

// replaced returns the settings with those of text, the value of [TestPins], in their places.
func replaced(settings map[string]string, text string) (map[string]string, error) {
	settings = maps.Clone(settings)
	for _, setting := range strings.Fields(text) {
		name, value, ok := strings.Cut(setting, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("%s: %q is no setting: want NAME=VALUE, separated by spaces", TestPins, setting)
		}
		settings[name] = value
	}
	delete(settings, answer)
	return settings, nil
}

func set(name, value string) error {
	if value == "" {
		return os.Unsetenv(name)
	}
	return os.Setenv(name, value)
}
