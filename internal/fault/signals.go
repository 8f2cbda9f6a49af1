package main

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/gotrainer/gotrainer/checkpoint"
	"github.com/gotrainer/gotrainer/hub/hubtest"
)

const (
	hubRepo  = "me/victim"
	hubToken = "hf_token_of_a_test"
)

var signalKinds = []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1}

// phases are when a signal arrives; the first is before the run.
var phases = []string{"start", "load", "forward", "backward", "update", "evaluation", "save", "push"}

const phaseLength = 40 * time.Millisecond

// signalled is a signal, possibly followed by a second one.
type signalled struct {
	phase         string
	first, second syscall.Signal // second is 0 if there is none
	skip          int            // how many times the phase passes before the signal
	after, gap    time.Duration
	async         bool
}

func (s signalled) String() string {
	text := fmt.Sprintf("%v in %s %d", s.first, s.phase, s.skip+1)
	if s.second != 0 {
		text += fmt.Sprintf(", %v after %v", s.second, s.gap)
	}
	if s.async {
		text += ", AsyncSave"
	}
	return text
}

// signals sends random signals in each phase.
func signals(b *bench) error {
	want, _, err := b.whole(small("bert", b.folder()))
	if err != nil {
		return err
	}
	server, err := hubtest.New()
	if err != nil {
		return err
	}
	defer server.Close()
	server.AddUser("me", hubToken)
	server.CreateRepo(hubtest.Model, hubRepo, hubtest.Private)
	server.Inject(hubtest.Fault{Path: "commit", Times: -1, Delay: phaseLength})

	var attempts []signalled
	for _, phase := range phases {
		for k := range b.either(50, 4) {
			attempts = append(attempts, b.signal(phase, k))
		}
	}
	var mu sync.Mutex
	codes := map[string]int{}
	var longest time.Duration
	b.random.Shuffle(len(attempts), func(i, k int) { attempts[i], attempts[k] = attempts[k], attempts[i] })
	done := b.each(len(attempts), func(i int) {
		e, took := b.attempt(attempts[i], server.URL, want)
		mu.Lock()
		defer mu.Unlock()
		codes[fmt.Sprint("code ", e.code)]++
		longest = max(longest, took)
	})
	b.count("%d signals in %d phases, about half of them with AsyncSave (%s), longest until left %.2f s", done,
		len(phases), counts(codes),
		longest.Seconds())
	return nil
}

// signal draws the k-th signal for a phase, so that each kind occurs.
func (b *bench) signal(phase string, k int) signalled {
	s := signalled{phase: phase, first: signalKinds[k%len(signalKinds)], skip: b.random.IntN(4)}
	if phase == "start" {
		s.skip = 0
	}
	if k/len(signalKinds)%2 == 1 {
		s.second, s.gap = signalKinds[b.random.IntN(len(signalKinds))],
			time.Duration(b.random.Int64N(int64(phaseLength)))
	}
	s.after = time.Duration(b.random.Int64N(int64(phaseLength)))
	s.async = b.random.IntN(2) == 1
	return s
}

// attempt sends the signals and checks what the process prints and leaves. It returns how long the
// process took to end.
func (b *bench) attempt(s signalled, hub string, want map[string]string) (e ending, took time.Duration) {
	p := small("bert", b.folder())
	p.Phase, p.Pause, p.Async = s.phase, phaseLength, s.async
	if s.phase == "push" {
		p.Hub = hub
	}
	v, err := newProcess(p, b.dir)
	if err == nil {
		err = v.start()
	}
	if err == nil {
		for range s.skip + 1 {
			if err = v.waitFor(saidPhase); err != nil {
				break
			}
		}
	}
	if err != nil {
		b.fail("%v: %v", s, err)
		return e, 0
	}
	time.Sleep(s.after)
	v.signal(s.first)
	sent := time.Now()
	if s.second != 0 {
		time.Sleep(s.gap)
		v.signal(s.second)
	}
	e = v.wait()
	took = time.Since(sent)
	if problem := s.check(e, p.Dir); problem != "" {
		b.fail("%v: %s: %s", s, problem, e.complaint)
	}
	p.Phase, p.Hub = "", ""
	b.same(p, want, s.String())
	_ = os.RemoveAll(p.Dir)
	return e, took
}

// check returns what is wrong with the end of a process after signals.
func (s signalled) check(e ending, dir string) string {
	allowed := []int{128 + int(s.first)}
	if s.second != 0 {
		allowed = append(allowed, 128+int(s.second))
	}
	switch {
	case e.code == 0 && len(e.outcomes) > 0: // it had finished
		return ""
	case !slices.Contains(allowed, e.code):
		return fmt.Sprintf("it ended with code %d; want one of %v", e.code, allowed)
	case int(e.record.ExitCode) != e.code:
		return fmt.Sprintf("its record says code %d, it ended with %d", e.record.ExitCode, e.code)
	case s.second != 0: // may have ended at once
		return ""
	case e.record.Checkpoint == "" && e.record.Update != nil && *e.record.Update > 0:
		return fmt.Sprintf("it was not saved after update %d", *e.record.Update)
	case e.record.Checkpoint == "" && s.phase != "start" && s.skip > 3*3: // beyond the first update
		return "it was not saved"
	case e.record.Checkpoint != "":
		if err := checkpoint.Verify(e.record.Checkpoint); err != nil {
			return err.Error()
		}
	}
	return ""
}
