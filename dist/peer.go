package dist

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// peer is the connection to another process of the group.
type peer struct {
	rank   int
	conn   net.Conn
	frames chan frame // what has come and was not asked for yet
	pool   chan []byte
	ended  chan struct{} // closed when nothing more will come

	writing sync.Mutex
	head    []byte

	mu      sync.Mutex
	heardIn string // the call that it was last heard in
}

type frame struct {
	header
	payload []byte
}

// ahead is how many messages of a process are taken in before they are asked for. It sends at most
// two per call.
const ahead = 4

func newPeer(rank int, conn net.Conn) *peer {
	return &peer{rank: rank, conn: conn, frames: make(chan frame, ahead), pool: make(chan []byte, ahead),
		ended: make(chan struct{})}
}

// send writes a message.
func (p *peer) send(h header, payload []byte) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	h.length = uint64(len(payload))
	p.head = h.append(p.head[:0])
	buffers := net.Buffers{p.head, payload}
	_, err := buffers.WriteTo(p.conn)
	return err
}

// read takes in messages until the connection ends; g learns how it did. When the group has ended
// it still reads, and drops what comes: a connection that is closed with something unread takes
// what was written before with it.
func (p *peer) read(g *Group) {
	defer close(p.frames)
	defer close(p.ended)
	r := bufio.NewReaderSize(p.conn, 64<<10)
	for {
		h, err := readHeader(r)
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				g.lost(p, ErrPeerLost)
			} else {
				g.lost(p, fmt.Errorf("%w (%w)", ErrPeerLost, err))
			}
			return
		}
		f := frame{header: h, payload: p.buffer(h.length)}
		if _, err := io.ReadFull(r, f.payload); err != nil {
			g.lost(p, fmt.Errorf("%w (in the middle of a message: %w)", ErrPeerLost, err))
			return
		}
		switch h.kind {
		case kindLeave:
			g.leaving.Do(func() { close(g.left) })
			return
		case kindAbort:
			g.aborted(p, f)
			return
		}
		p.heard(h.String())
		select {
		case p.frames <- f:
		case <-g.done:
		}
	}
}

// buffer returns room for a payload, if possible of one that has been used up.
func (p *peer) buffer(n uint64) []byte {
	select {
	case b := <-p.pool:
		if uint64(cap(b)) >= n {
			return b[:n]
		}
	default:
	}
	return make([]byte, n)
}

// recycle takes a payload back.
func (p *peer) recycle(b []byte) {
	select {
	case p.pool <- b:
	default:
	}
}

func (p *peer) heard(call string) {
	p.mu.Lock()
	p.heardIn = call
	p.mu.Unlock()
}

func (p *peer) lastCall() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.heardIn
}

// patience is how long a process that leaves waits for the others to take note.
const patience = 250 * time.Millisecond

// farewell tells the other process why the group ends here, if it listens.
func (p *peer) farewell(h header, payload []byte) {
	// a write that is stuck lets go of the lock at the latest then
	_ = p.conn.SetWriteDeadline(time.Now().Add(time.Second))
	_ = p.send(h, payload) // it may have gone before us
	_ = p.conn.SetReadDeadline(time.Now().Add(patience))
	if half, ok := p.conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}
