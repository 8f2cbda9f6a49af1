//go:build !race

package torch_test

const raceDetector = false
