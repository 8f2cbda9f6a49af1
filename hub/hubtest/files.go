package hubtest

import (
	"bytes"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// serveRepoFiles answers <id>/resolve/<revision>/<path> and <id>.git/info/lfs/..., with datasets/
// or spaces/ in front or not.
func (s *Server) serveRepoFiles(c *call) {
	kind, rest := Model, c.path
	if len(rest) > 1 && (rest[0] == string(Dataset) || rest[0] == string(Space)) {
		kind, rest = Kind(rest[0]), rest[1:]
	}
	if len(rest) < 2 {
		c.fail(http.StatusNotFound, "", "Sorry, we can't find the page you are looking for.")
		return
	}
	id, rest := s.splitRepo(rest)
	if plain, isGit := strings.CutSuffix(id, ".git"); isGit && strings.Join(rest, "/") == "info/lfs/objects/batch" &&
		c.Method == "POST" {
		if r := s.open(c, kind, plain); r != nil {
			s.lfsBatch(c, r)
		}
		return
	}
	if len(rest) < 3 || rest[0] != "resolve" || c.Method != "GET" && c.Method != "HEAD" {
		c.fail(http.StatusNotFound, "", "Sorry, we can't find the page you are looking for.")
		return
	}
	if r := s.open(c, kind, id); r != nil {
		s.resolveFile(c, r, rest[1], strings.Join(rest[2:], "/"))
	}
}

// resolveFile sends a small file, or the address of a large one.
func (s *Server) resolveFile(c *call, r *repo, revision, name string) {
	s.mu.Lock()
	at := s.revision(c, r, revision)
	if at == nil {
		s.mu.Unlock()
		return
	}
	f, exists := at.files[name]
	s.mu.Unlock()
	h := c.w.Header()
	h.Set("X-Repo-Commit", at.id)
	switch {
	case r.gated && !c.may(r.id):
		status := http.StatusForbidden
		if c.user == nil {
			status = http.StatusUnauthorized
		}
		c.fail(status, "GatedRepo", "Access to this repository is restricted and you are not in the authorized list")
	case !exists:
		c.fail(http.StatusNotFound, "EntryNotFound", "Entry not found")
	case f.sha256 != "":
		signature := url.Values{"X-Amz-Signature": {f.sha256[:16]}, "X-Amz-Expires": {"3600"}}
		h.Set("X-Linked-Etag", `"`+f.sha256+`"`)
		h.Set("X-Linked-Size", strconv.FormatInt(f.size, 10))
		h.Set("ETag", `"`+f.oid+`"`) // of the LFS pointer, which clients must not use
		h.Set("Location", s.CDNURL+"/objects/"+f.sha256+"?"+signature.Encode())
		c.w.WriteHeader(http.StatusFound)
	default:
		h.Set("ETag", `"`+f.oid+`"`)
		h.Set("Content-Type", "application/octet-stream")
		http.ServeContent(c.w, c.Request, "", time.Time{}, bytes.NewReader(f.content))
	}
}

// serveCDN serves and receives large files. Its addresses are signed, and it refuses tokens.
func (s *Server) serveCDN(w http.ResponseWriter, r *http.Request) {
	verb, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case r.Header.Get("Authorization") != "":
		http.Error(w, "Only one auth mechanism allowed", http.StatusBadRequest) // as S3 responds
	case r.URL.Query().Get("X-Amz-Signature") == "":
		http.Error(w, "AccessDenied", http.StatusForbidden)
	case verb == "objects" && (r.Method == "GET" || r.Method == "HEAD"):
		s.sendObject(w, r, name)
	case verb == "upload" && r.Method == "PUT":
		s.receiveObject(w, r, name)
	case verb == "part" && r.Method == "PUT":
		s.receivePart(w, r, name)
	default:
		http.NotFound(w, r)
	}
}

func (s *Server) sendObject(w http.ResponseWriter, r *http.Request, sha string) {
	s.mu.Lock()
	_, known := s.objects[sha]
	s.mu.Unlock()
	if !known || r.URL.Query().Get("X-Amz-Signature") != sha[:16] {
		http.Error(w, "AccessDenied", http.StatusForbidden)
		return
	}
	f, err := os.Open(s.objectPath(sha))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer f.Close()
	w.Header().Set("ETag", `"md5-of-the-cdn-`+sha[:8]+`"`) // differs from the Hub's, as in reality
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", time.Time{}, f)
}
