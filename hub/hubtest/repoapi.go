package hubtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
)

// serveRepoAPI handles /api/models/<id>/... and the same for datasets and spaces.
func (s *Server) serveRepoAPI(c *call, kind Kind, rest []string) {
	if kind != Model && kind != Dataset && kind != Space {
		c.fail(http.StatusNotFound, "", "Sorry, we can't find the page you are looking for.")
		return
	}
	id, rest := s.splitRepo(rest)
	r := s.open(c, kind, id)
	if r == nil {
		return
	}
	verb, argument, below := "", "", ""
	if len(rest) > 0 {
		verb = rest[0]
	}
	if len(rest) > 1 {
		argument = rest[1]
	}
	if len(rest) > 2 {
		below = strings.Join(rest[2:], "/")
	}
	switch {
	case c.Method == "GET" && verb == "":
		s.info(c, r, "main")
	case c.Method == "GET" && verb == "revision" && argument != "":
		s.info(c, r, argument)
	case c.Method == "GET" && verb == "tree" && argument != "":
		s.tree(c, r, argument, below)
	case c.Method == "POST" && verb == "paths-info" && argument != "":
		s.pathsInfo(c, r, argument)
	case c.Method == "GET" && verb == "refs":
		s.refs(c, r)
	case c.Method == "POST" && verb == "preupload" && argument != "":
		s.preupload(c, r, argument)
	case c.Method == "POST" && verb == "commit" && argument != "":
		s.postCommit(c, r, argument)
	case (c.Method == "POST" || c.Method == "DELETE") && (verb == "tag" || verb == "branch") && argument != "":
		s.nameCommit(c, r, verb, argument)
	default:
		c.fail(http.StatusNotFound, "", "Sorry, we can't find the page you are looking for.")
	}
}

// revision finds a commit, or responds that there is none. s.mu is held.
func (s *Server) revision(c *call, r *repo, name string) *commit {
	found := r.resolve(name)
	if found == nil {
		c.fail(http.StatusNotFound, "RevisionNotFound", "Invalid rev id: "+name)
	}
	return found
}

func (s *Server) info(c *call, r *repo, revision string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.revision(c, r, revision)
	if at == nil {
		return
	}
	siblings := []map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(at.files)) {
		entry := map[string]any{"rfilename": name}
		if c.URL.Query().Has("blobs") {
			f := at.files[name]
			entry["size"], entry["blobId"] = f.size, f.oid
			if f.sha256 != "" {
				entry["lfs"] = map[string]any{"sha256": f.sha256, "size": f.size, "pointerSize": len(f.content)}
			}
		}
		siblings = append(siblings, entry)
	}
	author, _, _ := strings.Cut(r.id, "/")
	c.reply(http.StatusOK, map[string]any{
		"_id": "0123456789abcdef01234567", "id": r.id, "modelId": r.id, "author": author, "sha": at.id,
		"private": r.private, "gated": r.gated,
		"disabled": false, "downloads": 0, "likes": 0, "tags": []string{}, "siblings": siblings,
		"createdAt": date(r.created), "lastModified": date(r.created),
	})
}

// treeEntry returns an entry of a listing.
func treeEntry(name string, f file) map[string]any {
	entry := map[string]any{"type": "file", "oid": f.oid, "size": f.size, "path": name}
	if f.sha256 != "" {
		entry["lfs"] = map[string]any{"oid": f.sha256, "size": f.size, "pointerSize": len(f.content)}
	}
	return entry
}

func (s *Server) tree(c *call, r *repo, revision, below string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.revision(c, r, revision)
	if at == nil {
		return
	}
	query := c.URL.Query()
	recursive := strings.EqualFold(query.Get("recursive"), "true") || query.Get("recursive") == "1"
	folders := map[string]bool{}
	var entries []map[string]any
	for _, name := range slices.Sorted(maps.Keys(at.files)) {
		inside := name
		if below != "" {
			var ok bool
			if inside, ok = strings.CutPrefix(name, below+"/"); !ok {
				continue
			}
		}
		parts := strings.Split(inside, "/")
		for i := 1; i < len(parts) && (recursive || i == 1); i++ {
			if folder := path.Join(below, strings.Join(parts[:i], "/")); !folders[folder] {
				folders[folder] = true
				entries = append(entries, map[string]any{"type": "directory", "oid": gitOID([]byte(folder)), "size": 0,
					"path": folder})
			}
		}
		if recursive || len(parts) == 1 {
			entries = append(entries, treeEntry(name, at.files[name]))
		}
	}
	if below != "" && entries == nil {
		c.fail(http.StatusNotFound, "EntryNotFound", below+" does not exist on "+strconv.Quote(revision))
		return
	}
	start, _ := strconv.Atoi(query.Get("cursor"))
	start = min(max(start, 0), len(entries))
	end := min(start+s.PageSize, len(entries))
	if end < len(entries) {
		query.Set("cursor", strconv.Itoa(end))
		next := url.URL{Scheme: "http", Host: c.Host, Path: c.URL.Path, RawPath: c.URL.RawPath,
			RawQuery: query.Encode()}
		c.w.Header().Set("Link", fmt.Sprintf("<%s>; rel=\"next\"", next.String()))
	}
	page := entries[start:end]
	if page == nil {
		page = []map[string]any{}
	}
	c.reply(http.StatusOK, page)
}

func (s *Server) pathsInfo(c *call, r *repo, revision string) {
	var request struct {
		Paths []string `json:"paths"`
	}
	if err := json.NewDecoder(c.Body).Decode(&request); err != nil {
		c.fail(http.StatusBadRequest, "", `"paths" is required`)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.revision(c, r, revision)
	if at == nil {
		return
	}
	entries := []map[string]any{}
	for _, name := range request.Paths {
		if f, ok := at.files[name]; ok {
			entries = append(entries, treeEntry(name, f))
		}
	}
	c.reply(http.StatusOK, entries)
}

func (s *Server) refs(c *call, r *repo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := func(names map[string]string, prefix string) []map[string]any {
		out := []map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			out = append(out, map[string]any{"name": name, "ref": prefix + name, "targetCommit": names[name]})
		}
		return out
	}
	c.reply(http.StatusOK, map[string]any{"branches": list(r.branches, "refs/heads/"),
		"tags": list(r.tags, "refs/tags/"), "converts": []any{}})
}

// nameCommit creates and deletes tags and branches.
func (s *Server) nameCommit(c *call, r *repo, verb, argument string) {
	if !c.mayWrite(r.id) {
		return
	}
	var request struct {
		Tag           string `json:"tag"`
		StartingPoint string `json:"startingPoint"`
	}
	if c.Method == "POST" {
		if err := json.NewDecoder(c.Body).Decode(&request); err != nil {
			c.fail(http.StatusBadRequest, "", "the body is not JSON")
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	names, name, from := r.tags, request.Tag, argument // a tag is posted to the revision that it names
	if verb == "branch" {
		names, name, from = r.branches, argument, request.StartingPoint
		if from == "" {
			from = "main"
		}
	}
	if c.Method == "DELETE" {
		if _, exists := names[argument]; !exists {
			c.fail(http.StatusNotFound, "RevisionNotFound", "Invalid rev id: "+argument)
			return
		}
		delete(names, argument)
		c.w.WriteHeader(http.StatusOK)
		return
	}
	at := s.revision(c, r, from)
	if at == nil {
		return
	}
	if _, exists := names[name]; exists || name == "" {
		c.fail(http.StatusConflict, "", "Reference already exists: "+name)
		return
	}
	names[name] = at.id
	c.w.WriteHeader(http.StatusCreated)
}
