package loops

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/gotrainer/gotrainer/internal/terminal"
)

// Progress shows how far a pass over batches is, as tqdm does: a line that is redrawn on a
// terminal, ten times a second at most, and elsewhere one line when the pass ends. Nil shows
// nothing.
type Progress struct {
	out         io.Writer
	what        string
	done, total int
	began       time.Time
	shown       time.Time
}

// NewProgress begins a pass of so many batches.
func NewProgress(out io.Writer, what string, total int) *Progress {
	return &Progress{out: out, what: what, total: total, began: time.Now()}
}

// Show says how many batches are done.
func (p *Progress) Show(done int) {
	if p == nil {
		return
	}
	p.done = done
	if now := time.Now(); terminal.Is(p.out) && (p.done >= p.total || now.Sub(p.shown) > 100*time.Millisecond) {
		p.shown = now
		_, _ = fmt.Fprintf(p.out, "\r\x1b[K%s, %.1f batches/s", p, float64(p.done)/now.Sub(p.began).Seconds())
	}
}

// Add counts a batch.
func (p *Progress) Add() {
	if p != nil {
		p.Show(p.done + 1)
	}
}

// End leaves the line as it is, and writes it where there is no terminal.
func (p *Progress) End() {
	switch {
	case p == nil:
	case terminal.Is(p.out):
		_, _ = fmt.Fprintln(p.out)
	default:
		_, _ = fmt.Fprintln(p.out, p)
	}
}

// String draws the bar: " 50%|█████     | 4/8".
func (p *Progress) String() string {
	const width = 20
	share := 1.0
	if p.total > 0 {
		share = min(1, float64(p.done)/float64(p.total))
	}
	full := int(share * width)
	return fmt.Sprintf("%s%3.0f%%|%s%s| %d/%d", p.what, 100*share, strings.Repeat("█", full),
		strings.Repeat(" ", width-full), p.done, p.total)
}
