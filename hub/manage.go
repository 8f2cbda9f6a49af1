package hub

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
)

// CreateOptions configures [Client.CreateRepo]. Nil and the zero value mean a public model that
// must not exist yet.
type CreateOptions struct {
	Type    Type // "" means Model
	Private bool
	ExistOK bool   // accept an existing repository; its visibility does not change
	SDK     string // SDK of a space, where it is required: "gradio", "docker" or "static"
}

// CreateRepo creates a repository. A name without a namespace is created in that of the token's
// user.
func (c *Client) CreateRepo(ctx context.Context, repoID string, o *CreateOptions) error {
	if o == nil {
		o = &CreateOptions{}
	}
	r, err := parseRepo(o.Type, repoID)
	if err != nil {
		return err
	}
	if (r.kind == Space) != (o.SDK != "") {
		return fmt.Errorf("hub: CreateOptions.SDK is %q for a %s; a space needs one and nothing else has one: %w",
			o.SDK, r.kind, ErrName)
	}
	conn, err := c.connect(ctx)
	if err != nil {
		return err
	}
	return conn.createRepo(ctx, r, *o)
}

func (c *conn) createRepo(ctx context.Context, r repository, o CreateOptions) error {
	namespace, name := r.split()
	body := map[string]any{"name": name, "organization": nil, "type": string(r.kind)}
	if namespace != "" {
		body["organization"] = namespace
	}
	if o.Private {
		body["visibility"] = "private"
	}
	if o.SDK != "" {
		body["sdk"] = o.SDK
	}
	err := c.call(ctx, http.MethodPost, "/api/repos/create", body, nil)
	if err == nil {
		return nil
	}
	var answer *Error
	if o.ExistOK && errors.As(err, &answer) {
		switch answer.Status {
		case http.StatusConflict:
			return nil
		case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden:
			// A token may have the permission to write to a repository but not to create one.
			if _, found := c.info(ctx, r, DefaultRevision); found == nil && answer.Status != http.StatusUnauthorized {
				return nil
			}
		}
	}
	return fmt.Errorf("hub: cannot create %s %s: %w", r.kind, r.id, err)
}

// DeleteRepo deletes a repository with its whole history. It cannot be undone.
func (c *Client) DeleteRepo(ctx context.Context, repoID string, o *RepoOptions) error {
	return c.change(ctx, repoID, o, "delete "+repoID, func(conn *conn, r repository, _ string) error {
		namespace, name := r.split()
		body := map[string]any{"name": name, "organization": nil, "type": string(r.kind)}
		if namespace != "" {
			body["organization"] = namespace
		}
		return conn.call(ctx, http.MethodDelete, "/api/repos/delete", body, nil)
	})
}

// CreateTag tags the commit given by o.Revision.
func (c *Client) CreateTag(ctx context.Context, repoID, tag, message string, o *RepoOptions) error {
	return c.name(ctx, repoID, tag, o, "create the tag "+tag, func(conn *conn, r repository, revision string) error {
		body := map[string]string{"tag": tag}
		if message != "" {
			body["message"] = message
		}
		return conn.call(ctx, http.MethodPost, r.api()+"/tag/"+url.PathEscape(revision), body, nil)
	})
}

// DeleteTag deletes a tag. The commit stays.
func (c *Client) DeleteTag(ctx context.Context, repoID, tag string, o *RepoOptions) error {
	return c.name(ctx, repoID, tag, o, "delete the tag "+tag, func(conn *conn, r repository, _ string) error {
		return conn.call(ctx, http.MethodDelete, r.api()+"/tag/"+url.PathEscape(tag), nil, nil)
	})
}

// CreateBranch creates a branch that starts at the commit given by o.Revision.
func (c *Client) CreateBranch(ctx context.Context, repoID, branch string, o *RepoOptions) error {
	return c.name(ctx, repoID, branch, o, "create the branch "+branch, func(conn *conn, r repository,
		revision string) error {
		return conn.createBranch(ctx, r, branch, revision)
	})
}

func (c *conn) createBranch(ctx context.Context, r repository, branch, from string) error {
	return c.call(ctx, http.MethodPost, r.api()+"/branch/"+url.PathEscape(branch),
		map[string]string{"startingPoint": from}, nil)
}

// DeleteBranch deletes a branch and everything that only it contains.
func (c *Client) DeleteBranch(ctx context.Context, repoID, branch string, o *RepoOptions) error {
	return c.name(ctx, repoID, branch, o, "delete the branch "+branch, func(conn *conn, r repository, _ string) error {
		return conn.call(ctx, http.MethodDelete, r.api()+"/branch/"+url.PathEscape(branch), nil, nil)
	})
}

// name checks the name of a branch or tag before it makes the change.
func (c *Client) name(ctx context.Context, repoID, name string, o *RepoOptions, what string, do func(*conn, repository,
	string) error) error {
	if err := checkRevision(name); err != nil {
		return err
	}
	return c.change(ctx, repoID, o, what, do)
}

// change makes a call that changes a repository.
func (c *Client) change(ctx context.Context, repoID string, o *RepoOptions, what string, do func(*conn, repository,
	string) error) error {
	conn, r, revision, err := c.reach(ctx, repoID, o)
	if err != nil {
		return err
	}
	if err := do(conn, r, revision); err != nil {
		return fmt.Errorf("hub: cannot %s in %s: %w", what, r.id, err)
	}
	return nil
}
