package pymarlin

import (
	"fmt"
	"io"
	"os"
	"time"
)

// Progress is the line that counts batches on a terminal: tqdm. A nil Progress shows nothing.
type Progress struct {
	out   io.Writer
	now   func() time.Time
	shown time.Time
	began time.Time
	open  bool
}

// newProgress is nil where standard error is no terminal: a log file has no use for a line that is
// written over.
func newProgress(disabled bool) *Progress {
	info, err := os.Stderr.Stat()
	if disabled || err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return nil
	}
	return &Progress{out: os.Stderr, now: time.Now}
}

// show counts a batch. The line is written ten times a second at most.
func (p *Progress) show(what string, done, total int) {
	if p == nil {
		return
	}
	now := p.now()
	if !p.open {
		p.began, p.open = now, true
	} else if now.Sub(p.shown) < 100*time.Millisecond && done < total {
		return
	}
	p.shown = now
	rate := ""
	if seconds := now.Sub(p.began).Seconds(); seconds > 0 {
		rate = fmt.Sprintf(", %.1f batches/s", float64(done-1)/seconds)
	}
	fmt.Fprintf(p.out, "\r\x1b[K%s %d/%d%s", what, done, total, rate)
}

// end leaves the line as it is.
func (p *Progress) end() {
	if p != nil && p.open {
		fmt.Fprintln(p.out)
		p.open = false
	}
}
