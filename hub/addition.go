package hub

import (
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/gotrainer/gotrainer/internal/regularfile"
)

// sampleSize is how much of a file the Hub wants to see before it says how to send it.
const sampleSize = 512

// addition is a file on its way into a commit.
type addition struct {
	path     string // in the repository
	file     string // "" when content holds it
	content  []byte
	size     int64
	modified time.Time
	sample   []byte

	large   bool   // goes through LFS
	ignored bool   // .gitignore says no
	remote  string // sum of what the branch has under this name; "" for nothing
	sum     string // SHA-256 of a large file, git's SHA-1 of another
}

// newAddition looks at a file without reading all of it.
func newAddition(c Change) (*addition, error) {
	a := &addition{path: c.Path, file: c.File, content: c.Content, size: int64(len(c.Content))}
	if c.File == "" {
		a.sample = c.Content[:min(len(c.Content), sampleSize)]
		return a, nil
	}
	if c.Content != nil {
		return nil, fmt.Errorf("%q has both a file and a content: %w", c.Path, ErrName)
	}
	f, info, err := regularfile.Open(c.File)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	a.size, a.modified = info.Size(), info.ModTime()
	a.sample = make([]byte, min(a.size, sampleSize))
	if _, err := io.ReadFull(f, a.sample); err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", c.File, err)
	}
	return a, nil
}

// errChanged is a file that somebody wrote to while it was being pushed.
var errChanged = errors.New("the file changed while it was being pushed; push a folder that nobody writes to")

// open returns the content. It fails if the file is not as it was when the push began.
func (a *addition) open() (io.ReaderAt, io.Closer, error) {
	if a.file == "" {
		return bytes.NewReader(a.content), io.NopCloser(nil), nil
	}
	f, info, err := regularfile.Open(a.file)
	if err != nil {
		return nil, nil, err
	}
	if info.Size() != a.size || !info.ModTime().Equal(a.modified) {
		f.Close()
		return nil, nil, fmt.Errorf("%s: %w", a.file, errChanged)
	}
	return f, f, nil
}

// read returns the whole content, for small files.
func (a *addition) read() ([]byte, error) {
	r, closer, err := a.open()
	if err != nil {
		return nil, err
	}
	defer quietly(closer)
	content := make([]byte, a.size)
	if _, err := io.ReadFull(io.NewSectionReader(r, 0, a.size), content); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", a.path, errChanged, err)
	}
	return content, nil
}

// hash computes the sum under which the Hub knows the content.
func (a *addition) hash(ctx context.Context) error {
	r, closer, err := a.open()
	if err != nil {
		return err
	}
	defer quietly(closer)
	h := sha256.New()
	if !a.large {
		h = sha1.New()
		fmt.Fprintf(h, "blob %d\x00", a.size)
	}
	if err := copyContext(ctx, h, io.NewSectionReader(r, 0, a.size)); err != nil {
		return fmt.Errorf("cannot read %s: %w", a.path, err)
	}
	a.sum = hex.EncodeToString(h.Sum(nil))
	return nil
}
