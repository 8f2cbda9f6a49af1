package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// callsByNumber are the system calls through which Go accesses files: the name of each, and which
// arguments are a file descriptor, and a path relative to it.
var callsByNumber = map[uint64]struct {
	name       string
	file, path int // -1: none
}{
	unix.SYS_READ: {"read", 0, -1}, unix.SYS_WRITE: {"write", 0, -1}, unix.SYS_CLOSE: {"close", 0, -1},
	unix.SYS_FSTAT: {"fstat", 0, -1}, unix.SYS_LSEEK: {"lseek", 0, -1}, unix.SYS_PREAD64: {"pread64", 0, -1},
	unix.SYS_PWRITE64: {"pwrite64", 0, -1}, unix.SYS_FSYNC: {"fsync", 0, -1},
	unix.SYS_FDATASYNC: {"fdatasync", 0, -1}, unix.SYS_FTRUNCATE: {"ftruncate", 0, -1},
	unix.SYS_FALLOCATE: {"fallocate", 0, -1},
	unix.SYS_FADVISE64: {"fadvise64", 0, -1}, unix.SYS_FLOCK: {"flock", 0, -1},
	unix.SYS_GETDENTS64: {"getdents64", 0, -1}, unix.SYS_FCHMOD: {"fchmod", 0, -1},
	unix.SYS_COPY_FILE_RANGE: {"copy_file_range", 2, -1}, unix.SYS_STATFS: {"statfs", -1, 0},
	unix.SYS_OPENAT: {"openat", 0, 1}, unix.SYS_MKDIRAT: {"mkdirat", 0, 1}, unix.SYS_UNLINKAT: {"unlinkat", 0, 1},
	unix.SYS_RENAMEAT: {"renameat", 2, 3}, unix.SYS_RENAMEAT2: {"renameat2", 2, 3}, unix.SYS_LINKAT: {"linkat", 2, 3},
	unix.SYS_NEWFSTATAT: {"newfstatat", 0, 1}, unix.SYS_STATX: {"statx", 0, 1},
	unix.SYS_FCHMODAT: {"fchmodat", 0, 1}, unix.SYS_FACCESSAT: {"faccessat", 0, 1},
	unix.SYS_FACCESSAT2: {"faccessat2", 0, 1}, unix.SYS_READLINKAT: {"readlinkat", 0, 1},
}

// tracer traces a victim from a locked thread.
type tracer struct {
	pid     int
	dir     string
	decide  func(systemCall) verdict
	number  int
	refused map[int]syscall.Errno // by thread: the error that its call returns
	seized  map[int]bool
}

// traced runs a process that waits at its gate, calling decide for each of its system calls from
// there on. It returns how the process ended.
func traced(v *process, dir string, decide func(systemCall) verdict) (syscall.WaitStatus, error) {
	runtime.LockOSThread() // all requests must come from the tracing thread
	defer runtime.UnlockOSThread()
	if err := v.start(); err != nil {
		return 0, err
	}
	t := &tracer{pid: v.pid(), dir: dir, decide: decide, refused: map[int]syscall.Errno{}, seized: map[int]bool{}}
	if err := v.waitFor(saidReady); err != nil {
		return 0, err
	}
	if err := t.seize(); err != nil {
		return 0, fmt.Errorf("tracing a process, which CI must be allowed to: %w", err)
	}
	if err := v.open(); err != nil {
		return 0, err
	}
	status, err := t.watch()
	v.reaped()
	return status, err
}

// seize stops every thread of the process.
func (t *tracer) seize() error {
	for more := true; more; {
		more = false
		tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", t.pid))
		if err != nil {
			return err
		}
		for _, e := range tasks {
			tid, err := strconv.Atoi(e.Name())
			if err != nil || t.seized[tid] {
				continue
			}
			if err := t.stop(tid); errors.Is(err, syscall.ESRCH) {
				continue // it has ended meanwhile
			} else if err != nil {
				return err
			}
			t.seized[tid], more = true, true
		}
	}
	for tid := range t.seized {
		if err := unix.PtraceSyscall(tid, 0); err != nil {
			return err
		}
	}
	return nil
}

// stop stops a thread; the error is ESRCH if it has ended.
func (t *tracer) stop(tid int) error {
	if err := unix.PtraceSeize(tid); errors.Is(err, syscall.EPERM) && t.ended(tid) {
		return syscall.ESRCH // the kernel refuses a thread that is ending as if it were forbidden
	} else if err != nil {
		return err
	}
	if err := unix.PtraceInterrupt(tid); err != nil {
		return err
	}
	var status unix.WaitStatus
	for !status.Stopped() {
		if _, err := unix.Wait4(tid, &status, unix.WALL, nil); errors.Is(err, syscall.EINTR) {
			continue
		} else if err != nil {
			return err
		}
		if status.Exited() || status.Signaled() {
			return syscall.ESRCH
		}
	}
	return unix.PtraceSetOptions(tid, unix.PTRACE_O_TRACECLONE|unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_EXITKILL)
}

// ended reports whether a thread has ended, though the process may still list it.
func (t *tracer) ended(tid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/stat", t.pid, tid))
	if err != nil {
		return true
	}
	state := bytes.TrimSpace(stat[bytes.LastIndexByte(stat, ')')+1:]) // behind the name, which may hold parentheses
	return bytes.HasPrefix(state, []byte("Z")) || bytes.HasPrefix(state, []byte("X"))
}

// watch lets the process run until it ends.
func (t *tracer) watch() (syscall.WaitStatus, error) {
	for {
		var status unix.WaitStatus
		tid, err := unix.Wait4(-t.pid, &status, unix.WALL, nil) // its process group, including all threads
		if errors.Is(err, syscall.EINTR) {
			continue
		} else if err != nil {
			return 0, fmt.Errorf("waiting for a traced process: %w", err)
		}
		if status.Exited() || status.Signaled() {
			if tid == t.pid {
				return syscall.WaitStatus(status), nil
			}
			continue
		}
		signal := 0
		switch {
		case status.StopSignal() == syscall.SIGTRAP|0x80:
			if err := t.call(tid); err != nil && !errors.Is(err, syscall.ESRCH) {
				return 0, err
			}
		case status>>16 == 0: // not an event, but a signal for the process
			signal = int(status.StopSignal())
		}
		if err := unix.PtraceSyscall(tid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return 0, err
		}
	}
}

// callInfo is struct ptrace_syscall_info in <linux/ptrace.h>.
type callInfo struct {
	op                               uint8
	_                                [7]byte
	instructionPointer, stackPointer uint64
	number                           uint64
	args                             [6]uint64
	_                                [3]uint64
}

// call handles the entry or exit of a system call.
func (t *tracer) call(tid int) error {
	info, err := callInfoOf(tid)
	if err != nil {
		return err
	}
	const entry, exit = 1, 2
	switch info.op {
	case entry:
		return t.enter(tid, info)
	case exit:
		errno, ok := t.refused[tid]
		if !ok {
			return nil
		}
		delete(t.refused, tid)
		return setRegister(tid, func(r *unix.PtraceRegs) { r.Rax = -uint64(errno) })
	}
	return nil
}

func (t *tracer) enter(tid int, info callInfo) error {
	kind, ok := callsByNumber[info.number]
	if !ok {
		return nil
	}
	path := t.pathOf(tid, info, kind.file, kind.path)
	if path != t.dir && !strings.HasPrefix(path, t.dir+string(filepath.Separator)) {
		return nil
	}
	t.number++
	short, _ := filepath.Rel(t.dir, path)
	v := t.decide(systemCall{t.number, kind.name, short})
	switch {
	case v.kill:
		return syscall.Kill(t.pid, syscall.SIGKILL)
	case v.errno != 0:
		t.refused[tid] = v.errno
		return setRegister(tid, func(r *unix.PtraceRegs) { r.Orig_rax = ^uint64(0) }) // invalid, so nothing is done
	case v.half && info.args[2] > 1:
		return setRegister(tid, func(r *unix.PtraceRegs) { r.Rdx = info.args[2] / 2 })
	}
	return nil
}

// pathOf returns the absolute path that the call is about.
func (t *tracer) pathOf(tid int, info callInfo, file, path int) string {
	folder := ""
	if file >= 0 {
		if fd := int32(info.args[file]); fd != unix.AT_FDCWD {
			folder, _ = os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", t.pid, fd)) // a closed descriptor has no path
		} else {
			folder, _ = os.Readlink(fmt.Sprintf("/proc/%d/cwd", t.pid))
		}
	}
	if path < 0 {
		return folder
	}
	name := text(tid, uintptr(info.args[path]))
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(folder, name)
}

// text reads a C string from the process.
func text(tid int, at uintptr) string {
	var all []byte
	for len(all) < unix.PathMax {
		var word [8]byte
		n, err := unix.PtracePeekData(tid, at+uintptr(len(all)), word[:])
		if err != nil {
			return ""
		}
		for _, c := range word[:n] {
			if c == 0 {
				return string(all)
			}
			all = append(all, c)
		}
	}
	return string(all)
}

func callInfoOf(tid int) (callInfo, error) {
	const getSyscallInfo = 0x420e // PTRACE_GET_SYSCALL_INFO
	var info callInfo
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, getSyscallInfo, uintptr(tid), unsafe.Sizeof(info),
		uintptr(unsafe.Pointer(&info)), 0, 0)
	if errno != 0 {
		return info, errno
	}
	return info, nil
}

func setRegister(tid int, set func(*unix.PtraceRegs)) error {
	var r unix.PtraceRegs
	if err := unix.PtraceGetRegs(tid, &r); err != nil {
		return err
	}
	set(&r)
	return unix.PtraceSetRegs(tid, &r)
}
