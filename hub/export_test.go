package hub

import (
	"context"
	"time"
)

// WithSleep replaces the pauses between tries.
func WithSleep(ctx context.Context, sleep func(context.Context, time.Duration) error) context.Context {
	return context.WithValue(ctx, sleepForTests{}, sleep)
}

// WithoutLocks makes the locking of files fail.
func WithoutLocks(ctx context.Context, err error) context.Context {
	return context.WithValue(ctx, lockForTests{}, err)
}

// Internals that the tests use.
var (
	CheckName   = checkName
	ParseTree   = parseTree
	NextPage    = nextPage
	ParseWait   = parseWait
	WaitHeader  = waitHeader
	RangeStart  = rangeStart
	Rounded     = rounded
	EscapePath  = escapePath
	OrderedJSON = orderedObject
	PartsFor    = partAddresses
)

// Match reports whether a wildcard matches a path.
func Match(glob, name string) (bool, error) {
	p, err := compilePatterns([]string{glob})
	return p.match(name), err
}

// ParseRepoID validates the name of a repository and returns its folder in the cache.
func ParseRepoID(id string) (string, error) {
	r, err := parseRepo(Model, id)
	if err != nil {
		return "", err
	}
	return r.folder(), nil
}
