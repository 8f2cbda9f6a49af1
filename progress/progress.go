// Package progress provides a progress bar for a program's own loops, like Python's tqdm: one line
// that is redrawn on a terminal, and plain lines elsewhere. Package trainer shows the progress of
// its runs itself.
//
//	bar := progress.New(steps, progress.Options{})
//	for batch, err := range loader.Epoch(ctx, 0, 0) {
//		...
//		bar.Update(1)
//	}
//	bar.Close()
//
// [Range] does both for a loop over numbers:
//
//	for i := range progress.Range(steps, progress.Options{Description: "training"}) {
package progress

import (
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gotrainer/gotrainer/internal/terminal"
)

// Options configures a [Bar].
type Options struct {
	Description string    // shown before the bar
	Unit        string    // name of a step; empty: "it"
	Out         io.Writer // where it is shown; nil: standard error. io.Discard: nowhere
}

// Bar shows the progress of a loop. It is for use by one goroutine at a time.
type Bar struct {
	o       Options
	total   int
	n       int
	postfix string

	terminal, utf8 bool
	width          func() int
	now            func() time.Time
	begin, drawn   time.Time
	open, closed   bool
	tenth          int // last tenth of the total that was printed, if there is no terminal
}

// every is the shortest time between two redraws; a fast loop must not spend its time on the
// terminal.
const every = 100 * time.Millisecond

// New makes a bar of total steps and shows it; 0: the number of steps is not known.
func New(total int, o Options) *Bar {
	if o.Out == nil {
		o.Out = os.Stderr
	}
	if o.Unit == "" {
		o.Unit = "it"
	}
	b := &Bar{o: o, total: max(0, total), terminal: terminal.Is(o.Out), utf8: terminal.IsUTF8(os.Getenv), now: time.Now,
		width: func() int { return terminal.Width(o.Out) - 1 }} // a full last column makes some terminals wrap
	b.begin = b.now()
	b.draw()
	return b
}

// Range iterates over 0 to n-1 and shows the progress: tqdm(range(n)).
func Range(n int, o Options) iter.Seq[int] {
	return func(yield func(int) bool) {
		b := New(n, o)
		defer b.Close()
		for i := range n {
			if !yield(i) {
				return
			}
			b.Update(1)
		}
	}
}

// Update counts n further steps.
func (b *Bar) Update(n int) {
	b.n += n
	switch {
	case b.closed:
	case b.terminal && (b.now().Sub(b.drawn) >= every || b.n == b.total):
		b.draw()
	case !b.terminal && b.total > 0 && b.n < b.total && b.n*10/b.total > b.tenth:
		b.tenth = b.n * 10 / b.total
		b.line()
	}
}

// SetPostfix sets the text that is shown after the bar, such as "loss=0.31".
func (b *Bar) SetPostfix(text string) { b.postfix = text }

// Println writes a line to w without disturbing the bar: tqdm.write.
func (b *Bar) Println(w io.Writer, a ...any) {
	if b.open {
		fmt.Fprint(b.o.Out, "\r\x1b[K")
	}
	fmt.Fprintln(w, a...)
	if b.open {
		b.draw()
	}
}

// Close draws the bar a last time and ends its line. A second call does nothing.
func (b *Bar) Close() {
	if b.closed {
		return
	}
	if b.closed = true; b.terminal {
		b.draw()
		fmt.Fprintln(b.o.Out)
	} else {
		b.line()
	}
	b.open = false
}

// draw redraws the line of a terminal.
func (b *Bar) draw() {
	if b.terminal {
		b.drawn, b.open = b.now(), true
		fmt.Fprintf(b.o.Out, "\r%s\x1b[K", b.text(b.width()))
	}
}

// line prints a plain line, if there is no terminal.
func (b *Bar) line() { fmt.Fprintln(b.o.Out, b.text(80)) }

// text formats the line in the given number of columns: format_meter of tqdm.
func (b *Bar) text(columns int) string {
	elapsed := b.now().Sub(b.begin).Seconds()
	rate := 0.0
	if elapsed > 0 {
		rate = float64(b.n) / elapsed
	}
	speed, left := "?"+b.o.Unit+"/s", "?"
	if rate > 0 {
		left = clock((float64(b.total) - float64(b.n)) / rate)
		if speed = fmt.Sprintf("%5.2f%s/s", rate, b.o.Unit); rate < 1 {
			speed = fmt.Sprintf("%5.2fs/%s", 1/rate, b.o.Unit)
		}
	}
	if b.postfix != "" {
		speed += ", " + b.postfix
	}
	head := ""
	if b.o.Description != "" {
		head = strings.TrimSuffix(b.o.Description, ": ") + ": "
	}
	if b.total == 0 || b.n > b.total {
		return cut(fmt.Sprintf("%s%d%s [%s, %s]", head, b.n, b.o.Unit, clock(elapsed), speed), columns)
	}
	share := max(0, float64(b.n)/float64(b.total))
	head += fmt.Sprintf("%3.0f%%|", share*100)
	tail := fmt.Sprintf("| %d/%d [%s<%s, %s]", b.n, b.total, clock(elapsed), left, speed)
	width := max(1, columns-utf8.RuneCountInString(head)-utf8.RuneCountInString(tail))
	return cut(head+blocks(share, width, b.utf8)+tail, columns)
}

// blocks returns the bar itself, in eighths of a column, or tenths in ASCII.
func blocks(share float64, width int, unicode bool) string {
	steps := []rune(" 123456789#")
	if unicode {
		steps = []rune(" ▏▎▍▌▋▊▉█")
	}
	parts := len(steps) - 1
	done := int(share * float64(width) * float64(parts))
	full := done / parts
	bar := strings.Repeat(string(steps[parts]), full)
	if full < width {
		bar += string(steps[done%parts]) + strings.Repeat(" ", width-full-1)
	}
	return bar
}

func cut(s string, columns int) string {
	if r := []rune(s); len(r) > columns {
		return string(r[:max(0, columns)])
	}
	return s
}

// clock formats seconds: 00:48, 12:05, 3:12:05.
func clock(seconds float64) string {
	s := int(math.Min(math.Max(seconds, 0), 1e9))
	if s < 3600 {
		return fmt.Sprintf("%02d:%02d", s/60, s%60)
	}
	return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
}
