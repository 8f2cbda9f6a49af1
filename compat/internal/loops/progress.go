package loops

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/gotrainer/gotrainer/internal/terminal"
)

// Progress shows the progress of a pass over batches: on a terminal a line that is redrawn, at most
// ten times per second, and elsewhere one line at the end. A nil Progress shows nothing.
type Progress struct {
	out         io.Writer
	text        func() string // returns the current line
	terminal    bool
	what        string
	done, total int
	began       time.Time
	shown       time.Time
}

// NewLine starts a pass whose line is returned by text.
func NewLine(out io.Writer, text func() string) *Progress {
	return &Progress{out: out, text: text, terminal: terminal.Is(out), began: time.Now()}
}

// NewProgress starts a pass of a number of batches, shown like tqdm.
func NewProgress(out io.Writer, what string, total int) *Progress {
	p := NewLine(out, nil)
	p.text, p.what, p.total = p.String, what, total
	return p
}

// Show sets the number of batches done.
func (p *Progress) Show(done int) {
	if p == nil {
		return
	}
	p.done = done
	if now := time.Now(); p.terminal && now.Sub(p.shown) > 100*time.Millisecond {
		p.shown = now
		_, _ = fmt.Fprint(p.out, "\r\x1b[K", p.text())
	}
}

// Add counts a batch.
func (p *Progress) Add() {
	if p != nil {
		p.Show(p.done + 1)
	}
}

// End leaves the line in its current state.
func (p *Progress) End() {
	if p != nil {
		_, _ = fmt.Fprintln(p.out, terminal.ClearLine(p.out)+p.text())
	}
}

// String returns the bar: " 50%|█████ | 4/8", on a terminal followed by the speed.
func (p *Progress) String() string {
	const width = 20
	share := 1.0
	if p.total > 0 {
		share = min(1, float64(p.done)/float64(p.total))
	}
	full := int(share * width)
	text := fmt.Sprintf("%s%3.0f%%|%s%s| %d/%d", p.what, 100*share, strings.Repeat("█", full),
		strings.Repeat(" ", width-full), p.done, p.total)
	if p.terminal {
		text += fmt.Sprintf(", %.1f batches/s", float64(p.done)/time.Since(p.began).Seconds())
	}
	return text
}
