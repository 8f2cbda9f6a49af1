package hub

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/safetensors"
)

// Card is a model card: the README.md of a repository. [*ModelCard] is one.
type Card interface {
	Markdown() ([]byte, error)
}

// PushOptions configures [Client.Push]. The zero value pushes all files of the folder to the branch
// main of a public model.
type PushOptions struct {
	Type        Type   // "" means Model
	Branch      string // "" means main; any other branch is created from main if it does not exist
	Private     bool   // make a repository created by the push private; an existing one does not change
	Message     string // the commit's title; "" means [DefaultMessage]
	Description string // the commit's description

	PathInRepo    string   // folder in the repository for the files; "" means its root
	Allow, Ignore []string // wildcards as in [FetchOptions], for paths within the pushed folder
	Delete        []string // wildcards of files in PathInRepo that are deleted unless they are pushed

	Card     Card           // becomes README.md in the repository's root, instead of the folder's; may be nil
	Progress func(Progress) // called after each piece that was sent; may be nil
}

// neverPushed matches the folders of git and of Python's client.
var neverPushed = []string{".git", ".git/*", "*/.git", "*/.git/*", ".cache/huggingface", ".cache/huggingface/*",
	"*/.cache/huggingface", "*/.cache/huggingface/*"}

// Push calls [Client.Push] on a zero Client, which takes its settings from the environment.
func Push(ctx context.Context, repoID, dir string, o PushOptions) (*Commit, error) {
	return new(Client).Push(ctx, repoID, dir, o)
}

// Push uploads a folder to a repository as a single commit. It creates the repository if there is
// none; a name without a namespace belongs to the token's user. Before anything is sent, the front
// matter of README.md and the header of each safetensors file are checked, so that a damaged model
// is found locally.
//
// A push that was interrupted, even by kill -9, is completed by calling Push again: what has
// already arrived is not sent twice.
func (c *Client) Push(ctx context.Context, repoID, dir string, o PushOptions) (*Commit, error) {
	conn, r, branch, err := c.reach(ctx, repoID, &RepoOptions{Type: o.Type, Revision: o.Branch})
	if err != nil {
		return nil, err
	}
	remove, err := compilePatterns(o.Delete)
	if err != nil {
		return nil, err
	}
	changes, err := folderChanges(dir, o)
	if err != nil {
		return nil, fmt.Errorf("hub: cannot push %s: %w", dir, err)
	}
	if changes, err = withCard(changes, o.Card); err != nil {
		return nil, err
	}
	if len(changes) == 0 { // with Delete, the push would only delete files
		return nil, fmt.Errorf("hub: cannot push %s: it has no file that Allow and Ignore let pass", dir)
	}
	if err := inspect(changes); err != nil {
		return nil, fmt.Errorf("hub: not pushed to %s: %w", r.id, err)
	}
	done, err := conn.push(ctx, r, branch, changes, remove, o)
	if err != nil {
		return nil, fmt.Errorf("hub: cannot push to %s: %w", r.id, err)
	}
	return done, nil
}

func (c *conn) push(ctx context.Context, r repository, branch string, changes []Change, remove patterns,
	o PushOptions) (*Commit, error) {
	if c.offline {
		return nil, ErrOffline
	}
	if c.token.IsZero() {
		return nil, fmt.Errorf("there is no token: %w", ErrUnauthorized)
	}
	if namespace, name := r.split(); namespace == "" {
		account, err := c.whoAmI(ctx)
		if err != nil {
			return nil, err
		}
		if r, err = parseRepo(r.kind, account.Name+"/"+name); err != nil {
			return nil, err
		}
	}
	if err := c.createRepo(ctx, r, CreateOptions{Private: o.Private, ExistOK: true}); err != nil {
		return nil, err
	}
	if branch != DefaultRevision {
		if _, err := c.info(ctx, r, branch); errors.Is(err, ErrRevisionNotFound) {
			err = c.createBranch(ctx, r, branch, DefaultRevision)
			if err != nil && !errors.Is(err, ErrConflict) {
				return nil, err
			}
		}
	}
	if len(remove) > 0 {
		entries, err := c.list(ctx, r, branch)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			inside, ok := e.Path, true
			if o.PathInRepo != "" {
				inside, ok = strings.CutPrefix(e.Path, strings.Trim(o.PathInRepo, "/")+"/")
			}
			kept := e.Path == ".gitattributes" || slices.ContainsFunc(changes, func(c Change) bool {
				return c.Path == e.Path
			})
			if ok && !kept && remove.match(inside) {
				changes = append(changes, Change{Path: e.Path, Delete: true})
			}
		}
	}
	return c.commit(ctx, r, branch, changes, CommitOptions{Message: o.Message, Description: o.Description,
		Progress: o.Progress})
}

// folderChanges lists the files of a folder, which may itself be a link. It follows links to files,
// such as those in the cache, but not links to folders.
func folderChanges(dir string, o PushOptions) ([]Change, error) {
	wanted, err := newFilter(o.Allow, slices.Concat(neverPushed, o.Ignore))
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil { // WalkDir does not follow it
		return nil, err
	}
	if info, err := os.Stat(dir); err != nil {
		return nil, err
	} else if !info.IsDir() {
		return nil, fmt.Errorf("%s is a file; Push wants a folder, Commit takes single files: %w", dir, ErrName)
	}
	var changes []Change
	err = filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		relative = filepath.ToSlash(relative)
		if e.IsDir() {
			if relative != "." && (neverFolder(relative)) {
				return fs.SkipDir
			}
			return nil
		}
		if !wanted.passes(relative) {
			return nil
		}
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		if info.Mode().IsRegular() {
			changes = append(changes, Change{Path: path.Join(strings.Trim(o.PathInRepo, "/"), relative), File: name})
		}
		return nil
	})
	return changes, err
}

func neverFolder(relative string) bool {
	base := path.Base(relative)
	return base == ".git" || base == "huggingface" && path.Base(path.Dir(relative)) == ".cache"
}

// withCard replaces README.md by the card.
func withCard(changes []Change, card Card) ([]Change, error) {
	if card == nil {
		return changes, nil
	}
	text, err := card.Markdown()
	if err != nil {
		return nil, fmt.Errorf("hub: the model card: %w", err)
	}
	changes = slices.DeleteFunc(changes, func(c Change) bool { return c.Path == "README.md" })
	return append(changes, Change{Path: "README.md", Content: text}), nil
}

// inspect returns an error if a file could not be read by the Hub or by users of the model.
func inspect(changes []Change) error {
	for _, c := range changes {
		switch {
		case c.Path == "README.md":
			text := c.Content
			if c.File != "" {
				var err error
				if text, err = os.ReadFile(c.File); err != nil {
					return err
				}
			}
			if _, _, err := ParseCard(text); err != nil {
				return fmt.Errorf("README.md: %w", err)
			}
		case path.Ext(c.Path) == ".safetensors" && c.File != "":
			f, err := safetensors.Open(c.File)
			if err != nil {
				return fmt.Errorf("a damaged file: %w", err)
			}
			if err := f.Close(); err != nil {
				return err
			}
		}
	}
	return nil
}
