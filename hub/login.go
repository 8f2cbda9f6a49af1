package hub

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Login asks the Hub for the owner of the token and, if the token is valid, writes it to the token
// file, which Python's client reads too. Only the user may read the file and its folder.
func (c *Client) Login(ctx context.Context, token Secret) (*Account, error) {
	if token.IsZero() {
		return nil, fmt.Errorf("hub: Login needs a token; make one on the Hub's page settings/tokens: %w",
			ErrUnauthorized)
	}
	with := *c
	with.Token, with.Anonymous = token, false
	account, err := with.WhoAmI(ctx)
	if err != nil {
		return nil, err
	}
	path, err := TokenPath()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("hub: cannot keep the token: %w", err)
	}
	if err := writePrivate(path, token.Reveal()); err != nil {
		return nil, fmt.Errorf("hub: cannot keep the token: %w", err)
	}
	return account, nil
}

// writePrivate replaces a file atomically. Only the user can read it at any time.
func writePrivate(path, content string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".token-") // created with mode 0600
	if err != nil {
		return err
	}
	_, err = f.WriteString(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// Logout removes the token file. A token in HF_TOKEN remains in effect.
func Logout() error {
	path, err := TokenPath()
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("hub: cannot remove the token: %w", err)
	}
	return nil
}
