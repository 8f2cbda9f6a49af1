package hubtest

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Kind is the type of a repository, by the name that the Hub's paths use for it.
type Kind string

// The kinds of repositories.
const (
	Model   Kind = "models"
	Dataset Kind = "datasets"
	Space   Kind = "spaces"
)

// Visibility says who may read a repository.
type Visibility bool

// A public repository may be read by everybody, a private one by those who may write to it.
const (
	Public  Visibility = false
	Private Visibility = true
)

// repo is a repository: immutable commits, and branches and tags that name them.
type repo struct {
	kind     Kind
	id       string
	private  bool
	gated    bool
	commits  map[string]*commit
	branches map[string]string
	tags     map[string]string
	created  time.Time
}

// commit is a state of all files.
type commit struct {
	id, parent, title string
	files             map[string]file
}

// file is a file of a commit: a small one with its content, or a pointer to a large object.
type file struct {
	content []byte // of a small file; for a large one, the LFS pointer that git would have
	oid     string // git's object id of content
	sha256  string // of a large object; "" for a small file
	size    int64
}

// gitOID returns git's object id of a file.
func gitOID(content []byte) string {
	h := sha1.New()
	fmt.Fprintf(h, "blob %d\x00", len(content))
	h.Write(content)
	return hex.EncodeToString(h.Sum(nil))
}

func smallFile(content []byte) file {
	return file{content: content, oid: gitOID(content), size: int64(len(content))}
}

func largeFile(sha string, size int64) file {
	pointer := fmt.Appendf(nil, "version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n", sha, size)
	return file{content: pointer, oid: gitOID(pointer), sha256: sha, size: size}
}

// CreateRepo makes an empty repository. Its branch main has one commit with a .gitattributes, as
// the Hub's has.
func (s *Server) CreateRepo(kind Kind, id string, v Visibility) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.create(kind, id, bool(v))
}

func (s *Server) create(kind Kind, id string, private bool) *repo {
	r := &repo{kind: kind, id: id, private: private, commits: map[string]*commit{}, branches: map[string]string{},
		tags: map[string]string{}, created: time.Now()}
	s.repos[string(kind)+"/"+id] = r
	attributes := "*.bin filter=lfs diff=lfs merge=lfs -text\n*.safetensors filter=lfs diff=lfs merge=lfs -text\n"
	s.commit(r, "main", "initial commit", map[string]file{".gitattributes": smallFile([]byte(attributes))})
	return r
}

// Gate makes a repository gated: only users with write access can read its files.
func (s *Server) Gate(kind Kind, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.repos[string(kind)+"/"+id].gated = true
}

// Commit adds files to a branch, replacing those of the same names, and returns the new commit's
// id. Large files by the server's rules go to LFS. It panics if there is no such repository, since
// the test is then wrong.
func (s *Server) Commit(kind Kind, id, branch string, files map[string][]byte) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.repos[string(kind)+"/"+id]
	if r == nil {
		panic(fmt.Sprintf("hubtest: there is no repository %s/%s; CreateRepo makes one", kind, id))
	}
	next := maps.Clone(r.head(branch).files)
	for name, content := range files {
		if !s.isLarge(name, int64(len(content))) {
			next[name] = smallFile(slices.Clone(content))
			continue
		}
		sum := sha256.Sum256(content)
		sha := hex.EncodeToString(sum[:])
		if err := os.WriteFile(s.objectPath(sha), content, 0o600); err != nil {
			panic(fmt.Sprintf("hubtest: %v", err))
		}
		s.objects[sha] = int64(len(content))
		next[name] = largeFile(sha, int64(len(content)))
	}
	return s.commit(r, branch, "commit by the test", next).id
}

// Files returns the content of all files at a revision: a branch, a tag or a commit. It is nil if
// there is no such revision.
func (s *Server) Files(kind Kind, id, revision string) map[string][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.repos[string(kind)+"/"+id]
	if r == nil {
		return nil
	}
	c := r.resolve(revision)
	if c == nil {
		return nil
	}
	out := map[string][]byte{}
	for name, f := range c.files {
		out[name] = f.content
		if f.sha256 != "" {
			content, err := os.ReadFile(s.objectPath(f.sha256))
			if err != nil {
				panic(fmt.Sprintf("hubtest: %v", err))
			}
			out[name] = content
		}
	}
	return out
}

// Log returns the titles of a branch's commits, the newest first.
func (s *Server) Log(kind Kind, id, branch string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var titles []string
	if r := s.repos[string(kind)+"/"+id]; r != nil {
		for c := r.resolve(branch); c != nil; c = r.commits[c.parent] {
			titles = append(titles, c.title)
		}
	}
	return titles
}

// Head returns the commit that a revision names, "" if there is none.
func (s *Server) Head(kind Kind, id, revision string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.repos[string(kind)+"/"+id]; r != nil {
		if c := r.resolve(revision); c != nil {
			return c.id
		}
	}
	return ""
}

// commit adds a commit with exactly these files to a branch. s.mu is held.
func (s *Server) commit(r *repo, branch, title string, files map[string]file) *commit {
	s.serial++
	c := &commit{parent: r.branches[branch], title: title, files: files}
	h := sha1.New()
	fmt.Fprintf(h, "%s\n%s\n%d\n%s\n", r.kind, r.id, s.serial, c.parent)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(h, "%s %s\n", files[name].oid, name)
	}
	_, _ = io.WriteString(h, title)
	c.id = hex.EncodeToString(h.Sum(nil))
	r.commits[c.id] = c
	r.branches[branch] = c.id
	return c
}

// head returns the last commit of a branch, or an empty one.
func (r *repo) head(branch string) *commit {
	if c := r.commits[r.branches[branch]]; c != nil {
		return c
	}
	return &commit{files: map[string]file{}}
}

// resolve returns the commit that a branch, tag or id names, or nil.
func (r *repo) resolve(revision string) *commit {
	for _, id := range []string{r.branches[revision], r.tags[revision], revision} {
		if c := r.commits[id]; c != nil {
			return c
		}
	}
	return nil
}

// isLarge reports whether the server stores a file in LFS.
func (s *Server) isLarge(name string, size int64) bool {
	return size > 0 && (size >= s.LFSThreshold || strings.HasSuffix(name, ".safetensors") || strings.HasSuffix(name,
		".bin"))
}

func (s *Server) objectPath(sha string) string { return filepath.Join(s.dir, sha) }
