package torch_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

// Tensors of all kinds; if possible, their memory is written directly.
func TestWriteToWritesTheBytesOfEveryTensor(t *testing.T) {
	testenv.RequireTorch(t)
	live := testenv.Live()
	torch.Scope(func() {
		whole := torch.Arange(600_000).To(torch.TensorOptions{DType: torch.Float32})
		for name, tensor := range map[string]torch.Tensor{
			"contiguous": whole, "part": whole.Narrow(0, 5, 70), "turned": whole.View(600, 1000).T(),
			"every second": whole.View(-1, 2).Select(1, 1), "empty": torch.Zeros(0, 3), "scalar": torch.Ones(),
			"learnt": torch.Ones(3, 2).SetRequiresGrad(true), "expanded": torch.Ones(1).Expand(300_000),
			"bool": whole.View(600, 1000).GtScalar(7), "bfloat16": whole.ToDType(torch.BFloat16),
			"conjugate": whole.Narrow(0, 0, 8).ToDType(torch.Complex64).Conj(),
		} {
			var b bytes.Buffer
			n, err := tensor.WriteTo(&b)
			require.NoError(t, err, name)
			assert.EqualValues(t, b.Len(), n, name)
			assert.True(t, bytes.Equal(tensor.Bytes(), b.Bytes()), name)
		}
	})
	assert.LessOrEqual(t, torch.Live(), live)
}

func TestFillFromFillsEveryTensor(t *testing.T) {
	testenv.RequireTorch(t)
	live := testenv.Live()
	torch.Scope(func() {
		source := torch.Arange(12).ToDType(torch.Float32)
		for name, tensor := range map[string]torch.Tensor{
			"contiguous": torch.Zeros(3, 4), "turned": torch.Zeros(4, 3).T(), "part": torch.Zeros(20).Narrow(0, 3, 12),
			"learnt": torch.Zeros(12).SetRequiresGrad(true), "in pieces": torch.Zeros(2, 6),
		} {
			var r io.Reader = bytes.NewReader(source.Bytes())
			if name == "in pieces" {
				r = iotest.OneByteReader(r)
			}
			require.NoError(t, tensor.FillFrom(r), name)
			assert.Equal(t, source.Bytes(), tensor.Bytes(), name)
		}
		assert.NoError(t, torch.Zeros(0).FillFrom(strings.NewReader("")))
		rest := strings.NewReader("1234567890")
		require.NoError(t, torch.Zeros(2).FillFrom(rest))
		assert.Equal(t, 2, rest.Len(), "it has read more than the tensor")
	})
	assert.LessOrEqual(t, torch.Live(), live)
}

func TestFillFromSaysWhatTheSourceLacks(t *testing.T) {
	testenv.RequireTorch(t)
	torch.Scope(func() {
		for _, given := range []string{"", "123"} {
			err := torch.Zeros(2).FillFrom(strings.NewReader(given))
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			assert.ErrorContains(t, err, "8 bytes")
			assert.ErrorIs(t, torch.Zeros(2, 2).T().FillFrom(strings.NewReader(given)), io.ErrUnexpectedEOF)
		}
		broken := errors.New("broken")
		assert.ErrorIs(t, torch.Zeros(2).FillFrom(iotest.ErrReader(broken)), broken)
		_, err := torch.Zeros(2).WriteTo(failing{broken})
		assert.ErrorIs(t, err, broken)
		_, err = torch.Zeros(2, 2).Narrow(1, 0, 1).WriteTo(failing{broken})
		assert.ErrorIs(t, err, broken)
	})
}

type failing struct{ error }

func (f failing) Write([]byte) (int, error) { return 0, f.error }

// If autograd did not notice the change, gradients would be wrong.
func TestFillFromCountsAsAChange(t *testing.T) {
	testenv.RequireTorch(t)
	torch.Scope(func() {
		w := torch.Ones(2).SetRequiresGrad(true)
		loss := w.Mul(w).Sum(torch.DefaultDType)
		require.NoError(t, w.FillFrom(strings.NewReader("12345678")))
		err := torch.Try(func() { loss.Backward() })
		assert.ErrorContains(t, err, "modified by an inplace operation")
	})
}
