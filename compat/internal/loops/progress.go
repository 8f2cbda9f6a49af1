package loops

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/gotrainer/gotrainer/internal/terminal"
)

// Progress shows how far a pass over batches is: a line that is redrawn on a terminal, ten times a
// second at most, and elsewhere one line when the pass ends. Nil shows nothing.
type Progress struct {
	out         io.Writer
	text        func() string // returns the current line
	terminal    bool
	what        string
	done, total int
	began       time.Time
	shown       time.Time
}

// NewLine begins a pass that is shown by what text returns.
func NewLine(out io.Writer, text func() string) *Progress {
	return &Progress{out: out, text: text, terminal: terminal.Is(out), began: time.Now()}
}

// NewProgress begins a pass of so many batches, which is shown as tqdm does.
func NewProgress(out io.Writer, what string, total int) *Progress {
	p := NewLine(out, nil)
	p.text, p.what, p.total = p.String, what, total
	return p
}

// Show says how many batches are done.
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

// End leaves the line as it is now.
func (p *Progress) End() {
	if p != nil {
		_, _ = fmt.Fprintln(p.out, terminal.ClearLine(p.out)+p.text())
	}
}

// String draws the bar: " 50%|█████     | 4/8", on a terminal with the speed behind it.
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
