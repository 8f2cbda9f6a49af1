package main

import (
	"os"
	"strings"
)

// readCharset reads the classes of the plates: the blank, then one character a line; the file's
// last is its own blank.
func readCharset(path string) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	characters := strings.Fields(string(text))
	return append([]string{""}, characters[:len(characters)-1]...), nil
}
