// Package launch starts the processes of a run on this machine, as torchrun does, and looks after
// them. It is what `gotrainer launch` runs.
//
//	err := launch.Run(ctx, launch.Options{Processes: 4, Command: []string{"./train", "-epochs", "3"}})
//
// Every process gets RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT.
// They meet at the launcher's own store, so no port has to be chosen, and Python programs that use
// torch.distributed can be started too. Each line of output is prefixed with the rank. When one
// process fails the others are ended; signals are passed on.
package launch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/gotrainer/gotrainer/dist/tcpstore"
)

// Options configures [Run].
type Options struct {
	Processes int      // number of processes on this machine; required
	Command   []string // program and arguments; required

	// Nodes is the number of machines, each of which runs Processes; zero means only this one.
	// NodeRank is the number of this machine. All machines are given the same Master, "host:port",
	// where NodeRank 0 opens the store. With one machine it may be empty: any free port.
	Nodes, NodeRank int
	Master          string

	Env            []string  // added to the environment of this process
	Stdout, Stderr io.Writer // nil: those of this process

	// MaxRestarts is how often all processes are restarted after one has failed, as with torchrun.
	// Their TORCHELASTIC_RESTART_COUNT is the number of restarts. A program then continues with
	// trainer.Options.ResumeFrom. After a signal, or when the context has ended, nothing is
	// restarted.
	MaxRestarts int

	// Signals are passed on to the processes; nil: none. The end of the context is passed on as
	// SIGTERM. A SIGINT or SIGTERM that also ends the context is passed on only once.
	Signals <-chan os.Signal

	// how long the other processes may take to exit after one has failed, before they get SIGTERM;
	// zero: 3 seconds
	Patience time.Duration
	Grace    time.Duration // time between SIGTERM and SIGKILL; zero: 30 seconds, as with torchrun
}

// Error describes the first process that failed.
type Error struct {
	Rank int
	Err  error // an *exec.ExitError if the process was started
}

func (e *Error) Error() string { return fmt.Sprintf("launch: rank %d: %v", e.Rank, e.Err) }
func (e *Error) Unwrap() error { return e.Err }

// ExitCode returns the exit code of the process. If a signal ended it, that is 128 plus the number
// of the signal, as in a shell.
func (e *Error) ExitCode() int {
	exit, ok := errors.AsType[*exec.ExitError](e.Err)
	if !ok {
		return 1
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return exit.ExitCode()
}

func (o *Options) resolve() error {
	if o.Nodes == 0 {
		o.Nodes = 1
	}
	for _, t := range []struct {
		value *time.Duration
		usual time.Duration
	}{{&o.Patience, 3 * time.Second}, {&o.Grace, 30 * time.Second}} {
		if *t.value == 0 {
			*t.value = t.usual
		}
	}
	if o.Stdout == nil {
		o.Stdout = os.Stdout
	}
	if o.Stderr == nil {
		o.Stderr = os.Stderr
	}
	switch {
	case o.Processes < 1:
		return fmt.Errorf("launch: Options.Processes is %d; want at least 1", o.Processes)
	case len(o.Command) == 0:
		return errors.New("launch: Options.Command is empty; want a program and its arguments")
	case o.Nodes < 1 || o.NodeRank < 0 || o.NodeRank >= o.Nodes:
		return fmt.Errorf("launch: Options.NodeRank is %d of %d Nodes; it counts from 0", o.NodeRank, o.Nodes)
	case o.Nodes > 1 && o.Master == "":
		return errors.New("launch: Options.Master is empty; with several machines it must say where they meet, as " +
			"host:port")
	case o.MaxRestarts < 0:
		return fmt.Errorf("launch: Options.MaxRestarts is %d; want 0 or more", o.MaxRestarts)
	case o.Patience < 0 || o.Grace < 0:
		return errors.New("launch: Options.Patience and Options.Grace must not be negative")
	}
	return nil
}

// Run starts the processes and waits for all of them. It returns nil or an [*Error] with the first
// one that failed.
func Run(ctx context.Context, o Options) error {
	if err := o.resolve(); err != nil {
		return err
	}
	host, port, err := o.meet()
	if err != nil {
		return err
	}
	defer port.close()
	runtime.LockOSThread() // Pdeathsig is sent when the thread ends that started the process
	defer runtime.UnlockOSThread()
	for restart := 0; ; restart++ {
		r := &run{o: o, ended: make(chan end, o.Processes)}
		if err := r.start(host, port.number, restart); err != nil {
			return err
		}
		err := r.watch(ctx)
		if e := r.written(); err == nil {
			return e
		}
		if r.asked || restart == o.MaxRestarts {
			return err
		}
		fmt.Fprintf(o.Stderr, "%v; all are started again, restart %d of %d\n", err, restart+1, o.MaxRestarts)
	}
}

// start starts the processes.
func (r *run) start(host, port string, restart int) error {
	o := r.o
	out, errOut := &lines{w: o.Stdout}, &lines{w: o.Stderr}
	for local := range o.Processes {
		rank := o.NodeRank*o.Processes + local
		c := exec.Command(o.Command[0], o.Command[1:]...)
		c.Env = append(os.Environ(), o.Env...)
		if os.Getenv("OMP_NUM_THREADS") == "" {
			c.Env = append(c.Env, "OMP_NUM_THREADS="+strconv.Itoa(max(1, runtime.NumCPU()/o.Processes)))
		}
		for name, value := range map[string]int{"RANK": rank, "LOCAL_RANK": local, "WORLD_SIZE": o.Processes * o.Nodes,
			"LOCAL_WORLD_SIZE": o.Processes, "GROUP_RANK": o.NodeRank, "TORCHELASTIC_RESTART_COUNT": restart,
			"TORCHELASTIC_MAX_RESTARTS": o.MaxRestarts} {
			c.Env = append(c.Env, name+"="+strconv.Itoa(value))
		}
		c.Env = append(c.Env, "MASTER_ADDR="+host, "MASTER_PORT="+port, "TORCHELASTIC_USE_AGENT_STORE=True")
		c.SysProcAttr = attributes()
		outputs, err := startPiped(c, out.prefixed(rank), errOut.prefixed(rank))
		if err != nil {
			r.kill(syscall.SIGKILL)
			r.drain()
			return &Error{rank, err}
		}
		r.running, r.outputs = append(r.running, c), append(r.outputs, outputs)
		go func() {
			err := c.Wait()
			outputs.end()
			r.ended <- end{rank, c, err}
		}()
	}
	return nil
}

// place is the port where the processes meet, and the store there if it is ours.
type place struct {
	number string
	store  *tcpstore.Server
}

func (p place) close() {
	if p.store != nil {
		_ = p.store.Close()
	}
}

func (o *Options) meet() (host string, p place, err error) {
	address := o.Master
	if address == "" {
		address = "127.0.0.1:0"
	}
	host, p.number, err = net.SplitHostPort(address)
	if err != nil {
		return "", p, fmt.Errorf("launch: Options.Master is %q; want host:port: %w", o.Master, err)
	}
	if o.NodeRank > 0 {
		return host, p, nil
	}
	listen := address
	if o.Nodes > 1 {
		listen = ":" + p.number
	}
	if p.store, err = tcpstore.Listen(listen); err != nil {
		return "", p, fmt.Errorf("launch: cannot open the place where the processes meet; choose another port: %w", err)
	}
	_, p.number, err = net.SplitHostPort(p.store.Addr().String())
	return host, p, err
}

type end struct {
	rank int
	cmd  *exec.Cmd
	err  error
}

// run holds the running processes. It is used by one goroutine.
type run struct {
	o       Options
	running []*exec.Cmd
	outputs []*outputs // of all processes started
	ended   chan end
	asked   bool // a signal or the context has asked the processes to end
}

// kill sends a signal to the running processes and their children: the command may be a script that
// runs the program.
func (r *run) kill(s os.Signal) {
	for _, c := range r.running {
		_ = send(c.Process, s) // an error is ignored: it may have just ended
	}
}

func (r *run) drop(c *exec.Cmd) (left int) {
	for i := range r.running {
		if r.running[i] == c {
			r.running = append(r.running[:i], r.running[i+1:]...)
			break
		}
	}
	return len(r.running)
}

func (r *run) drain() {
	for len(r.running) > 0 {
		r.drop((<-r.ended).cmd)
	}
	_ = r.written()
}

// written waits until all output of the processes that have ended has been forwarded.
func (r *run) written() (err error) {
	for _, o := range r.outputs {
		err = cmp.Or(err, o.wait())
	}
	if err != nil {
		return fmt.Errorf("launch: what a process has written could not be passed on: %w", err)
	}
	return nil
}

// watch waits until all processes have ended.
func (r *run) watch(ctx context.Context) error {
	var first error
	var timer <-chan time.Time
	next := syscall.SIGTERM // sent when the timer fires
	cancelled := ctx.Done()
	// What has asked the processes to end. The same request may arrive as a signal and through the
	// context; a second signal would end them before they have saved.
	bySignal, byContext := false, false
	for {
		select {
		case e := <-r.ended:
			if e.err != nil && first == nil {
				first = &Error{e.rank, e.err}
				if timer == nil {
					patience := r.o.Patience
					if r.asked { // by SIGUSR1 or SIGHUP: each leaves in its time, and another signal would end it at once
						patience = r.o.Grace
					}
					timer = time.After(patience)
				}
			}
			if r.drop(e.cmd) == 0 {
				return first
			}
		case s := <-r.o.Signals:
			r.asked = true
			ends := s == os.Interrupt || s == syscall.SIGTERM
			if ends && byContext {
				byContext = false
				continue
			}
			r.kill(s)
			if ends {
				bySignal, timer, next = true, time.After(r.o.Grace), syscall.SIGKILL
			}
		case <-cancelled:
			cancelled, r.asked = nil, true
			if bySignal {
				continue
			}
			r.kill(syscall.SIGTERM)
			byContext, timer, next = true, time.After(r.o.Grace), syscall.SIGKILL
		case <-timer:
			r.kill(next)
			timer, next = time.After(r.o.Grace), syscall.SIGKILL
		}
	}
}
