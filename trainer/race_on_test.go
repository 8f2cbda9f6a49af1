//go:build race

package trainer_test

// raceEnabled makes tests with many runs use fewer of them: under the race detector each takes many
// times as long.
const raceEnabled = true
