package tcpstore

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
)

// query is the first byte of a request: QueryType of
// torch/csrc/distributed/c10d/TCPStoreBackend.hpp.
type query byte

const (
	queryValidate query = 0
	querySet      query = 1
	queryGet      query = 3
	queryAdd      query = 4
	queryCheck    query = 5
	queryWait     query = 6
	queryCancel   query = 12 // cancels a wait
	queryPing     query = 13
)

// magic is validationMagicNumber, the first message of a client.
const magic = 0x3C85F7CE

// Responses to queryCheck and queryWait.
const (
	checkReady    = 0
	checkNotReady = 1
	stopWaiting   = 0
	waitCanceled  = 1
)

// Limits on what a peer may send, those of libtorch's own server.
const (
	maxKeys  = 1024
	maxKey   = 8 << 10
	maxValue = 8 << 20
)

// keyPrefix precedes every key on the wire.
const keyPrefix = "/"

func appendString(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
}

func readUint64(r io.Reader) (uint64, error) {
	var b [8]byte
	_, err := io.ReadFull(r, b[:])
	return binary.LittleEndian.Uint64(b[:]), err
}

func readBytes(r io.Reader, limit uint64) ([]byte, error) {
	n, err := readUint64(r)
	if err != nil {
		return nil, err
	}
	if n > limit {
		return nil, fmt.Errorf("tcpstore: a string of %d bytes; at most %d are allowed", n, limit)
	}
	if n <= 64<<10 {
		b := make([]byte, n)
		_, err = io.ReadFull(r, b)
		return b, err
	}
	var b bytes.Buffer // grows with the data received: the length in the header cannot be trusted
	if _, err := io.CopyN(&b, r, int64(n)); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
