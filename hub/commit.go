package hub

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Change is one change of a commit: a file to add or replace, or one to delete.
type Change struct {
	Path    string // in the repository, with slashes
	File    string // the local file with its content; "" means Content
	Content []byte // the content itself
	Delete  bool   // delete the file, or everything below Path if that ends in a slash
}

// CommitOptions configures [Client.Commit]. The zero value commits to the branch main of a model.
type CommitOptions struct {
	Type        Type   // "" means Model
	Branch      string // "" means main; it must exist
	Message     string // the commit's title; "" means "Upload with gotrainer"
	Description string // the commit's description
	// the commit that the branch must be at, otherwise the call fails with [ErrConflict]; "" means
	// any
	Parent   string
	Progress func(Progress) // called after each piece that was sent; may be nil
}

// Commit is the result of a push on the Hub.
type Commit struct {
	ID        string // the latest commit of the branch
	URL       string // its page
	RepoID    string // including the namespace
	Unchanged bool   // everything was already there, so no commit was made
}

// DefaultMessage is the default title of commits.
const DefaultMessage = "Upload with gotrainer"

// Commit makes a single commit with all changes. Files whose content the branch already has, byte
// for byte, are skipped; if nothing remains, no commit is made. Large files are sent first, unless
// the Hub already has them from an earlier, interrupted attempt.
func (c *Client) Commit(ctx context.Context, repoID string, changes []Change, o CommitOptions) (*Commit, error) {
	conn, r, branch, err := c.reach(ctx, repoID, &RepoOptions{Type: o.Type, Revision: o.Branch})
	if err != nil {
		return nil, err
	}
	done, err := conn.commit(ctx, r, branch, changes, o)
	if err != nil {
		return nil, fmt.Errorf("hub: cannot commit to %s: %w", r.id, err)
	}
	return done, nil
}

func (c *conn) commit(ctx context.Context, r repository, branch string, changes []Change, o CommitOptions) (*Commit,
	error) {
	additions, deletions, err := sortChanges(changes)
	if err != nil {
		return nil, err
	}
	if o.Message == "" {
		o.Message = DefaultMessage
	}
	if err := c.preupload(ctx, r, branch, additions); err != nil {
		return nil, err
	}
	additions = slices.DeleteFunc(additions, func(a *addition) bool { return a.ignored })
	m := newMeter(o.Progress, len(additions))
	if err := c.each(ctx, len(additions), func(ctx context.Context,
		i int) error {
		return additions[i].hash(ctx)
	}); err != nil {
		return nil, err
	}
	changed := slices.DeleteFunc(slices.Clone(additions), func(a *addition) bool {
		same := a.remote == a.sum
		if same {
			m.finish(a.path)
		}
		return same
	})
	if len(changed)+len(deletions) == 0 {
		return c.branchHead(ctx, r, branch, true)
	}
	if err := c.uploadLarge(ctx, r, branch, changed, m); err != nil {
		return nil, err
	}
	return c.postCommit(ctx, r, branch, changed, deletions, o, m)
}

// sortChanges checks the changes and separates additions from deletions.
func sortChanges(changes []Change) (additions []*addition, deletions []string, err error) {
	seen := map[string]bool{}
	for _, change := range changes {
		if err := checkUploadName(strings.TrimSuffix(change.Path, "/")); err != nil {
			return nil, nil, err
		}
		if seen[change.Path] {
			return nil, nil, fmt.Errorf("%q is changed twice in one commit: %w", change.Path, ErrName)
		}
		seen[change.Path] = true
		switch {
		case change.Delete && (change.File != "" || change.Content != nil):
			return nil, nil, fmt.Errorf("%q is to be deleted and has a content as well: %w", change.Path, ErrName)
		case change.Delete:
			deletions = append(deletions, change.Path)
		case strings.HasSuffix(change.Path, "/"):
			return nil, nil, fmt.Errorf("%q is a folder; only files have a content: %w", change.Path, ErrName)
		default:
			a, err := newAddition(change)
			if err != nil {
				return nil, nil, err
			}
			additions = append(additions, a)
		}
	}
	return additions, deletions, nil
}

// checkUploadName refuses names that the Hub refuses, and names that no client could fetch again.
func checkUploadName(name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".git" || part == ".cache" {
			return fmt.Errorf("%q is in a folder %s, which the Hub does not take: %w", name, part, ErrName)
		}
	}
	return nil
}

// branchHead returns the state of a branch as the result of a commit.
func (c *conn) branchHead(ctx context.Context, r repository, branch string, unchanged bool) (*Commit, error) {
	info, err := c.info(ctx, r, branch)
	if err != nil {
		return nil, err
	}
	return &Commit{ID: info.Commit, URL: c.base + r.files() + "/commit/" + info.Commit, RepoID: r.id,
		Unchanged: unchanged}, nil
}

// preuploadBatch is the maximum number of files in a request to the Hub.
const preuploadBatch = 256

// preupload asks the Hub how each file is to be sent, and for the sum of the branch's file of that
// name.
func (c *conn) preupload(ctx context.Context, r repository, branch string, additions []*addition) error {
	type file struct {
		Path   string `json:"path"`
		Size   int64  `json:"size"`
		Sample string `json:"sample"`
	}
	body := struct {
		Files     []file  `json:"files"`
		GitIgnore *string `json:"gitIgnore,omitempty"`
	}{}
	for _, a := range additions {
		if a.path == ".gitignore" && a.size < 1<<20 {
			content, err := a.read()
			if err != nil {
				return err
			}
			rules := string(content)
			body.GitIgnore = &rules
		}
	}
	for batch := range slices.Chunk(additions, preuploadBatch) {
		body.Files = body.Files[:0]
		byPath := map[string]*addition{}
		for _, a := range batch {
			body.Files = append(body.Files, file{a.path, a.size, base64.StdEncoding.EncodeToString(a.sample)})
			byPath[a.path] = a
		}
		var answer struct {
			Files []struct {
				Path, UploadMode, OID string
				ShouldIgnore          bool
			}
		}
		if err := c.call(ctx, http.MethodPost, r.api()+"/preupload/"+url.PathEscape(branch), body,
			&answer); err != nil {
			return err
		}
		for _, f := range answer.Files {
			a := byPath[f.Path]
			if a == nil {
				continue
			}
			delete(byPath, f.Path)
			if f.UploadMode != "lfs" && f.UploadMode != "regular" {
				return fmt.Errorf("the Hub wants %s sent as %q, which this client does not know", f.Path, f.UploadMode)
			}
			a.large = f.UploadMode == "lfs" && a.size > 0 // the Hub's storage refuses empty objects
			a.ignored, a.remote = f.ShouldIgnore, f.OID
		}
		for path := range byPath {
			return fmt.Errorf("the Hub does not say how to send %s; check the endpoint", path)
		}
	}
	return nil
}

// postCommit sends the commit. If the answer was lost, it checks whether the commit was made before
// sending it again.
func (c *conn) postCommit(ctx context.Context, r repository, branch string, additions []*addition, deletions []string,
	o CommitOptions, m *meter) (*Commit, error) {
	header := map[string]string{"summary": o.Message, "description": o.Description}
	if o.Parent != "" {
		header["parentCommit"] = o.Parent
	}
	var answer struct{ CommitOID, CommitURL string }
	body := &commitBody{}
	if err := body.line("header", header); err != nil {
		return nil, err
	}
	for _, path := range deletions {
		key := "deletedFile"
		if strings.HasSuffix(path, "/") {
			key = "deletedFolder"
		}
		if err := body.line(key, map[string]string{"path": path}); err != nil {
			return nil, err
		}
	}
	for _, a := range additions {
		if !a.large {
			body.file(a)
		} else if err := body.line("lfsFile", map[string]any{"path": a.path, "algo": "sha256", "oid": a.sum,
			"size": a.size}); err != nil {
			return nil, err
		}
	}
	post := request{
		method: http.MethodPost, url: c.base + r.api() + "/commit/" + url.PathEscape(branch),
		header: map[string]string{"Content-Type": "application/x-ndjson"}, body: body.reader, size: body.size,
	}
	var landed *Commit
	again := false
	err := c.retry(ctx, func() (bool, error) {
		if again {
			if yes, err := c.isCommitted(ctx, r, branch, additions, deletions); err != nil {
				return false, err
			} else if yes {
				landed, err = c.branchHead(ctx, r, branch, false)
				return false, err
			}
		}
		again = true
		resp, err := c.send(ctx, post)
		if err != nil {
			return false, err
		}
		defer quietly(resp.Body)
		return false, decode(resp, &answer)
	})
	if err != nil {
		return nil, err
	}
	for _, a := range additions {
		if !a.large {
			m.set(a.path, a.size)
			m.finish(a.path)
		}
	}
	if landed != nil {
		return landed, nil
	}
	if !commitPattern.MatchString(answer.CommitOID) {
		return nil, errors.New("the Hub took the commit and does not say which it is; check the endpoint")
	}
	return &Commit{ID: answer.CommitOID, URL: answer.CommitURL, RepoID: r.id}, nil
}

// isCommitted reports whether the branch is already in the state after the commit.
func (c *conn) isCommitted(ctx context.Context, r repository, branch string, additions []*addition,
	deletions []string) (bool, error) {
	asked := make([]*addition, len(additions))
	for i, a := range additions {
		question := *a
		asked[i] = &question
	}
	if err := c.preupload(ctx, r, branch, asked); err != nil {
		return false, err
	}
	if slices.ContainsFunc(asked, func(a *addition) bool { return a.remote != a.sum }) {
		return false, nil
	}
	if len(deletions) == 0 {
		return true, nil
	}
	entries, err := c.list(ctx, r, branch)
	if err != nil {
		return false, err
	}
	return !slices.ContainsFunc(entries, func(e Entry) bool {
		return slices.ContainsFunc(deletions, func(d string) bool {
			return e.Path == d || strings.HasSuffix(d, "/") && strings.HasPrefix(e.Path, d)
		})
	}), nil
}

// commitBody builds the JSON lines of a commit. Files are only read when they are sent, one at a
// time.
type commitBody struct {
	parts []func() (io.Reader, error)
	size  int64
}

func (b *commitBody) text(s string) {
	b.parts = append(b.parts, func() (io.Reader, error) { return strings.NewReader(s), nil })
	b.size += int64(len(s))
}

func (b *commitBody) line(key string, value any) error {
	text, err := json.Marshal(map[string]any{"key": key, "value": value})
	if err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	b.text(string(text) + "\n")
	return nil
}

// file adds a line with the content of a small file.
func (b *commitBody) file(a *addition) {
	name, err := json.Marshal(a.path)
	if err != nil {
		name = []byte(`""`) // cannot happen: any string can be marshaled
	}
	b.text(`{"key":"file","value":{"path":` + string(name) + `,"encoding":"base64","content":"`)
	b.parts = append(b.parts, func() (io.Reader, error) {
		content, err := a.read()
		if err != nil {
			return nil, err
		}
		return bytes.NewReader(base64.StdEncoding.AppendEncode(nil, content)), nil
	})
	b.size += int64(base64.StdEncoding.EncodedLen(int(a.size)))
	b.text("\"}}\n")
}

func (b *commitBody) reader() (io.Reader, error) { return &lazyReader{rest: b.parts}, nil }

// lazyReader concatenates readers, each opened only when it is needed.
type lazyReader struct {
	now  io.Reader
	rest []func() (io.Reader, error)
}

func (l *lazyReader) Read(p []byte) (int, error) {
	for {
		if l.now == nil {
			if len(l.rest) == 0 {
				return 0, io.EOF
			}
			var err error
			if l.now, err = l.rest[0](); err != nil {
				return 0, err
			}
			l.rest = l.rest[1:]
		}
		n, err := l.now.Read(p)
		if errors.Is(err, io.EOF) {
			l.now, err = nil, nil
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}
