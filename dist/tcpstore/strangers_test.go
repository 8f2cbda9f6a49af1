package tcpstore

import (
	"encoding/binary"
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
		_, _ = w.Write([]byte{0, 0, 0x80, 0, 0, 0, 0, 0, 1}) // announces 8 MB, sends one byte
		_ = w.Close()
	}()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := readBytes(r, maxValue)
	runtime.ReadMemStats(&after)
	assert.Error(t, err)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
}

// libtorch's client cancels a wait after its timeout, and then waits for the response without one.
func TestAWaitCanBeCanceled(t *testing.T) {
	s, err := listen("127.0.0.1:0", time.Minute)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	conn, err := net.Dial("tcp", s.Addr().String())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	say := func(b ...byte) {
		_, err := conn.Write(b)
		require.NoError(t, err)
	}
	hear := func(n int) []byte {
		b := make([]byte, n)
		_, err := io.ReadFull(conn, b)
		require.NoError(t, err)
		return b
	}
	key := appendString(nil, "k")
	wait := append([]byte{byte(queryWait), 1, 0, 0, 0, 0, 0, 0, 0}, key...)
	say(binary.LittleEndian.AppendUint32([]byte{byte(queryValidate)}, magic)...)
	for range 2 {
		say(wait...)
		say(byte(queryCancel))
		require.Equal(t, []byte{waitCanceled}, hear(1))
	}
	say(wait...)
	s.put("k", []byte("v"))
	require.Equal(t, []byte{stopWaiting}, hear(1))
	say(byte(queryCancel)) // it crossed the response
	require.Equal(t, []byte{waitCanceled}, hear(1))
	say(append([]byte{byte(queryGet)}, key...)...)
	require.Equal(t, appendString(nil, "v"), hear(9), "the connection still works")
}
