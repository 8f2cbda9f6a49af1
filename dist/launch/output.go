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

// longestLine is the length at which a line without an end is broken.
const longestLine = 64 << 10

// lines writes whole lines from several processes to one writer.
type lines struct {
	mu sync.Mutex
	w  io.Writer
}

// prefixed returns the writer for the output of one process.
func (l *lines) prefixed(rank int) *prefixed {
	return &prefixed{lines: l, prefix: fmt.Appendf(nil, "[%d] ", rank)}
}

type prefixed struct {
	lines  *lines
	prefix []byte
	part   []byte // an incomplete line
}

// Write may be called by one goroutine at a time.
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
		if string(line) == "\r" { // written by a progress bar at the start of a line
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

// lineSize returns the length of the first line including its end, or of a piece of a line that is
// too long; zero if the line is incomplete. A carriage return ends a line too, as progress bars use
// it.
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

// flush writes an incomplete last line.
func (p *prefixed) flush() {
	if len(p.part) > 0 {
		_, _ = p.Write([]byte{'\n'})
	}
}

// lingerTimeout is how long to wait for output after a process has ended, in case a child that it
// left behind still holds the pipe.
var lingerTimeout = time.Second

// pipeSize is the capacity of a pipe, the most that can be left to read when a process has ended.
const pipeSize = 64 << 10

// outputs forwards the output of one process. os/exec would drop output that cannot be forwarded
// within its WaitDelay after the process has ended.
type outputs struct {
	pipes  []*os.File
	copies sync.WaitGroup
	errs   [2]error // of stdout and stderr
}

// startPiped starts a process and forwards its output.
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
	_ = closeAll(theirs) // the process has its own copies
	if err != nil {
		return nil, errors.Join(err, closeAll(o.pipes))
	}
	for i, p := range []*prefixed{stdout, stderr} {
		o.copies.Go(func() { o.errs[i] = p.copy(o.pipes[i]) })
	}
	return o, nil
}

// end is called when the process has ended.
func (o *outputs) end() {
	for _, r := range o.pipes {
		_ = r.SetReadDeadline(time.Now().Add(lingerTimeout)) // an error is ignored: the pipe may be closed already
	}
}

// wait returns when everything that the process has written is forwarded, however long that takes.
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

// copy forwards a process's output until the end of the pipe. When the read deadline has passed,
// the process has ended, and what is left of its output is in the pipe. Output that cannot be
// written is read all the same, as a closed pipe would end the process; the first error is returned.
func (p *prefixed) copy(r *os.File) (unwritten error) {
	defer r.Close() //nolint:errcheck // of a pipe that is read
	defer p.flush()
	b := make([]byte, 32<<10)
	rest := pipeSize
	for late := false; rest > 0; {
		if late {
			_ = r.SetReadDeadline(time.Now().Add(10 * time.Millisecond)) // enough for data already in the pipe
		}
		n, err := r.Read(b)
		if late {
			rest -= n
		}
		if n > 0 {
			if _, err := p.Write(b[:n]); err != nil && unwritten == nil {
				unwritten = err
			}
		}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded) && !late:
			late = true
		case errors.Is(err, io.EOF), errors.Is(err, os.ErrDeadlineExceeded):
			return unwritten
		case err != nil:
			return err
		}
	}
	return unwritten
}
