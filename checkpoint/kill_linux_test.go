package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/gotrainer/gotrainer/internal/leaks"
)

// The tests in this file run a save in a separate process under strace. They kill it, or make the
// system return an error, at each of its system calls in turn. The process is this test binary;
// helperEnv tells it what to save and where.
const (
	helperEnv = "CHECKPOINT_TEST_SAVE"
	marker    = "/save-begins-here" // the helper looks this path up, so that the trace shows where the save begins

	exitSpace = 3
	exitError = 4
)

func init() {
	if os.Getenv(helperEnv) != "" {
		runtime.LockOSThread() // strace counts calls per thread, so the first thread makes the whole save
	}
}

func TestMain(m *testing.M) {
	if task := os.Getenv(helperEnv); task != "" {
		os.Exit(helper(task))
	}
	os.Exit(leaks.Run(m))
}

// helper saves a step and rotates. task is the step, a space and the folder.
func helper(task string) int {
	var step int
	digits, dir, _ := strings.Cut(task, " ")
	if _, err := fmt.Sscan(digits, &step); err != nil {
		return exitError
	}
	_ = syscall.Access(marker, 0)
	s, err := Open(dir, Options{Keep: 1})
	if err == nil {
		_, err = s.Write(step, state("new"))
	}
	if err == nil {
		err = s.Rotate()
	}
	var space *SpaceError
	switch {
	case errors.As(err, &space):
		return exitSpace
	case err != nil:
		return exitError
	}
	return 0
}

// tracedCalls are the system calls by which Go touches files.
var tracedCalls = []string{
	"openat", "read", "pread64", "write", "close", "fsync", "fdatasync", "mkdirat", "mkdir", "renameat", "renameat2",
	"rename", "unlinkat", "unlink", "rmdir",
	"newfstatat", "fstat", "lstat", "stat", "statx", "getdents64", "fadvise64", "statfs", "flock", "fcntl", "ftruncate",
}

// traced runs the helper under strace and returns its exit code; -1 if it was killed.
func traced(t *testing.T, dir string, step int, args ...string) (code int, log string) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "log")
	cmd := exec.Command("strace", append(append([]string{"-qq", "-o", out}, args...), os.Args[0])...)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s", helperEnv, step, dir), "GOMAXPROCS=1", "GOGC=off")
	if output, err := cmd.CombinedOutput(); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			t.Fatalf("strace: %v\n%s", err, output)
		}
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(text)
}

// calls runs a save to its end and returns how often each call occurs before it begins and in it.
func calls(t *testing.T, step int) (before, during map[string]int) {
	t.Helper()
	code, log := traced(t, prepared(t), step, "-e", "trace="+strings.Join(available(t), ",")+
		",faccessat,faccessat2,access")
	if code != 0 {
		t.Fatalf("an undisturbed save ended with code %d:\n%s", code, log)
	}
	before, during = map[string]int{}, map[string]int{}
	count := before
	name := regexp.MustCompile(`^(\w+)\(`)
	for line := range strings.Lines(log) {
		if strings.Contains(line, marker) {
			count = during
		} else if m := name.FindStringSubmatch(line); m != nil {
			count[m[1]]++
		}
	}
	if len(during) == 0 {
		t.Fatalf("the trace does not show where the save begins:\n%s", log)
	}
	return before, during
}

// available returns the calls that this architecture has.
func available(t *testing.T) []string {
	t.Helper()
	var list []string
	for _, call := range tracedCalls {
		if exec.Command("strace", "-e", "trace="+call, "-o", os.DevNull, "true").Run() == nil {
			list = append(list, call)
		}
	}
	return list
}

// prepared returns a folder with checkpoint-1, which holds "old".
func prepared(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	save(t, s, 1, "old")
	return dir
}

func requireStrace(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs a process for each system call of a save; not with -short")
	}
	if out, err := exec.Command("strace", "-o", os.DevNull, "-e", "inject=fsync:error=EIO",
		"true").CombinedOutput(); err != nil {
		t.Skipf("needs strace, and leave to trace processes (apt-get install strace): %v %s", err, bytes.TrimSpace(out))
	}
}

// sound checks that the folder has a complete checkpoint, of the old state or the new one, that the
// next save works, and that nothing else is left.
func sound(t *testing.T, at, dir string, wantNew bool) {
	t.Helper()
	s, err := Open(dir, Options{Keep: 1})
	if err != nil {
		t.Errorf("%s: %v", at, err)
		return
	}
	defer s.Close()
	latest, err := s.Latest()
	if err != nil {
		t.Errorf("%s: the run is lost: %v", at, err)
		return
	}
	if got := content(t, latest); got != "new" && (got != "old" || wantNew) {
		t.Errorf("%s: %s holds %q", at, latest, got)
	}
	if _, err := s.Write(3, state("next")); err != nil {
		t.Errorf("%s: the next save fails: %v", at, err)
	}
	if err := s.Rotate(); err != nil {
		t.Errorf("%s: %v", at, err)
	}
	if got := names(t, dir); fmt.Sprint(got) != "[checkpoint-3]" {
		t.Errorf("%s: left behind: %v", at, got)
	}
}

func TestKilledAtEverySystemCall(t *testing.T) {
	requireStrace(t)
	for _, step := range []int{1, 2} { // step 1 replaces the old checkpoint, step 2 comes after it
		before, during := calls(t, step)
		killed := 0
		for call, n := range during {
			for k := 0; k < n; k += stride {
				at := fmt.Sprintf("step %d, killed at %s %d of %d", step, call, k+1, n)
				dir := prepared(t)
				code, _ := traced(t, dir, step, "-e", "trace="+call, "-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d",
					call, before[call]+k+1))
				if code == -1 || code == 128+int(syscall.SIGKILL) {
					killed++
				}
				sound(t, at, dir, code == 0)
			}
		}
		t.Logf("step %d: killed at %d system calls", step, killed)
		if killed < 50/stride {
			t.Errorf("step %d: only %d kills; a save makes more system calls than that", step, killed)
		}
	}
}

func TestRefusedAtEverySystemCall(t *testing.T) {
	requireStrace(t)
	before, during := calls(t, 2)
	refused := 0
	for _, fault := range []struct{ call, errno string }{
		{"write", "ENOSPC"}, {"openat", "ENOSPC"}, {"mkdirat", "ENOSPC"}, {"fsync", "EIO"}, {"fsync", "EDQUOT"},
		{"renameat", "EIO"}, {"unlinkat", "EIO"}, {"read", "EIO"}, {"close", "EIO"}, {"getdents64", "EIO"},
		{"statfs", "EIO"}, {"fadvise64", "EINVAL"}, {"write", "EINTR"},
	} {
		for k := 0; k < during[fault.call]; k += stride {
			at := fmt.Sprintf("%s at %s %d", fault.errno, fault.call, k+1)
			dir := prepared(t)
			code, _ := traced(t, dir, 2, "-e", "trace="+fault.call, "-e", fmt.Sprintf("inject=%s:error=%s:when=%d",
				fault.call, fault.errno, before[fault.call]+k+1))
			if code != 0 {
				refused++
			}
			if code != 0 && code != exitSpace && code != exitError {
				t.Errorf("%s: the process ended with code %d", at, code)
			}
			if full := fault.errno == "ENOSPC" || fault.errno == "EDQUOT"; code == exitSpace && !full {
				t.Errorf("%s: reported as a full disk", at)
			}
			sound(t, at, dir, code == 0)
		}
	}
	if refused < 10/stride {
		t.Errorf("only %d faults had an effect", refused)
	}
}
