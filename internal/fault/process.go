package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gotrainer/gotrainer/run"
)

// process is a victim process.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr *os.File
	said   chan line     // its output, except outcomes and memory; closed at its end
	read   chan struct{} // closed when all output has been read

	outcomes []string
	memories []memory
	begun    time.Time
}

// line is a line of output: a word and the rest.
type line struct{ word, rest string }

// newProcess prepares a victim. The folder is for what it writes outside the run; env is set only
// for it.
func newProcess(p plan, dir string, env ...string) (*process, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	v := &process{cmd: exec.Command(self), said: make(chan line, 1024), read: make(chan struct{})}
	v.cmd.Env = append(append(os.Environ(), victimVariable+"="+string(text)), env...)
	v.cmd.SysProcAttr = new(syscall.SysProcAttr)
	if p.Disk > 0 {
		v.cmd.SysProcAttr = ownMounts()
	}
	v.cmd.SysProcAttr.Setpgid = true // a signal to this program's group must not reach its victims
	if v.stderr, err = os.CreateTemp(dir, "stderr-*"); err != nil {
		return nil, err
	}
	v.cmd.Stderr = v.stderr
	return v, nil
}

func (v *process) start() error {
	out, err := v.cmd.StdoutPipe()
	if err == nil {
		v.stdin, err = v.cmd.StdinPipe()
	}
	if err == nil {
		v.begun = time.Now()
		err = v.cmd.Start()
	}
	if err != nil {
		return err
	}
	go func() {
		defer close(v.read)
		defer close(v.said)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			v.hear(lines.Text())
		}
	}()
	return nil
}

func (v *process) hear(text string) {
	word, rest, _ := strings.Cut(text, " ")
	switch word {
	case saidOutcome:
		v.outcomes = append(v.outcomes, rest)
	case saidMemory:
		var m memory
		if json.Unmarshal([]byte(rest), &m) == nil {
			v.memories = append(v.memories, m)
		}
	default:
		select {
		case v.said <- line{word, rest}:
		default: // not being waited for
		}
	}
}

func (v *process) pid() int { return v.cmd.Process.Pid }

// patience is how long a victim may print nothing.
const patience = 2 * time.Minute

// waitFor waits until the victim prints a word.
func (v *process) waitFor(word string) error {
	deadline := time.After(patience)
	for {
		select {
		case l, ok := <-v.said:
			if !ok {
				return fmt.Errorf("the victim ended before it said %q: %s", word, v.complaint())
			}
			if l.word == word {
				return nil
			}
		case <-deadline:
			_ = v.cmd.Process.Kill()
			return fmt.Errorf("the victim did not say %q within %v", word, patience)
		}
	}
}

// open lets the victim pass its gate.
func (v *process) open() error {
	_, err := io.WriteString(v.stdin, "\n")
	return err
}

// signal sends a signal; a victim that has ended ignores it.
func (v *process) signal(s syscall.Signal) { _ = v.cmd.Process.Signal(s) }

// wait waits for the end of the process and returns how it ended.
func (v *process) wait() ending {
	timer := time.AfterFunc(10*patience, func() { _ = v.cmd.Process.Kill() })
	defer timer.Stop()
	<-v.read
	err := v.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return ending{code: -1, complaint: err.Error()}
	}
	return v.ending(v.cmd.ProcessState.ExitCode())
}

// reaped is called instead of wait if the tracer has already reaped the process.
func (v *process) reaped() {
	<-v.read
	_ = v.cmd.Process.Release()
}

// ending is how a victim ended.
type ending struct {
	code      int // exit code; -1: it was killed
	outcomes  []string
	record    run.Record
	complaint string
	took      time.Duration
}

func (v *process) ending(code int) ending {
	e := ending{code: code, outcomes: v.outcomes, took: time.Since(v.begun), complaint: v.complaint()}
	slices.Sort(e.outcomes)
	lines := strings.Split(strings.TrimSpace(e.complaint), "\n")
	_ = json.Unmarshal([]byte(lines[len(lines)-1]), &e.record) // a killed process has printed none
	_ = v.stderr.Close()
	_ = os.Remove(v.stderr.Name())
	return e
}

// complaint returns what the victim wrote to standard error.
func (v *process) complaint() string {
	text, err := os.ReadFile(v.stderr.Name())
	if err != nil {
		return err.Error()
	}
	const most = 4000
	return string(text[max(0, len(text)-most):])
}

// runPlan runs a victim to its end.
func runPlan(p plan, dir string) (ending, error) {
	v, err := newProcess(p, dir)
	if err == nil {
		err = v.start()
	}
	if err != nil {
		return ending{}, err
	}
	return v.wait(), nil
}

var (
	times = regexp.MustCompile(`"[a-z_]*(runtime|per_second)": ?[0-9.e+-]+,?`)
	// Files that are not compared: their contents depend on times or the process.
	notBits    = []string{".lock", "MANIFEST.json", "metrics.csv"}
	runFolder  = regexp.MustCompile(`[^"]*/run-[0-9]+/`)
	isRecorded = regexp.MustCompile(`\.jsonl?$`)
)

// bits returns everything that a run leaves, except times: the weights, optimizer and log that its
// last process reported, and its files.
func bits(e ending, dir string) (map[string]string, error) {
	all := map[string]string{}
	for _, o := range e.outcomes {
		var plain outcome
		if err := json.Unmarshal([]byte(o), &plain); err != nil {
			return nil, fmt.Errorf("the victim's outcome %q: %w", o, err)
		}
		plain.Warnings = nil // of the process, not of the run
		all[fmt.Sprint("outcome of trainer ", plain.Trainer)] = fmt.Sprintf("%+v", plain)
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || slices.Contains(notBits, d.Name()) {
			return err
		}
		text, err := os.ReadFile(path)
		if isRecorded.MatchString(path) {
			text = times.ReplaceAll(text, nil)
		}
		name, _ := filepath.Rel(dir, path)
		all[name] = runFolder.ReplaceAllString(string(text), "DIR/") // the run may have been started in another folder
		return err
	})
	if errors.Is(err, fs.ErrNotExist) { // a run without a folder has only outcomes
		err = nil
	}
	return all, err
}

// difference names what differs between two runs; empty: nothing.
func difference(want, got map[string]string) string {
	var list []string
	for name, w := range want {
		g, ok := got[name]
		switch {
		case !ok:
			list = append(list, name+" is missing")
		case g != w && len(w) < 500 && strings.HasPrefix(name, "outcome"):
			list = append(list, fmt.Sprintf("%s: want %s, got %s", name, w, g))
		case g != w:
			list = append(list, name+" differs")
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			list = append(list, name+" is left")
		}
	}
	slices.Sort(list)
	return strings.Join(list, "; ")
}
