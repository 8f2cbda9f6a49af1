package hub

import (
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
)

// Type is the kind of a repository.
type Type string

// The kinds of repositories. The zero value means Model.
const (
	Model   Type = "model"
	Dataset Type = "dataset"
	Space   Type = "space"
)

// DefaultRevision is the branch that is used if none is given.
const DefaultRevision = "main"

var (
	repoPattern   = pattern{1, 96, regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?$`)}
	commitPattern = pattern{40, 40, regexp.MustCompile(`^[0-9a-f]*$`)}
	sha256Pattern = pattern{64, 64, regexp.MustCompile(`^[0-9a-f]*$`)}
	etagPattern   = pattern{1, 200, regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)}
)

// pattern is a regular expression with limits for the length. Limits inside the expression would
// need a state for each character, and it is compiled in every program that links this package.
type pattern struct {
	least, most int // bytes
	form        *regexp.Regexp
}

// MatchString reports whether s has the length and the form.
func (p pattern) MatchString(s string) bool {
	return len(s) >= p.least && len(s) <= p.most && p.form.MatchString(s)
}

// repository is the validated name of a repository.
type repository struct {
	kind Type
	id   string
}

// parseRepo checks a name by the Hub's rules: "name" or "namespace/name".
func parseRepo(kind Type, id string) (repository, error) {
	if kind == "" {
		kind = Model
	}
	if kind != Model && kind != Dataset && kind != Space {
		return repository{}, fmt.Errorf("hub: the type %q of a repository is none of %q, %q, %q: %w", kind, Model,
			Dataset, Space, ErrName)
	}
	parts := strings.Split(id, "/")
	ok := len(parts) <= 2 && !strings.Contains(id, "--") && !strings.Contains(id, "..") && !strings.HasSuffix(id,
		".git")
	for _, p := range parts {
		ok = ok && repoPattern.MatchString(p)
	}
	if !ok {
		return repository{}, fmt.Errorf("hub: %q is not the name of a repository: want \"name\" or "+
			"\"namespace/name\" of at most 96 letters, digits, - _ . each, "+
			"without -- and .., not ending in .git: %w", id, ErrName)
	}
	return repository{kind, id}, nil
}

// api returns the path of the repository's API.
func (r repository) api() string { return "/api/" + string(r.kind) + "s/" + r.id }

// files returns the path before /resolve.
func (r repository) files() string {
	if r.kind == Model {
		return "/" + r.id
	}
	return "/" + string(r.kind) + "s/" + r.id
}

// folder returns the repository's folder name in the cache.
func (r repository) folder() string {
	return string(r.kind) + "s--" + strings.ReplaceAll(r.id, "/", "--")
}

// split returns the namespace, empty for a name without one, and the name.
func (r repository) split() (namespace, name string) {
	if namespace, name, ok := strings.Cut(r.id, "/"); ok {
		return namespace, name
	}
	return "", r.id
}

// escapePath escapes a path's segments and keeps its slashes.
func escapePath(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return strings.Join(parts, "/")
}

// checkName refuses file names that could escape from their folder, by the rules of any operating
// system, since a cache written on Linux may be read on Windows. Names come from the server, so
// they are not trusted.
func checkName(name string) error {
	reason := ""
	switch {
	case name == "":
		reason = "it is empty"
	case len(name) > 4096:
		reason = "it is longer than 4096 bytes"
	case strings.ContainsRune(name, '\\'):
		reason = "a backslash separates folders on Windows"
	case strings.HasPrefix(name, "/"):
		reason = "it is an absolute path"
	case strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		reason = "it has a control character"
	}
	for segment := range strings.SplitSeq(name, "/") {
		switch {
		case reason != "":
		case segment == "" || segment == "." || segment == "..":
			reason = fmt.Sprintf("the part %q leads elsewhere", segment)
		case len(segment) > 1 && segment[1] == ':' && isLetter(segment[0]):
			reason = fmt.Sprintf("the part %q names a drive of Windows", segment)
		case strings.Trim(segment, ". ") == "":
			reason = fmt.Sprintf("Windows drops the dots and spaces of %q", segment)
		}
	}
	if reason == "" && !filepath.IsLocal(filepath.FromSlash(name)) {
		reason = "this operating system gives it another meaning" // a device such as NUL
	}
	if reason != "" {
		return fmt.Errorf("hub: the file name %.200q is refused: %s: %w", name, reason, ErrName)
	}
	return nil
}

func isLetter(b byte) bool { return 'a' <= b|0x20 && b|0x20 <= 'z' }

// checkRevision refuses names of branches and tags that git does not allow or that could escape
// from the cache's folder refs.
func checkRevision(revision string) error {
	if err := checkName(revision); err != nil || strings.ContainsAny(revision, " ~^:?*[") {
		return fmt.Errorf("hub: %.200q cannot be the name of a branch, tag or commit: %w", revision, ErrName)
	}
	return nil
}

// checkEtag refuses etags that cannot be file names.
func checkEtag(etag string) error {
	if !etagPattern.MatchString(etag) || strings.Contains(etag, "..") {
		return fmt.Errorf("hub: the server's etag %.100q cannot be the name of a file: %w", etag, ErrName)
	}
	return nil
}
