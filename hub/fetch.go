package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// FetchOptions configures [Client.Fetch] and [Client.File]. Nil and the zero value mean all files
// of the branch main of a model.
type FetchOptions struct {
	Type     Type   // "" means Model
	Revision string // branch, tag or commit; "" means main

	// Allow and Ignore are wildcards like Python's allow_patterns and ignore_patterns: * also
	// matches slashes, and "onnx/" means everything below that folder. A file is fetched if one of
	// Allow matches, or Allow is empty, and none of Ignore matches.
	Allow, Ignore []string

	Force    bool           // fetch files even if they are in the cache
	Progress func(Progress) // called after each piece that was received; may be nil
}

// Repo is a cached repository at one commit.
type Repo struct {
	ID     string
	Type   Type
	Commit string // the commit itself, which never changes
	// the folder of the files, absolute. Do not write to it: its files are shared by all programs
	// that use the cache.
	Dir   string
	Files []string // the fetched files, sorted, with slashes
	// why the Hub was not contacted, or could not be reached, and the cached files are returned;
	// nil if it was contacted
	Offline error
}

// Path returns the local path of a file of the repository.
func (r *Repo) Path(name string) string { return filepath.Join(r.Dir, filepath.FromSlash(name)) }

// Fetch calls [Client.Fetch] on a zero Client, which takes its settings from the environment.
func Fetch(ctx context.Context, repoID string, o *FetchOptions) (*Repo, error) {
	return new(Client).Fetch(ctx, repoID, o)
}

// Fetch downloads the files of a repository into the cache and returns their location. Files that
// are already cached are not downloaded again. If the Hub cannot be reached but all requested
// files of the revision are cached, those are returned and [Repo.Offline] says why.
func (c *Client) Fetch(ctx context.Context, repoID string, o *FetchOptions) (*Repo, error) {
	if o == nil {
		o = &FetchOptions{}
	}
	conn, r, revision, err := c.reach(ctx, repoID, &RepoOptions{Type: o.Type, Revision: o.Revision})
	if err != nil {
		return nil, err
	}
	wanted, err := newFilter(o.Allow, o.Ignore)
	if err != nil {
		return nil, err
	}
	store, err := conn.openStore(r)
	if err != nil {
		return nil, err
	}
	defer store.close()
	repo, err := conn.fetch(ctx, store, r, revision, wanted, *o)
	if err != nil {
		return nil, fmt.Errorf("hub: %s at %s: %w", r.id, revision, err)
	}
	return repo, nil
}

func (c *conn) fetch(ctx context.Context, s *store, r repository, revision string, wanted filter,
	o FetchOptions) (*Repo, error) {
	commit, entries, err := c.resolve(ctx, s, r, revision)
	if err != nil {
		if o.Force || ctx.Err() != nil || errors.Is(err, ErrRevisionNotFound) || errors.Is(err, ErrName) {
			return nil, err
		}
		repo, missing := s.cached(r, revision, wanted)
		if missing != nil {
			return nil, fmt.Errorf("%w; %w", err, missing)
		}
		c.log.WarnContext(ctx, "hub: using the cached state", "repository", r.id, "commit", repo.Commit, "reason",
			err.Error())
		repo.Offline = err
		return repo, nil
	}
	entries = slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool { return !wanted.passes(e.Path) })
	m := newMeter(o.Progress, len(entries))
	missing := slices.ContainsFunc(entries, func(e Entry) bool { return o.Force || !s.has(commit, e.Path) })
	if missing && c.offline {
		if _, err := s.cached(r, commit, wanted); err != nil {
			return nil, err
		}
	}
	err = c.each(ctx, len(entries), func(ctx context.Context, i int) error {
		e := entries[i]
		d := download{conn: c, store: s, repo: r, commit: commit, name: e.Path, etag: e.etag(), size: e.Size,
			force: o.Force, meter: m}
		return d.run(ctx)
	})
	if err != nil {
		return nil, err
	}
	repo := &Repo{ID: r.id, Type: r.kind, Commit: commit, Dir: s.snapshot(commit), Files: names(entries)}
	if c.offline {
		repo.Offline = ErrOffline
	}
	return repo, nil
}

// resolve returns the commit of a revision and its listing. It makes no request for a commit whose
// listing is cached, since a commit never changes.
func (c *conn) resolve(ctx context.Context, s *store, r repository, revision string) (string, []Entry, error) {
	commit := revision
	if !commitPattern.MatchString(revision) {
		ask := c
		if _, known := s.ref(revision); known { // do not retry if there is a cached state to fall back on
			quick := *c
			quick.retries = 0
			ask = &quick
		}
		info, err := ask.info(ctx, r, revision)
		if err != nil {
			return "", nil, err
		}
		commit = info.Commit
	}
	entries, known := s.tree(commit)
	if !known {
		var err error
		if entries, err = c.list(ctx, r, commit); err != nil {
			return "", nil, err
		}
		for _, e := range entries {
			if err := checkEntry(e); err != nil {
				return "", nil, err
			}
		}
		if err := s.setTree(commit, entries); err != nil {
			return "", nil, err
		}
	}
	s.tag()
	if !commitPattern.MatchString(revision) {
		if err := s.setRef(revision, commit); err != nil {
			return "", nil, err
		}
	}
	return commit, entries, nil
}

// cached returns the cached state of a revision, if no wanted file is missing.
func (s *store) cached(r repository, revision string, wanted filter) (*Repo, error) {
	commit, ok := s.ref(revision)
	if !ok {
		return nil, fmt.Errorf("nothing of this revision was ever fetched into %s: %w", s.dir, ErrNotCached)
	}
	entries, ok := s.tree(commit)
	if !ok {
		return nil, fmt.Errorf("the listing of commit %s is not in %s, so nobody can tell whether the files there "+
			"are all: %w", commit, s.dir, ErrNotCached)
	}
	entries = slices.DeleteFunc(entries, func(e Entry) bool { return !wanted.passes(e.Path) })
	var missing []string
	for _, e := range entries {
		if !s.has(commit, e.Path) {
			missing = append(missing, e.Path)
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		shown := missing[:min(3, len(missing))]
		return nil, fmt.Errorf("of commit %s the cache lacks %d of %d files (%s ...): %w", commit, len(missing),
			len(entries), strings.Join(shown, ", "), ErrNotCached)
	}
	return &Repo{ID: r.id, Type: r.kind, Commit: commit, Dir: s.snapshot(commit), Files: names(entries)}, nil
}

func names(entries []Entry) []string {
	out := make([]string, 0, len(entries))
	for _, e := range entries {
		out = append(out, e.Path)
	}
	slices.SortFunc(out, cmp.Compare[string])
	return out
}

// each calls do for 0 to n-1 in several goroutines, and returns the first error after all have
// stopped.
func (c *conn) each(ctx context.Context, n int, do func(context.Context, int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	next := make(chan int)
	for range min(c.workers, n) {
		group.Go(func() {
			for i := range next {
				if err := do(ctx, i); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
feed:
	for i := range n {
		select {
		case next <- i:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	group.Wait()
	return context.Cause(ctx)
}
