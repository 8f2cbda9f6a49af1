package expected

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/models/crnn"
	"github.com/gotrainer/gotrainer/vision"
)

// plate is the picture with which Hezar demonstrates its plate reader. The expected result is the
// text; the weights are those in [Options].PlateReader.
type plate struct {
	File  string // inside the data folder; text after a space states its origin
	Text  string `json:"expected_text"`
	Where string
}

func (c plate) run(o Options) {
	model, err := crnn.Load(o.PlateReader)
	if errors.Is(err, fs.ErrNotExist) {
		unsupported("there is no model that reads plates in %q", o.PlateReader)
	}
	spec.Check(err)
	file, _, _ := strings.Cut(c.File, " ")
	config := model.Config()
	image := supported(config.OpenImage(filepath.Join(o.Data, filepath.FromSlash(file)), vision.Bicubic))
	readings := spec.Must(model.Read(spec.Must(config.Pixels(image))))
	equal("the text", readings[0].Text, c.Text)
}
