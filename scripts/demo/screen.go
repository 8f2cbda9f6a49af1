//go:build linux

package main

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"
)

// cell is a character of the screen; the zero value is empty.
type cell struct {
	char  rune
	typed bool // by the user, not printed
}

// screen emulates as much of a terminal as a training program needs: text, newlines, and a last
// line that is redrawn.
type screen struct {
	cells    [][]cell
	row, col int
	partial  []byte // incomplete character or escape sequence
}

func newScreen(columns, rows int) *screen {
	s := &screen{cells: make([][]cell, rows)}
	for i := range s.cells {
		s.cells[i] = make([]cell, columns)
	}
	return s
}

var eraseLine = []byte("\x1b[K") // from the cursor to the end of the line

func (s *screen) write(text []byte, typed bool) {
	text = slices.Concat(s.partial, text)
	s.partial = nil
	for len(text) > 0 {
		if bytes.HasPrefix(text, eraseLine) {
			clear(s.cells[s.row][min(s.col, len(s.cells[s.row])):])
			text = text[len(eraseLine):]
			continue
		}
		if !utf8.FullRune(text) || bytes.HasPrefix(eraseLine, text) {
			s.partial = slices.Clone(text)
			return
		}
		char, n := utf8.DecodeRune(text)
		text = text[n:]
		switch char {
		case '\r':
			s.col = 0
		case '\n':
			s.down()
		default:
			if s.col == len(s.cells[s.row]) {
				s.col = 0
				s.down()
			}
			s.cells[s.row][s.col] = cell{char, typed}
			s.col++
		}
	}
}

// down moves the cursor one line down, and scrolls if it is on the last line.
func (s *screen) down() {
	if s.row++; s.row < len(s.cells) {
		return
	}
	s.row--
	first := s.cells[0]
	clear(first)
	s.cells = append(s.cells[1:], first)
}

// String returns the text on the screen.
func (s *screen) String() string {
	var b strings.Builder
	for _, line := range s.cells {
		for _, c := range line {
			b.WriteRune(max(c.char, ' '))
		}
		b.WriteByte('\n')
	}
	return b.String()
}
