package tcpstore

import (
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAConnectionThatSaysNothingIsClosed(t *testing.T) {
	s, err := listen("127.0.0.1:0", 10*time.Millisecond)
	require.NoError(t, err)
	defer func() { _ = s.Close() }()
	conn, err := net.Dial("tcp", s.Addr().String())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	_, err = conn.Read(make([]byte, 1))
	assert.ErrorIs(t, err, io.EOF)
}

func TestALengthAloneTakesNoMemory(t *testing.T) {
	r, w := io.Pipe()
	go func() {
		_, _ = w.Write([]byte{0, 0, 0x80, 0, 0, 0, 0, 0, 1}) // 8 MB, of which a byte comes
		_ = w.Close()
	}()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := readBytes(r, maxValue)
	runtime.ReadMemStats(&after)
	assert.Error(t, err)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
}
