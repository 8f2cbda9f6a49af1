package hub

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
)

// File calls [Client.File] on a zero Client, which takes its settings from the environment.
func File(ctx context.Context, repoID, name string, o *FetchOptions) (string, error) {
	return new(Client).File(ctx, repoID, name, o)
}

// File downloads one file of a repository into the cache and returns its path. A cached file of a
// commit needs no request; a file of a branch needs one, to see whether the branch has moved. If
// the Hub cannot be reached, the cached file of the revision is returned. The options Allow and
// Ignore do not apply and must be empty.
func (c *Client) File(ctx context.Context, repoID, name string, o *FetchOptions) (string, error) {
	if o == nil {
		o = &FetchOptions{}
	}
	conn, r, revision, err := c.reach(ctx, repoID, &RepoOptions{Type: o.Type, Revision: o.Revision})
	if err != nil {
		return "", err
	}
	if err := checkName(name); err != nil {
		return "", err
	}
	if len(o.Allow)+len(o.Ignore) > 0 {
		return "", fmt.Errorf("hub: File fetches %s alone; leave FetchOptions.Allow and Ignore empty: %w", name,
			ErrName)
	}
	store, err := conn.openStore(r)
	if err != nil {
		return "", err
	}
	defer store.close()
	commit, err := conn.file(ctx, store, r, revision, name, *o)
	if err != nil {
		return "", fmt.Errorf("hub: %s of %s at %s: %w", name, r.id, revision, err)
	}
	return filepath.Join(store.snapshot(commit), filepath.FromSlash(name)), nil
}

// metadata is the Hub's information about a file in response headers.
type metadata struct {
	commit, etag string
	size         int64
}

func (c *conn) file(ctx context.Context, s *store, r repository, revision, name string, o FetchOptions) (commit string,
	err error) {
	cached, known := s.ref(revision)
	here := known && s.has(cached, name)
	if here && !o.Force && commitPattern.MatchString(revision) {
		return cached, nil
	}
	ask := c
	if here {
		quick := *c
		quick.retries = 0
		ask = &quick
	}
	m, err := ask.head(ctx, s, r, revision, name)
	if err != nil {
		gone := errors.Is(err, ErrFileNotFound) || errors.Is(err, ErrRevisionNotFound)
		switch {
		case o.Force || gone || ctx.Err() != nil || errors.Is(err, ErrName):
			return "", err
		case here:
			c.log.WarnContext(ctx, "hub: using the cached file", "repository", r.id, "file", name, "reason",
				err.Error())
			return cached, nil
		case known && s.isMissing(cached, name):
			return "", fmt.Errorf("%w; when the Hub was last asked there was none: %w", err, ErrFileNotFound)
		}
		return "", fmt.Errorf("%w; it is not in the cache %s either: %w", err, s.dir, ErrNotCached)
	}
	s.tag()
	if err := s.setRef(revision, m.commit); err != nil && !commitPattern.MatchString(revision) {
		return "", err
	}
	meter := newMeter(o.Progress, 1)
	d := download{conn: c, store: s, repo: r, commit: m.commit, name: name, etag: m.etag, size: m.size, force: o.Force,
		meter: meter}
	return m.commit, d.run(ctx)
}

// head requests the commit, the etag and the size of a file. They are in the Hub's own response, so
// it does not follow the redirect for large files to another server.
func (c *conn) head(ctx context.Context, s *store, r repository, revision, name string) (metadata, error) {
	var m metadata
	address := c.base + r.files() + "/resolve/" + url.PathEscape(revision) + "/" + escapePath(name)
	missing := ""
	err := c.retry(ctx, func() (bool, error) {
		resp, err := c.send(ctx, request{method: http.MethodHead, url: address, stay: true})
		var answer *Error
		if errors.As(err, &answer) && answer.Code == "EntryNotFound" {
			missing = answer.commit
		}
		if err != nil {
			return false, err
		}
		defer quietly(resp.Body)
		m, err = readMetadata(resp)
		return false, err
	})
	if commitPattern.MatchString(missing) {
		if err := errors.Join(s.setMissing(missing, name), s.setRef(revision, missing)); err != nil {
			c.log.WarnContext(ctx, "hub: cannot note that there is no such file", "file", name, "reason", err.Error())
		}
	}
	return m, err
}

func readMetadata(resp *http.Response) (metadata, error) {
	m := metadata{commit: resp.Header.Get("X-Repo-Commit"), size: -1}
	if !commitPattern.MatchString(m.commit) {
		return m, fmt.Errorf("%s answers without X-Repo-Commit, so it is no Hub; check the endpoint and proxies",
			bare(resp.Request.URL))
	}
	m.etag = resp.Header.Get("X-Linked-Etag")
	if m.etag == "" {
		m.etag = resp.Header.Get("ETag")
	}
	m.etag = strings.Trim(strings.TrimPrefix(m.etag, "W/"), `"`)
	length := resp.Header.Get("X-Linked-Size")
	if length == "" && resp.StatusCode < 300 {
		length = resp.Header.Get("Content-Length")
	}
	if n, err := strconv.ParseUint(length, 10, 63); err == nil {
		m.size = int64(n)
	}
	return m, checkEtag(m.etag)
}
