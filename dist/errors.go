package dist

import (
	"errors"
	"fmt"
	"strings"
)

// The reasons why a call fails, for errors.Is.
var (
	ErrPeerLost = errors.New("the connection is gone: the process has ended or was killed, or its machine or the " +
		"network has failed")
	ErrPeerLeft = errors.New("it has closed its group: it is at its end or has failed")
	ErrMismatch = errors.New("the processes make different calls")
	ErrTimeout  = errors.New("no answer within dist.Options.Timeout")
	ErrClosed   = errors.New("the group is closed")
)

// Error is the error of a call that failed, and with it the group.
type Error struct {
	Part     string // the group, if [Split] made it: "the group of ranks 1, 3"
	Call     string // what this process was doing: "AllReduce(sum, 1000 float32), call 12"
	Rank     int    // rank of this process
	Peer     int    // the process at fault; -1: unknown, or this one
	PeerCall string // the call in which Peer was last heard; empty: none so far
	Err      error
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("dist: ")
	if e.Part != "" {
		b.WriteString(e.Part + ": ")
	}
	fmt.Fprintf(&b, "rank %d: %s: ", e.Rank, e.Call)
	if e.Peer >= 0 {
		fmt.Fprintf(&b, "rank %d: ", e.Peer)
	}
	b.WriteString(e.Err.Error())
	if e.PeerCall != "" {
		fmt.Fprintf(&b, "; last heard of in %s", e.PeerCall)
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// failure says why a group has failed. It is sent to all processes as JSON.
type failure struct {
	By    int        `json:"by"`              // rank of the sender
	Peer  int        `json:"peer"`            // rank at fault; -1: By itself, or see Calls
	Kind  int        `json:"kind,omitempty"`  // index into kinds
	Text  string     `json:"text"`            // of the error
	Heard string     `json:"heard,omitempty"` // the call in which Peer, or By, was last heard from
	Calls []rankCall `json:"calls,omitempty"` // the two calls that differ, for ErrMismatch

	err error
}

// rankCall is the call that a process has made.
type rankCall struct {
	Rank int    `json:"rank"`
	Call string `json:"call"`
}

// other returns the one of the two processes in f.Calls that did not make this call; nil if neither
// did.
func (f *failure) other(call string) *rankCall {
	switch call {
	case f.Calls[0].Call:
		return &f.Calls[1]
	case f.Calls[1].Call:
		return &f.Calls[0]
	}
	return nil
}

// in returns the failure as the error of a call of the process with this rank.
func (f *failure) in(call string, rank int) *Error {
	e := &Error{Call: call, Rank: rank, Peer: f.Peer, PeerCall: f.Heard, Err: f.err}
	switch {
	case len(f.Calls) == 2:
		if other := f.other(call); other != nil {
			e.Peer, e.Err = other.Rank, fmt.Errorf("%w: it is in %s", ErrMismatch, other.Call)
		} else {
			a, b := f.Calls[0], f.Calls[1]
			e.Err = fmt.Errorf("%w: rank %d is in %s, rank %d in %s", ErrMismatch, a.Rank, a.Call, b.Rank, b.Call)
		}
	case f.Peer >= 0:
	case f.By == rank:
		e.PeerCall = ""
	default:
		e.Peer = f.By
	}
	return e
}

// reported is the reason that another process gave for the failure of the group.
type reported struct {
	rank int
	text string
	kind error // one of the errors above; nil: any other error
}

func (r *reported) Error() string { return fmt.Sprintf("%s (reported by rank %d)", r.text, r.rank) }
func (r *reported) Unwrap() error { return r.kind }

// kinds are the errors that are sent by number in a failure.
var kinds = []error{nil, ErrPeerLost, ErrPeerLeft, ErrMismatch, ErrTimeout, ErrClosed}

func kindOf(err error) int {
	for i, k := range kinds[1:] {
		if errors.Is(err, k) {
			return i + 1
		}
	}
	return 0
}
