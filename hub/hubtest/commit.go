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
	body := json.NewDecoder(http.MaxBytesReader(c.w, c.Body, s.MaxCommitBody))
	s.mu.Lock()
	if _, ok := r.branches[branch]; !ok {
		s.mu.Unlock()
		c.fail(http.StatusNotFound, "RevisionNotFound", "Invalid rev id: "+branch)
		return
	}
	s.mu.Unlock()
	var title, parent string
	changes := []func(map[string]file) error{}
	for n := 0; ; n++ {
		var line struct {
			Key   string `json:"key"`
			Value struct {
				Summary, Description, ParentCommit string
				Path, Content, Encoding            string
				Algo, OID                          string
				Size                               int64
			} `json:"value"`
		}
		err := body.Decode(&line)
		if errors.Is(err, io.EOF) {
			break
		}
		v := line.Value
		if err == nil && (n == 0) != (line.Key == "header") {
			err = errors.New("the first line, and no other, must be the header")
		}
		if err == nil && line.Key != "header" && !cleanName(v.Path) {
			err = fmt.Errorf("invalid path %q", v.Path)
		}
		if err != nil {
			c.fail(http.StatusBadRequest, "", err.Error())
			return
		}
		switch line.Key {
		case "header":
			if title, parent = v.Summary, v.ParentCommit; title == "" {
				c.fail(http.StatusBadRequest, "", `"summary" is required`)
				return
			}
		case "file":
			content, err := base64.StdEncoding.DecodeString(v.Content)
			if err != nil || v.Encoding != "base64" {
				c.fail(http.StatusBadRequest, "", v.Path+" is not base64")
				return
			}
			if s.isLarge(v.Path, int64(len(content))) {
				c.fail(http.StatusBadRequest, "", "Your push was rejected because it contains files larger than the "+
					"limit or binary files; use LFS: "+v.Path)
				return
			}
			changes = append(changes, func(files map[string]file) error {
				files[v.Path] = smallFile(content)
				return nil
			})
		case "lfsFile":
			changes = append(changes, func(files map[string]file) error {
				size, known := s.objects[v.OID]
				if !known || v.Algo != "sha256" || v.Size != 0 && v.Size != size {
					return fmt.Errorf("the LFS object of %s was not uploaded", v.Path)
				}
				files[v.Path] = largeFile(v.OID, size)
				return nil
			})
		case "deletedFile":
			changes = append(changes, func(files map[string]file) error {
				if _, ok := files[v.Path]; !ok {
					//nolint:staticcheck // ST1005: the Hub's words, which clients look for
					return fmt.Errorf("A file with this name doesn't exist: %s", v.Path)
				}
				delete(files, v.Path)
				return nil
			})
		case "deletedFolder":
			changes = append(changes, func(files map[string]file) error {
				maps.DeleteFunc(files, func(name string, _ file) bool {
					return strings.HasPrefix(name, strings.TrimSuffix(v.Path, "/")+"/")
				})
				return nil
			})
		default:
			c.fail(http.StatusBadRequest, "", "unknown key "+line.Key)
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if head := r.branches[branch]; parent != "" && parent != head {
		c.fail(http.StatusPreconditionFailed, "", "A commit has happened since. Please refresh and try again. "+
			"parentCommit "+parent+", head "+head)
		return
	}
	files := maps.Clone(r.head(branch).files)
	for _, change := range changes {
		if err := change(files); err != nil {
			c.fail(http.StatusNotFound, "EntryNotFound", err.Error())
			return
		}
	}
	made := s.commit(r, branch, title, files)
	c.reply(http.StatusOK, map[string]any{
		"success": true, "commitOid": made.id, "commitUrl": s.URL + "/" + r.id + "/commit/" + made.id, "hookOutput": "",
	})
}

// cleanName reports whether a path stays inside the repository.
func cleanName(name string) bool {
	plain := strings.TrimSuffix(name, "/")
	return plain != "" && plain == path.Clean(plain) && !strings.HasPrefix(plain, "/") && plain != ".." &&
		!strings.HasPrefix(plain, "../") && !strings.HasPrefix(plain, ".git/")
}
