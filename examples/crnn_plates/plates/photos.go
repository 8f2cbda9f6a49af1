package plates

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/vision"
)

// OpenPhotos opens photographs of real plates. list is a file with an image and its label on each
// line, separated by a tab; further columns, empty lines and a first line that begins with "file"
// are ignored. Paths are relative to the list's folder. Images are decoded on demand.
func OpenPhotos(list string) (data.Dataset[Sample], error) {
	f, err := os.Open(list)
	if err != nil {
		return nil, fmt.Errorf("plates: %w", err)
	}
	defer f.Close()
	rows, err := readList(f, list)
	if err != nil {
		return nil, err
	}
	return &photos{filepath.Dir(list), rows}, nil
}

// row is one line of a list.
type row struct{ file, label string }

func readList(r io.Reader, name string) ([]row, error) {
	var rows []row
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSuffix(lines.Text(), "\r")
		if n == 1 {
			line = strings.TrimPrefix(line, "\ufeff")
		}
		if line == "" || n == 1 && strings.HasPrefix(line, "file") {
			continue
		}
		columns := strings.Split(line, "\t")
		if len(columns) < 2 || columns[0] == "" {
			return nil, fmt.Errorf("plates: %s:%d: %q: want a picture, a tab and a label", name, n, line)
		}
		if _, err := ParseLabel(columns[1]); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, n, err)
		}
		rows = append(rows, row{columns[0], columns[1]})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("plates: %s: %w", name, err)
	}
	return rows, nil
}

type photos struct {
	folder string
	rows   []row
}

func (p *photos) Len() int { return len(p.rows) }

func (p *photos) At(i int) (Sample, error) {
	if i < 0 || i >= len(p.rows) {
		return Sample{}, fmt.Errorf("plates: photograph %d of %d", i, len(p.rows))
	}
	r := p.rows[i]
	im, err := vision.Open(filepath.Join(p.folder, r.file), vision.DecodeOptions{Gray: true})
	if err != nil {
		return Sample{}, err
	}
	if im, err = Fit(im); err != nil {
		return Sample{}, err
	}
	return Sample{im, r.label}, nil
}
