package hubtest

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Fault makes requests fail. The first group of fields selects the requests; the others say what
// happens to them.
type Fault struct {
	Method string // "" means any
	Path   string // substring of the path as it was sent, with its escapes; "" means any
	CDN    bool   // requests to the content delivery network instead of those to the Hub
	Skip   int    // number of matching requests that pass first
	Times  int    // number of requests it affects; zero means 1, a negative number all that follow

	Delay       time.Duration // before anything is answered
	Status      int           // answered instead of the real thing
	Header      http.Header   // added to the answer: Retry-After, RateLimit, a false X-Linked-Etag
	DropAfter   int64         // the connection breaks after this many bytes of the body; zero means never
	Corrupt     bool          // a bit of the body's first byte is flipped
	LoseAnswer  bool          // the request is carried out, and the connection breaks before its answer is sent
	IgnoreRange bool          // the whole file is sent even if a range was requested

	Instead http.HandlerFunc // answers instead of the server
}

type fault struct {
	Fault
	left int
}

// Inject adds a fault. If several match a request, the first one injected applies.
func (s *Server) Inject(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.Times == 0 {
		f.Times = 1
	}
	s.faults = append(s.faults, &fault{Fault: f, left: f.Times})
}

// ClearFaults removes all faults.
func (s *Server) ClearFaults() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// takeFault returns the fault that applies to a request, or nil. s.mu is held.
func (s *Server) takeFault(r *http.Request, cdn bool) *fault {
	for _, f := range s.faults {
		if f.left == 0 || f.CDN != cdn || f.Method != "" && f.Method != r.Method ||
			!strings.Contains(r.URL.EscapedPath(), f.Path) {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		if f.left > 0 {
			f.left--
		}
		if f.IgnoreRange {
			r.Header.Del("Range")
		}
		return f
	}
	return nil
}

// refuse responds with the fault's status.
func (f *fault) refuse(w http.ResponseWriter) {
	w.Header().Set("X-Error-Message", "this failure was asked for")
	w.WriteHeader(f.Status)
}

func (a *answer) WriteHeader(status int) {
	if a.status != 0 {
		return
	}
	a.status = status
	if a.fault != nil {
		for k, v := range a.fault.Header {
			a.Header()[http.CanonicalHeaderKey(k)] = v
		}
		if a.fault.LoseAnswer {
			return // Write discards the handler's bytes
		}
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	f := a.fault
	if f == nil {
		return a.ResponseWriter.Write(p)
	}
	if f.LoseAnswer {
		return len(p), nil
	}
	if f.Corrupt && a.sent == 0 && len(p) > 0 {
		p = append([]byte(nil), p...)
		p[0] ^= 1
	}
	if f.DropAfter > 0 && a.sent+int64(len(p)) >= f.DropAfter {
		_, _ = a.ResponseWriter.Write(p[:f.DropAfter-a.sent])
		if flusher, ok := a.ResponseWriter.(http.Flusher); ok {
			flusher.Flush()
		}
		panic(http.ErrAbortHandler)
	}
	n, err := a.ResponseWriter.Write(p)
	a.sent += int64(n)
	return n, err
}

// RetryAfter returns the header of a response that asks to wait.
func RetryAfter(seconds int) http.Header {
	return http.Header{"Retry-After": {strconv.Itoa(seconds)}}
}
