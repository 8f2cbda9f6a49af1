package launch

import (
	"bytes"
	"fmt"
	"io"
	"sync"
)

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
	n := len(b)
	var out []byte
	for {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			break
		}
		out = append(append(append(out, p.prefix...), p.part...), b[:i+1]...)
		p.part, b = p.part[:0], b[i+1:]
	}
	p.part = append(p.part, b...)
	if len(out) == 0 {
		return n, nil
	}
	p.lines.mu.Lock()
	defer p.lines.mu.Unlock()
	if _, err := p.lines.w.Write(out); err != nil {
		return 0, err
	}
	return n, nil
}

// flush writes what is left without an end of line.
func (p *prefixed) flush() {
	if len(p.part) > 0 {
		_, _ = p.Write([]byte{'\n'})
	}
}
