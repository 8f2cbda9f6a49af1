//go:build race

package peak

const raceDetector = true
