package launch

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
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

// lingerTimeout is how long the output of a process is waited for that has ended, and left something
// running which has it too.
var lingerTimeout = time.Second

// pipeSize is how much a pipe holds: the rest of the output of a process that has ended is no more.
const pipeSize = 64 << 10

// outputs are those of a process on their way. os/exec would drop what cannot be passed on within
// its WaitDelay after the end of the process.
type outputs struct {
	pipes  []*os.File
	copies sync.WaitGroup
	errs   [2]error // of stdout and stderr
}

// startPiped starts a process and passes its output on.
func startPiped(c *exec.Cmd, stdout, stderr *prefixed) (*outputs, error) {
	o := &outputs{}
	var theirs []*os.File
	for range o.errs {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, errors.Join(err, closeAll(o.pipes), closeAll(theirs))
		}
		o.pipes, theirs = append(o.pipes, r), append(theirs, w)
	}
	c.Stdout, c.Stderr = theirs[0], theirs[1]
	err := c.Start()
	_ = closeAll(theirs) // the process has its own
	if err != nil {
		return nil, errors.Join(err, closeAll(o.pipes))
	}
	for i, p := range []*prefixed{stdout, stderr} {
		o.copies.Go(func() { o.errs[i] = p.copy(o.pipes[i]) })
	}
	return o, nil
}

// end says that the process has ended.
func (o *outputs) end() {
	for _, r := range o.pipes {
		_ = r.SetReadDeadline(time.Now().Add(lingerTimeout)) // it may be at its end already
	}
}

// wait returns when what the process has written is passed on, however long that takes.
func (o *outputs) wait() error {
	o.copies.Wait()
	return cmp.Or(o.errs[0], o.errs[1])
}

func closeAll(files []*os.File) (err error) {
	for _, f := range files {
		err = errors.Join(err, f.Close())
	}
	return err
}

// copy passes on what a process writes, to the end of the pipe. Once the deadline has passed the
// process has ended, and the rest of its output lies in the pipe.
func (p *prefixed) copy(r *os.File) error {
	defer r.Close() //nolint:errcheck // of a pipe that is read
	defer p.flush()
	b := make([]byte, 32<<10)
	rest := pipeSize
	for late := false; rest > 0; {
		if late {
			_ = r.SetReadDeadline(time.Now().Add(10 * time.Millisecond)) // enough for what is there
		}
		n, err := r.Read(b)
		if late {
			rest -= n
		}
		if n > 0 {
			if _, err := p.Write(b[:n]); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded) && !late:
			late = true
		case errors.Is(err, io.EOF), errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		case err != nil:
			return err
		}
	}
	return nil
}
