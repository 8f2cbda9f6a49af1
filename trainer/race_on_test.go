//go:build race

package trainer_test

// raceEnabled makes the tests of many runs content with fewer: under the race detector each takes
// many times as long.
const raceEnabled = true
