//go:build linux

package main

import (
	"bytes"
	"image/gif"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheScreenShowsWhatATerminalWould(t *testing.T) {
	for _, c := range []struct {
		name string
		text []string // in the chunks in which it arrives
		want string
	}{
		{"lines", []string{"a\r\nb"}, "a|b|"},
		{"a line that is drawn again", []string{"\rabc\x1b[K", "\rd\x1b[K"}, "d||"},
		{"an escape sequence in two parts", []string{"abc\r\x1b", "[Kd"}, "d||"},
		{"a character in two parts", []string{"\xe2\x94", "\x8c"}, "┌||"},
		{"a long line", []string{"abcdef"}, "abcd|ef|"},
		{"more lines than there are", []string{"a\r\nb\r\nc\r\nd"}, "b|c|d"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScreen(4, 3)
			for _, text := range c.text {
				s.write([]byte(text), false)
			}
			var lines []string
			for line := range strings.Lines(s.String()) {
				lines = append(lines, strings.TrimRight(line, " \n"))
			}
			assert.Equal(t, c.want, strings.Join(lines, "|"))
		})
	}
}

// A viewer draws the images over one another; the result must be the screen.
func TestTheLastPictureIsTheScreen(t *testing.T) {
	f, err := newFilm()
	require.NoError(t, err)
	s := newScreen(20, 3)
	for _, text := range []string{"$ ./digits", "\r\nepoch 1", "\r\nepoch 2\r\n", "┌──┐", ""} {
		s.write([]byte(text), text == "$ ./digits")
		f.add(s, 333*time.Millisecond)
	}
	var b bytes.Buffer
	require.NoError(t, gif.EncodeAll(&b, f.gif()))
	g, err := gif.DecodeAll(&b)
	require.NoError(t, err)
	seen, hundredths := make([]uint8, len(f.last.Pix)), 0
	for i, p := range g.Image {
		hundredths += g.Delay[i]
		for y := p.Rect.Min.Y; y < p.Rect.Max.Y; y++ {
			for x := p.Rect.Min.X; x < p.Rect.Max.X; x++ {
				if index := p.ColorIndexAt(x, y); index != 0 {
					seen[y*f.last.Stride+x] = index
				}
			}
		}
	}
	assert.Len(t, g.Image, 4, "nothing was new in the last")
	assert.Equal(t, f.draw(s).Pix, seen)
	assert.Equal(t, 166, hundredths)
}

func TestThePictureOfTheREADMEIsSmall(t *testing.T) {
	info, err := os.Stat("../../docs/demo.gif")
	require.NoError(t, err)
	assert.Less(t, info.Size(), int64(300_000))
}
