package platereader_test

import (
	"bytes"
	"fmt"
	"image/png"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/platereader"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/vision"
)

func TestMain(m *testing.M) { os.Exit(testenv.Run(m)) }

const photo = "../../examples/crnn_plates/plates/assets/photos/hezar_example.png"

func TestPlatesAreReadInAnyForm(t *testing.T) {
	testenv.RequireTorch(t)
	raw, err := os.ReadFile(photo)
	require.NoError(t, err)
	picture, err := png.Decode(bytes.NewReader(raw))
	require.NoError(t, err)
	readings, err := platereader.Read(photo, raw, picture, vision.FromStd(picture))
	require.NoError(t, err)
	require.Len(t, readings, 4)
	for _, r := range readings {
		assert.Equal(t, readings[0].Text, r.Text)
		assert.InDelta(t, readings[0].Score, r.Score, 1e-6)
	}
	assert.Greater(t, readings[0].Score, 0.8)
	_, err = platereader.Read(3)
	require.ErrorContains(t, err, "an image is a int; want a path")
	_, err = platereader.Read("none.png")
	require.ErrorIs(t, err, os.ErrNotExist)
	none, err := platereader.Read()
	require.NoError(t, err)
	assert.Empty(t, none)
}

func Example() {
	if torch.Load() != nil {
		fmt.Println("۵۷س۷۷۹۷۷") // without libtorch there is nothing to show
		return
	}
	readings, err := platereader.Read("../../examples/crnn_plates/plates/assets/photos/hezar_example.png")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(readings[0].Text)
	// Output: ۵۷س۷۷۹۷۷
}
