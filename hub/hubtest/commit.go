package hubtest

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path"
	"strings"
)

// postCommit makes a commit from a body of JSON lines: a header, then a line for each change.
func (s *Server) postCommit(c *call, r *repo, branch string) {
	if !c.mayWrite(r.id) {
		return
	}
	if c.Header.Get("Content-Type") != "application/x-ndjson" {
		c.fail(http.StatusUnsupportedMediaType, "", "Content-Type must be application/x-ndjson")
		return
	}
	s.mu.Lock()
	_, ok := r.branches[branch]
	s.mu.Unlock()
	if !ok {
		c.fail(http.StatusNotFound, "RevisionNotFound", "Invalid rev id: "+branch)
		return
	}
	head, changes, err := s.readCommit(http.MaxBytesReader(c.w, c.Body, s.MaxCommitBody))
	if err != nil {
		c.fail(http.StatusBadRequest, "", err.Error())
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := r.branches[branch]; head.ParentCommit != "" && head.ParentCommit != now {
		c.fail(http.StatusPreconditionFailed, "", "A commit has happened since. Please refresh and try again. "+
			"parentCommit "+head.ParentCommit+", head "+now)
		return
	}
	files := maps.Clone(r.head(branch).files)
	for _, change := range changes {
		if err := change(files); err != nil {
			c.fail(http.StatusNotFound, "EntryNotFound", err.Error())
			return
		}
	}
	made := s.commit(r, branch, head.Summary, files)
	c.reply(http.StatusOK, map[string]any{
		"success": true, "commitOid": made.id, "commitUrl": s.URL + "/" + r.id + "/commit/" + made.id, "hookOutput": "",
	})
}

// commitLine is the value of a line of a commit: the header or a change.
type commitLine struct {
	Summary, Description, ParentCommit string
	Path, Content, Encoding            string
	Algo, OID                          string
	Size                               int64
}

// change applies one change of a commit to the files of a branch. If it returns an error, the
// commit is refused.
type change func(files map[string]file) error

// readCommit reads the lines of a commit.
func (s *Server) readCommit(body io.Reader) (head commitLine, changes []change, err error) {
	lines := json.NewDecoder(body)
	for n := 0; ; n++ {
		var line struct {
			Key   string     `json:"key"`
			Value commitLine `json:"value"`
		}
		switch err := lines.Decode(&line); {
		case errors.Is(err, io.EOF):
			return head, changes, nil
		case err != nil:
			return head, nil, err
		case (n == 0) != (line.Key == "header"):
			return head, nil, errors.New("the first line, and no other, must be the header")
		case n == 0:
			if head = line.Value; head.Summary == "" {
				return head, nil, errors.New(`"summary" is required`)
			}
			continue
		case !cleanName(line.Value.Path):
			return head, nil, fmt.Errorf("invalid path %q", line.Value.Path)
		}
		made, err := s.change(line.Key, line.Value)
		if err != nil {
			return head, nil, err
		}
		changes = append(changes, made)
	}
}

// change returns the change that a line of a commit requests.
func (s *Server) change(key string, v commitLine) (change, error) {
	switch key {
	case "file":
		content, err := base64.StdEncoding.DecodeString(v.Content)
		if err != nil || v.Encoding != "base64" {
			return nil, errors.New(v.Path + " is not base64")
		}
		if s.isLarge(v.Path, int64(len(content))) {
			//nolint:staticcheck // ST1005: the Hub's words
			return nil, errors.New("Your push was rejected because it contains files larger than the limit or binary " +
				"files; use LFS: " + v.Path)
		}
		return func(files map[string]file) error {
			files[v.Path] = smallFile(content)
			return nil
		}, nil
	case "lfsFile":
		return func(files map[string]file) error {
			size, known := s.objects[v.OID]
			if !known || v.Algo != "sha256" || v.Size != 0 && v.Size != size {
				return fmt.Errorf("the LFS object of %s was not uploaded", v.Path)
			}
			files[v.Path] = largeFile(v.OID, size)
			return nil
		}, nil
	case "deletedFile":
		return func(files map[string]file) error {
			if _, ok := files[v.Path]; !ok {
				//nolint:staticcheck // ST1005: the Hub's words, which clients look for
				return fmt.Errorf("A file with this name doesn't exist: %s", v.Path)
			}
			delete(files, v.Path)
			return nil
		}, nil
	case "deletedFolder":
		return func(files map[string]file) error {
			maps.DeleteFunc(files, func(name string, _ file) bool {
				return strings.HasPrefix(name, strings.TrimSuffix(v.Path, "/")+"/")
			})
			return nil
		}, nil
	}
	return nil, errors.New("unknown key " + key)
}

// cleanName reports whether a path stays inside the repository.
func cleanName(name string) bool {
	plain := strings.TrimSuffix(name, "/")
	return plain != "" && plain == path.Clean(plain) && !strings.HasPrefix(plain, "/") && plain != ".." &&
		!strings.HasPrefix(plain, "../") && !strings.HasPrefix(plain, ".git/")
}
