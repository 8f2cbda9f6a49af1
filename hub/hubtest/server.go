package hubtest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"time"
)

// Server is a Hub and its content delivery network. Its methods may be called by several
// goroutines.
type Server struct {
	URL    string // the endpoint: what HF_ENDPOINT would be
	CDNURL string // where large files are fetched from and sent to

	// The fields below may be changed before the first request.

	PageSize      int   // entries on one page of a listing; [New] sets 1000
	LFSThreshold  int64 // files of at least this size are large regardless of their name; [New] sets 10 MiB
	PartSize      int64 // larger objects are uploaded in parts of this size; [New] sets 64 MiB
	MaxCommitBody int64 // a commit with a longer body is refused; [New] sets 1 GiB

	hub, cdn *httptest.Server
	closing  chan struct{}
	once     sync.Once
	dir      string // folder of the objects

	mu       sync.Mutex
	users    map[string]*user // by token
	repos    map[string]*repo // by kind and id
	objects  map[string]int64 // size of each large object, by its SHA-256
	uploads  map[string]*upload
	faults   []*fault
	requests []Request
	serial   int
}

// user is the owner of a token.
type user struct {
	name      string
	readOnly  bool
	namespace map[string]bool // namespaces to which the user may write
}

// Request is the server's record of a request.
type Request struct {
	Method     string
	Path       string // as it was sent, with its escapes; without the query
	CDN        bool   // it went to the content delivery network
	Authorized bool   // it carried an Authorization header
	Range      string // the Range header
	Status     int    // status of the response; 0 if the connection broke before
}

func (r Request) String() string {
	where := ""
	if r.CDN {
		where = "cdn:"
	}
	text := fmt.Sprintf("%s %s%s -> %d", r.Method, where, r.Path, r.Status)
	if r.Range != "" {
		text += " [" + r.Range + "]"
	}
	return text
}

// New starts a server without users and repositories. Its objects are in a temporary folder that
// [Server.Close] removes.
func New() (*Server, error) {
	dir, err := os.MkdirTemp("", "hubtest-")
	if err != nil {
		return nil, fmt.Errorf("hubtest: %w", err)
	}
	s := &Server{
		PageSize: 1000, LFSThreshold: 10 << 20, PartSize: 64 << 20, MaxCommitBody: 1 << 30,
		dir: dir, closing: make(chan struct{}), users: map[string]*user{}, repos: map[string]*repo{},
		objects: map[string]int64{}, uploads: map[string]*upload{},
	}
	s.hub = httptest.NewServer(s.recorded(false, s.serveHub))
	s.cdn = httptest.NewServer(s.recorded(true, s.serveCDN))
	// A different host name than the Hub's, not only a different port, since clients decide by the
	// host name which server gets the token.
	s.URL, s.CDNURL = s.hub.URL, strings.Replace(s.cdn.URL, "127.0.0.1", "localhost", 1)
	return s, nil
}

// Close stops the server, breaks requests in progress and removes its folder. It may be called
// twice.
func (s *Server) Close() {
	s.once.Do(s.close)
}

func (s *Server) close() {
	close(s.closing)
	for _, server := range []*httptest.Server{s.hub, s.cdn} {
		server.CloseClientConnections()
		server.Close()
	}
	os.RemoveAll(s.dir)
}

// AddUser adds a user with a token. The user may write to repositories in the user's own namespace
// and in those of the organizations.
func (s *Server) AddUser(name, token string, organizations ...string) {
	s.addUser(name, token, false, organizations)
}

// AddReader adds a user like AddUser, with a token that may only read.
func (s *Server) AddReader(name, token string, organizations ...string) {
	s.addUser(name, token, true, organizations)
}

func (s *Server) addUser(name, token string, readOnly bool, organizations []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := &user{name: name, readOnly: readOnly, namespace: map[string]bool{name: true}}
	for _, o := range organizations {
		u.namespace[o] = true
	}
	s.users[token] = u
}

// Requests returns the requests since the start or the last [Server.ForgetRequests], in order of
// arrival.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// ForgetRequests empties the list of [Server.Requests].
func (s *Server) ForgetRequests() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = nil
}

// recorded records each request, applies a matching fault and calls next.
func (s *Server) recorded(cdn bool, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		index := len(s.requests)
		s.requests = append(s.requests, Request{
			Method: r.Method, Path: r.URL.EscapedPath(), CDN: cdn, Authorized: r.Header.Get("Authorization") != "",
			Range: r.Header.Get("Range"),
		})
		fault := s.takeFault(r, cdn)
		s.mu.Unlock()
		out := &answer{ResponseWriter: w, fault: fault}
		defer func() {
			s.mu.Lock()
			if index < len(s.requests) && s.requests[index].Path == r.URL.EscapedPath() {
				s.requests[index].Status = out.status
			}
			s.mu.Unlock()
		}()
		if fault != nil && fault.Delay > 0 {
			select {
			case <-time.After(fault.Delay):
			case <-r.Context().Done():
				return
			case <-s.closing: // while the body is unread, a closed connection is not noticed
				panic(http.ErrAbortHandler)
			}
		}
		if fault != nil && fault.Status != 0 {
			fault.refuse(out)
			return
		}
		if fault != nil && fault.Instead != nil {
			fault.Instead(out, r)
			return
		}
		next(out, r)
		if fault != nil && fault.LoseAnswer {
			panic(http.ErrAbortHandler)
		}
	}
}

// caller returns the user of a request, nil for an anonymous one. ok is false if the token is
// unknown.
func (s *Server) caller(r *http.Request) (u *user, ok bool) {
	header := r.Header.Get("Authorization")
	if header == "" {
		return nil, true
	}
	token, isBearer := strings.CutPrefix(header, "Bearer ")
	if !isBearer {
		return nil, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	u = s.users[token]
	return u, u != nil
}

// answer is a response that a fault may break.
type answer struct {
	http.ResponseWriter
	fault  *fault
	status int
	sent   int64
}
