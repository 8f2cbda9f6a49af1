package dist

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// peer is the connection to a neighbour in the tree.
type peer struct {
	rank  int
	conn  net.Conn
	ended chan struct{} // closed when nothing more will be received

	writing sync.Mutex
	head    []byte

	heardIn atomic.Value // string: the last call that a message from the peer itself named
}

func newPeer(rank int, conn net.Conn) *peer {
	return &peer{rank: rank, conn: conn, ended: make(chan struct{})}
}

// send writes a message.
func (p *peer) send(h header, payload ...[]byte) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	h.length = 0
	for _, b := range payload {
		h.length += uint64(len(b))
	}
	p.head = h.append(p.head[:0])
	buffers := append(net.Buffers{p.head}, payload...)
	_, err := buffers.WriteTo(p.conn)
	return err
}

// read receives messages until the connection ends, and reports how it ended to g. It continues to
// read, and discards, after the group has failed: closing a TCP connection with unread data resets
// it, which may destroy data that the other side has not read yet.
func (p *peer) read(g *Group) {
	defer close(p.ended)
	r := bufio.NewReaderSize(p.conn, 16<<10)
	for {
		h, err := readHeader(r)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			g.lost(p, ErrPeerLost)
			return
		} else if err != nil {
			g.lost(p, fmt.Errorf("%w (%w)", ErrPeerLost, err))
			return
		}
		f := &frame{header: h, payload: make([]byte, h.length)}
		if _, err := io.ReadFull(r, f.payload); err != nil {
			g.lost(p, fmt.Errorf("%w (in the middle of a message: %w)", ErrPeerLost, err))
			return
		}
		if int(f.rank) == p.rank && f.name > 0 {
			p.heardIn.Store(f.named())
		}
		g.handle(p, f)
		if f.kind == kindAbort || f.kind == kindLeave && int(f.rank) == p.rank {
			return
		}
	}
}

func (p *peer) lastCall() string {
	call, _ := p.heardIn.Load().(string)
	return call
}

// patience is how long a process that leaves waits for the others to read its last message.
const patience = 250 * time.Millisecond

// farewell tells the peer why this process ends the group, if the peer is still there.
func (p *peer) farewell(h header, payload []byte) {
	// Also makes a write that is stuck release the lock.
	_ = p.conn.SetWriteDeadline(time.Now().Add(time.Second))
	_ = p.send(h, payload) // the peer may be gone already
	_ = p.conn.SetReadDeadline(time.Now().Add(patience))
	if half, ok := p.conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}
