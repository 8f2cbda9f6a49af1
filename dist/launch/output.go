package launch

import (
	"bytes"
	"fmt"
	"io"
	"sync"
)

// longestLine is how much of a line that does not end is kept before it is broken.
const longestLine = 64 << 10

// lines writes whole lines of several processes to one place.
type lines struct {
	mu sync.Mutex
	w  io.Writer
}

// prefixed is the output of one process.
func (l *lines) prefixed(rank int) *prefixed {
	return &prefixed{lines: l, prefix: fmt.Appendf(nil, "[%d] ", rank)}
}

type prefixed struct {
	lines  *lines
	prefix []byte
	part   []byte // a line that has not ended
}

// Write is called by one goroutine.
func (p *prefixed) Write(b []byte) (int, error) {
	p.part = append(p.part, b...)
	var out []byte
	begin := 0
	for {
		size := lineSize(p.part[begin:])
		if size == 0 {
			break
		}
		line := p.part[begin : begin+size]
		begin += size
		if string(line) == "\r" { // a progress bar begins with it
			continue
		}
		out = append(append(out, p.prefix...), line...)
		if last := line[size-1]; last != '\n' && last != '\r' {
			out = append(out, '\n')
		}
	}
	p.part = append(p.part[:0], p.part[begin:]...)
	if len(out) == 0 {
		return len(b), nil
	}
	p.lines.mu.Lock()
	defer p.lines.mu.Unlock()
	if _, err := p.lines.w.Write(out); err != nil {
		return 0, err
	}
	return len(b), nil
}

// lineSize is the size of the first line with its end, or of what is broken off one that is too
// long; zero: the line is under way. A progress bar ends its lines by a carriage return.
func lineSize(b []byte) int {
	i := bytes.IndexAny(b, "\r\n")
	switch {
	case i < 0 && len(b) < longestLine, i >= 0 && b[i] == '\r' && i+1 == len(b): // \n may follow
		return 0
	case i < 0:
		return longestLine
	case b[i] == '\r' && b[i+1] == '\n':
		return i + 2
	}
	return i + 1
}

// flush writes what is left without an end of line.
func (p *prefixed) flush() {
	if len(p.part) > 0 {
		_, _ = p.Write([]byte{'\n'})
	}
}
