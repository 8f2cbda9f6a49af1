package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// RepoOptions selects the kind of repository and its revision. Nil and the zero value mean the
// branch main of a model.
type RepoOptions struct {
	Type     Type   // "" means Model
	Revision string // branch, tag or commit; "" means main
}

// Info is the Hub's information about a repository at a revision.
type Info struct {
	ID           string    `json:"id"`
	Commit       string    `json:"sha"`
	Private      bool      `json:"private"`
	Tags         []string  `json:"tags"`
	Downloads    int64     `json:"downloads"`
	Likes        int64     `json:"likes"`
	LibraryName  string    `json:"library_name"`
	PipelineTag  string    `json:"pipeline_tag"`
	LastModified time.Time `json:"lastModified"`
}

// Entry is a file of a repository.
type Entry struct {
	Path   string // with slashes
	Size   int64
	Blob   string // git's name for it: the SHA-1 of the file, or of its LFS pointer
	SHA256 string // of a large file; "" for a file in git
}

// etag returns the name of the file's content in the cache.
func (e Entry) etag() string {
	if e.SHA256 != "" {
		return e.SHA256
	}
	return e.Blob
}

// Account is the owner of a token.
type Account struct {
	Name          string   // user name
	FullName      string   //
	Email         string   // "" unless the token may see it
	Organizations []string // the user's organizations
	TokenName     string   // the user's name for the token
	TokenRole     string   // "read", "write" or "fineGrained"
}

// Refs are the branches and tags of a repository.
type Refs struct {
	Branches map[string]string
	Tags     map[string]string
}

// at checks a call's repository and revision, and fills in their defaults.
func at(id string, o *RepoOptions) (repository, string, error) {
	if o == nil {
		o = &RepoOptions{}
	}
	r, err := parseRepo(o.Type, id)
	if err != nil {
		return r, "", err
	}
	revision := cmp.Or(o.Revision, DefaultRevision)
	return r, revision, checkRevision(revision)
}

// reach resolves the client, repository and revision of a call.
func (c *Client) reach(ctx context.Context, id string, o *RepoOptions) (*conn, repository, string, error) {
	r, revision, err := at(id, o)
	if err != nil {
		return nil, r, "", err
	}
	conn, err := c.connect(ctx)
	return conn, r, revision, err
}

// Info returns information about a repository, such as the commit of a branch and whether the
// repository is private.
func (c *Client) Info(ctx context.Context, repoID string, o *RepoOptions) (*Info, error) {
	conn, r, revision, err := c.reach(ctx, repoID, o)
	if err != nil {
		return nil, err
	}
	info, err := conn.info(ctx, r, revision)
	if err != nil {
		return nil, fmt.Errorf("hub: %s: %w", r.id, err)
	}
	return info, nil
}

func (c *conn) info(ctx context.Context, r repository, revision string) (*Info, error) {
	info := new(Info)
	if err := c.call(ctx, http.MethodGet, r.api()+"/revision/"+url.PathEscape(revision), nil, info); err != nil {
		return nil, err
	}
	if !commitPattern.MatchString(info.Commit) {
		return nil, fmt.Errorf("hub: %s answers without the id of a commit, so it is no Hub; check the endpoint and "+
			"proxies", c.base)
	}
	return info, nil
}

// List returns the files of a repository, in the Hub's order.
func (c *Client) List(ctx context.Context, repoID string, o *RepoOptions) ([]Entry, error) {
	conn, r, revision, err := c.reach(ctx, repoID, o)
	if err != nil {
		return nil, err
	}
	entries, err := conn.list(ctx, r, revision)
	if err != nil {
		return nil, fmt.Errorf("hub: %s: %w", r.id, err)
	}
	return entries, nil
}

// maxPages limits a listing, which a server could continue forever. A page of the Hub has 1000
// files.
const maxPages = 4096

// list fetches a listing page by page.
func (c *conn) list(ctx context.Context, r repository, revision string) ([]Entry, error) {
	var entries []Entry
	seen := map[string]bool{}
	next := c.base + r.api() + "/tree/" + url.PathEscape(revision) + "?recursive=True&expand=False"
	for next != "" {
		if seen[next] {
			return nil, fmt.Errorf("hub: the listing of %s goes round in a circle", r.id)
		}
		if seen[next] = true; len(seen) > maxPages {
			return nil, fmt.Errorf("hub: the listing of %s has more than %d pages, %d files so far; check the "+
				"endpoint and proxies", r.id, maxPages, len(entries))
		}
		var page []struct {
			Type, Path, OID string
			Size            int64
			LFS             *struct {
				OID  string
				Size int64
			}
		}
		link := ""
		err := c.do(ctx, request{method: http.MethodGet, url: next}, func(resp *http.Response) error {
			link = nextPage(resp.Header.Values("Link"))
			return decode(resp, &page)
		})
		if err != nil {
			return nil, err
		}
		for _, p := range page {
			if p.Type != "file" {
				continue
			}
			e := Entry{Path: p.Path, Size: p.Size, Blob: p.OID}
			if p.LFS != nil {
				e.SHA256, e.Size = p.LFS.OID, p.LFS.Size
			}
			entries = append(entries, e)
		}
		here, err := url.Parse(next)
		if err != nil {
			return nil, fmt.Errorf("hub: %w", err)
		}
		if next = ""; link != "" {
			following, err := here.Parse(link)
			if err != nil || !c.trusts(following) {
				return nil, errors.New("hub: the listing's next page is not on the Hub")
			}
			next = following.String()
		}
	}
	return entries, nil
}

// nextPage returns the address with rel="next" in Link headers, or "".
func nextPage(headers []string) string {
	for _, h := range headers {
		for h != "" {
			_, rest, ok := strings.Cut(h, "<")
			if !ok {
				break
			}
			address, after, ok := strings.Cut(rest, ">")
			if !ok {
				break
			}
			parameters, following, _ := strings.Cut(after, "<")
			for p := range strings.FieldsFuncSeq(parameters, func(r rune) bool { return r == ';' || r == ',' }) {
				name, value, _ := strings.Cut(strings.TrimSpace(p), "=")
				if strings.EqualFold(name, "rel") && strings.Trim(value, `" `) == "next" {
					return address
				}
			}
			if h = ""; following != "" {
				h = "<" + following
			}
		}
	}
	return ""
}

// Refs returns the branches and tags of a repository with their commits.
func (c *Client) Refs(ctx context.Context, repoID string, o *RepoOptions) (*Refs, error) {
	conn, r, _, err := c.reach(ctx, repoID, o)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Branches, Tags []struct{ Name, TargetCommit string }
	}
	if err := conn.call(ctx, http.MethodGet, r.api()+"/refs", nil, &answer); err != nil {
		return nil, fmt.Errorf("hub: %s: %w", r.id, err)
	}
	refs := &Refs{Branches: map[string]string{}, Tags: map[string]string{}}
	for _, b := range answer.Branches {
		refs.Branches[b.Name] = b.TargetCommit
	}
	for _, t := range answer.Tags {
		refs.Tags[t.Name] = t.TargetCommit
	}
	return refs, nil
}

// WhoAmI returns the owner of the token. The Hub limits how often it may be called.
func (c *Client) WhoAmI(ctx context.Context) (*Account, error) {
	conn, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	if conn.token.IsZero() {
		return nil, fmt.Errorf("hub: there is no token to ask about: %w", ErrUnauthorized)
	}
	return conn.whoAmI(ctx)
}

func (c *conn) whoAmI(ctx context.Context) (*Account, error) {
	var answer struct {
		Name, FullName, Email string
		Orgs                  []struct{ Name string }
		Auth                  struct {
			AccessToken struct{ DisplayName, Role string }
		}
	}
	if err := c.call(ctx, http.MethodGet, "/api/whoami-v2", nil, &answer); err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	a := &Account{
		Name: answer.Name, FullName: answer.FullName, Email: answer.Email,
		TokenName: answer.Auth.AccessToken.DisplayName, TokenRole: answer.Auth.AccessToken.Role,
	}
	for _, o := range answer.Orgs {
		a.Organizations = append(a.Organizations, o.Name)
	}
	return a, nil
}

// quietly closes a reader, ignoring errors.
func quietly(c io.Closer) { _ = c.Close() }

// drain reads up to 64 KiB of an unneeded body, so that its connection can be reused.
func drain(body io.Reader) { _, _ = io.CopyN(io.Discard, body, 64<<10) }
