package hub

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// treeFile is the cached listing of a commit, trees/<commit>.json, in the format of Python's
// client.
type treeFile struct {
	FormatVersion int                 `json:"format_version"`
	Files         map[string]treeLine `json:"files"`
}

type treeLine struct {
	Size      *int64  `json:"size"`
	Blob      *string `json:"blob_id"`
	LFSSHA256 *string `json:"lfs_sha256,omitempty"`
	LFSSize   *int64  `json:"lfs_size,omitempty"`
	Xet       *string `json:"xet_hash,omitempty"` // written by Python's client only
}

// treeVersion is the format version that this package supports. A listing in another version is
// fetched again, as in Python.
const treeVersion = 1

// parseTree parses a cached listing. A single file name that is refused makes it invalid.
func parseTree(text []byte) ([]Entry, error) {
	var f treeFile
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, fmt.Errorf("hub: not a listing: %w", err)
	}
	if f.FormatVersion != treeVersion || f.Files == nil {
		return nil, fmt.Errorf("hub: the listing has the form %d, this program knows %d", f.FormatVersion, treeVersion)
	}
	entries := make([]Entry, 0, len(f.Files))
	for name, line := range f.Files {
		if line.Size == nil || line.Blob == nil {
			return nil, fmt.Errorf("hub: the listing's line of %q lacks the size or the blob", name)
		}
		e := Entry{Path: name, Size: *line.Size, Blob: *line.Blob}
		if line.LFSSHA256 != nil {
			e.SHA256 = *line.LFSSHA256
		}
		if line.LFSSize != nil {
			e.Size = *line.LFSSize
		}
		if err := checkEntry(e); err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// checkEntry refuses an entry of a listing whose name or sums are invalid.
func checkEntry(e Entry) error {
	if err := checkName(e.Path); err != nil {
		return err
	}
	if !commitPattern.MatchString(e.Blob) || e.SHA256 != "" && !sha256Pattern.MatchString(e.SHA256) || e.Size < 0 {
		return fmt.Errorf("hub: the listing's line of %q has not the sums of a file: %w", e.Path, ErrChecksum)
	}
	return nil
}

// tree returns the cached listing of a commit.
func (s *store) tree(commit string) ([]Entry, bool) {
	text, err := os.ReadFile(filepath.Join(s.dir, s.in("trees", commit+".json")))
	if err != nil {
		return nil, false
	}
	entries, err := parseTree(text)
	return entries, err == nil
}

// setTree caches the listing of a commit.
func (s *store) setTree(commit string, entries []Entry) error {
	f := treeFile{FormatVersion: treeVersion, Files: map[string]treeLine{}}
	for _, e := range entries {
		line := treeLine{Size: &e.Size, Blob: &e.Blob}
		if e.SHA256 != "" {
			line.LFSSHA256, line.LFSSize = &e.SHA256, &e.Size
		}
		f.Files[e.Path] = line
	}
	text, err := json.MarshalIndent(f, "", " ")
	if err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	return s.write(s.in("trees", commit+".json"), text)
}
