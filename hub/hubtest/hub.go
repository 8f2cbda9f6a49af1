package hubtest

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// call is a parsed request to the Hub.
type call struct {
	*http.Request
	w    http.ResponseWriter
	user *user    // nil when anonymous
	path []string // unescaped segments
}

// serveHub handles requests to the endpoint.
func (s *Server) serveHub(w http.ResponseWriter, r *http.Request) {
	c := &call{Request: r, w: w}
	for segment := range strings.SplitSeq(strings.Trim(r.URL.EscapedPath(), "/"), "/") {
		plain, err := url.PathUnescape(segment)
		if err != nil {
			c.fail(http.StatusBadRequest, "", "the path is not well escaped")
			return
		}
		c.path = append(c.path, plain)
	}
	user, ok := s.caller(r)
	if !ok {
		c.fail(http.StatusUnauthorized, "", "Invalid credentials in Authorization header")
		return
	}
	c.user = user
	switch {
	case c.is("GET", "api", "whoami-v2"):
		s.whoAmI(c)
	case c.is("POST", "api", "validate-yaml"):
		c.reply(http.StatusOK, map[string]any{"errors": []any{}, "warnings": []any{}})
	case c.is("POST", "api", "repos", "create"):
		s.createRepo(c)
	case c.is("DELETE", "api", "repos", "delete"):
		s.deleteRepo(c)
	case c.path[0] == "api" && len(c.path) > 2:
		s.serveRepoAPI(c, Kind(c.path[1]), c.path[2:])
	case c.path[0] == "lfs-complete" && r.Method == "POST" && len(c.path) == 2:
		s.completeUpload(c, c.path[1])
	default:
		s.serveRepoFiles(c)
	}
}

// is reports whether a call has this method and exactly this path.
func (c *call) is(method string, path ...string) bool {
	return c.Method == method && len(c.path) == len(path) && strings.Join(c.path, "/") == strings.Join(path, "/")
}

// reply sends a JSON response.
func (c *call) reply(status int, value any) {
	c.w.Header().Set("Content-Type", "application/json; charset=utf-8")
	c.w.WriteHeader(status)
	if c.Method != http.MethodHead {
		_ = json.NewEncoder(c.w).Encode(value)
	}
}

// fail sends an error as the Hub does, with the reason in the headers X-Error-Code and
// X-Error-Message and in the body.
func (c *call) fail(status int, code, message string) {
	if code != "" {
		c.w.Header().Set("X-Error-Code", code)
	}
	c.w.Header().Set("X-Error-Message", message)
	c.w.Header().Set("X-Request-Id", "Root=1-hubtest")
	c.reply(status, map[string]any{"error": message})
}

// splitRepo splits a repository's id, of one or two segments, from the front of a path. The segment
// that follows determines where the id ends.
func (s *Server) splitRepo(path []string) (id string, rest []string) {
	verbs := " revision tree paths-info refs preupload commit tag branch resolve info "
	if len(path) >= 2 && !strings.Contains(verbs, " "+path[1]+" ") {
		return path[0] + "/" + path[1], path[2:]
	}
	return path[0], path[1:]
}

// open finds a repository that the caller may read, or responds that there is none: the Hub does
// not reveal the existence of private repositories.
func (s *Server) open(c *call, kind Kind, id string) *repo {
	s.mu.Lock()
	r := s.repos[string(kind)+"/"+id]
	s.mu.Unlock()
	if r == nil || r.private && !c.may(r.id) {
		if c.user == nil {
			c.fail(http.StatusUnauthorized, "RepoNotFound", "Repository not found")
		} else {
			c.fail(http.StatusNotFound, "RepoNotFound", "Repository not found")
		}
		return nil
	}
	return r
}

// may reports whether the caller belongs to the namespace of a repository.
func (c *call) may(id string) bool {
	namespace, _, _ := strings.Cut(id, "/")
	return c.user != nil && c.user.namespace[namespace]
}

// mayWrite reports whether the caller may write to a repository, and sends an error if not.
func (c *call) mayWrite(id string) bool {
	switch {
	case c.user == nil:
		c.fail(http.StatusUnauthorized, "", "Invalid username or password.")
	case !c.may(id) || c.user.readOnly:
		c.fail(http.StatusForbidden, "", "You don't have the rights to write to this repository")
	default:
		return true
	}
	return false
}

func (s *Server) whoAmI(c *call) {
	if c.user == nil {
		c.fail(http.StatusUnauthorized, "", "Invalid username or password.")
		return
	}
	orgs := []map[string]any{}
	for name := range c.user.namespace {
		if name != c.user.name {
			orgs = append(orgs, map[string]any{"type": "org", "name": name})
		}
	}
	role := "write"
	if c.user.readOnly {
		role = "read"
	}
	c.reply(http.StatusOK, map[string]any{
		"type": "user", "id": "0123456789abcdef01234567", "name": c.user.name, "fullname": c.user.name, "orgs": orgs,
		"auth": map[string]any{"type": "access_token", "accessToken": map[string]any{"displayName": "test",
			"role": role}},
	})
}

// repoRequest is the body of the calls that create and delete repositories.
type repoRequest struct {
	Name         string  `json:"name"`
	Organization *string `json:"organization"`
	Type         string  `json:"type"`
	Visibility   string  `json:"visibility"`
	Private      bool    `json:"private"`
}

func (s *Server) repoOf(c *call) (request repoRequest, kind Kind, id string, ok bool) {
	if err := json.NewDecoder(c.Body).Decode(&request); err != nil || request.Name == "" {
		c.fail(http.StatusBadRequest, "", `"name" is required`)
		return request, "", "", false
	}
	kind = Model
	if request.Type != "" {
		kind = Kind(request.Type + "s")
	}
	if kind != Model && kind != Dataset && kind != Space {
		c.fail(http.StatusBadRequest, "", `"type" must be one of [model, dataset, space]`)
		return request, "", "", false
	}
	namespace := ""
	if request.Organization != nil {
		namespace = *request.Organization
	} else if c.user != nil {
		namespace = c.user.name
	}
	return request, kind, namespace + "/" + request.Name, true
}

func (s *Server) createRepo(c *call) {
	request, kind, id, ok := s.repoOf(c)
	if !ok || !c.mayWrite(id) {
		return
	}
	s.mu.Lock()
	existing := s.repos[string(kind)+"/"+id]
	if existing == nil {
		s.create(kind, id, request.Private || request.Visibility == "private")
	}
	s.mu.Unlock()
	address := s.URL + "/" + id
	if kind != Model {
		address = s.URL + "/" + string(kind) + "/" + id
	}
	if existing != nil {
		c.w.Header().Set("X-Error-Message", "You already created this "+strings.TrimSuffix(string(kind), "s")+" repo")
		c.reply(http.StatusConflict, map[string]any{"error": "You already created this repo", "url": address})
		return
	}
	c.reply(http.StatusOK, map[string]any{"url": address, "name": id, "id": "0123456789abcdef01234567"})
}

func (s *Server) deleteRepo(c *call) {
	_, kind, id, ok := s.repoOf(c)
	if !ok || s.open(c, kind, id) == nil || !c.mayWrite(id) {
		return
	}
	s.mu.Lock()
	delete(s.repos, string(kind)+"/"+id)
	s.mu.Unlock()
	c.w.WriteHeader(http.StatusOK)
}

// date formats a time as the Hub does.
func date(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
