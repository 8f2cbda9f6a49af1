package tcpstore

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"
)

// Server is a store for clients in Go and Python.
type Server struct {
	listener         net.Listener
	done             sync.WaitGroup
	handshakeTimeout time.Duration // how long a new connection may send nothing

	mu     sync.Mutex
	values map[string][]byte
	set    chan struct{} // closed and replaced whenever a value is set; closed for good with the store
	conns  map[net.Conn]bool
	closed bool
}

// Listen opens a store at address ("host:port"; port 0: any free one).
func Listen(address string) (*Server, error) { return listen(address, 30*time.Second) }

func listen(address string, handshakeTimeout time.Duration) (*Server, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("tcpstore: %w", err)
	}
	s := &Server{listener: l, handshakeTimeout: handshakeTimeout, values: map[string][]byte{}, set: make(chan struct{}),
		conns: map[net.Conn]bool{}}
	s.done.Go(s.accept)
	return s, nil
}

// Addr returns the address at which the store listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Close ends the store and all connections to it.
func (s *Server) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	close(s.set)
	err := s.listener.Close() // before the connections: see Client.WaitClosed
	for c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.done.Wait()
	return err
}

func (s *Server) accept() {
	for {
		conn, err := s.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // too many open files, for example: temporary, and returning would end the run
			time.Sleep(20 * time.Millisecond)
			continue
		}
		s.mu.Lock()
		if s.closed {
			_ = conn.Close()
		} else {
			s.conns[conn] = true
			s.done.Go(func() {
				// A client that sends garbage or disconnects loses its connection; the others are
				// not affected.
				_ = s.serve(conn)
				_ = conn.Close()
				s.mu.Lock()
				delete(s.conns, conn)
				s.mu.Unlock()
			})
		}
		s.mu.Unlock()
	}
}

// requests reads a client's requests. While the client waits for a key, a goroutine watches for
// further input.
type requests struct {
	*bufio.Reader
	heard chan error // result of the Peek in progress; nil: none
}

// listen returns a channel that receives when the client sends something or disconnects. Until then
// nothing else may read.
func (r *requests) listen() <-chan error {
	if r.heard == nil {
		heard := make(chan error, 1)
		r.heard = heard
		go func() { // ends when the connection does
			_, err := r.Peek(1)
			heard <- err
		}()
	}
	return r.heard
}

// next returns the type of the next request.
func (r *requests) next() (query, error) {
	if r.heard != nil {
		err := <-r.heard
		if r.heard = nil; err != nil {
			return 0, err
		}
	}
	q, err := r.ReadByte()
	return query(q), err
}

// serve answers the requests of one client until it disconnects.
func (s *Server) serve(conn net.Conn) error {
	r := &requests{Reader: bufio.NewReader(conn)}
	var hello [5]byte
	_ = conn.SetReadDeadline(time.Now().Add(s.handshakeTimeout)) // libtorch's client sends a handshake at once
	if _, err := io.ReadFull(r, hello[:]); err != nil {
		return err
	}
	_ = conn.SetReadDeadline(time.Time{})
	if query(hello[0]) != queryValidate || binary.LittleEndian.Uint32(hello[1:]) != magic {
		return errors.New("tcpstore: the client does not begin as a TCPStore's does")
	}
	for {
		q, err := r.next()
		if err != nil {
			return err
		}
		answer, err := s.answer(q, r)
		if err != nil {
			return err
		}
		if _, err := conn.Write(answer); err != nil {
			return err
		}
	}
}

func (s *Server) answer(q query, r *requests) ([]byte, error) {
	switch q {
	case queryPing:
		nonce := make([]byte, 4)
		_, err := io.ReadFull(r, nonce)
		return nonce, err
	case querySet:
		key, err := readBytes(r, maxKey)
		if err != nil {
			return nil, err
		}
		value, err := readBytes(r, maxValue)
		if err == nil {
			s.put(string(key), value)
		}
		return nil, err
	case queryGet:
		key, err := readBytes(r, maxKey)
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		value, ok := s.values[string(key)]
		if !ok {
			return nil, fmt.Errorf("tcpstore: get of %q, which nobody has set", key)
		}
		return appendString(nil, string(value)), nil
	case queryAdd:
		return s.add(r.Reader)
	case queryCheck, queryWait:
		keys, err := readKeys(r)
		switch {
		case err != nil:
			return nil, err
		case q == queryCheck && s.missing(keys) != nil:
			return []byte{checkNotReady}, nil
		case q == queryCheck:
			return []byte{checkReady}, nil
		}
		return s.wait(keys, r)
	case queryCancel: // it crossed the response to the wait; libtorch's client expects both
		return []byte{waitCanceled}, nil
	}
	return nil, fmt.Errorf("tcpstore: request %d is not one that this store knows", q)
}

// wait responds when all keys have values, or when the client cancels, as it does after its
// timeout.
func (s *Server) wait(keys []string, r *requests) ([]byte, error) {
	for {
		more := s.missing(keys)
		if more == nil {
			return []byte{stopWaiting}, nil
		}
		select {
		case <-more:
			if s.isClosed() {
				return nil, net.ErrClosed
			}
		case err := <-r.listen():
			if r.heard = nil; err != nil {
				return nil, err // the client has gone
			}
			if q, err := r.next(); err != nil || q != queryCancel {
				return nil, errors.Join(err, fmt.Errorf("tcpstore: request %d of a client that waits", q))
			}
			return []byte{waitCanceled}, nil
		}
	}
}

// add stores numbers as decimal text, as libtorch does.
func (s *Server) add(r *bufio.Reader) ([]byte, error) {
	key, err := readBytes(r, maxKey)
	if err != nil {
		return nil, err
	}
	n, err := readUint64(r)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := int64(n)
	if old, ok := s.values[string(key)]; ok {
		v, err := strconv.ParseInt(string(old), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("tcpstore: add to %q, which holds no number", key)
		}
		sum += v
	}
	s.putLocked(string(key), strconv.AppendInt(nil, sum, 10))
	return binary.LittleEndian.AppendUint64(nil, uint64(sum)), nil
}

func readKeys(r io.Reader) ([]string, error) {
	n, err := readUint64(r)
	if err != nil {
		return nil, err
	}
	if n > maxKeys {
		return nil, fmt.Errorf("tcpstore: %d keys in one request; at most %d are allowed", n, maxKeys)
	}
	keys := make([]string, n)
	for i := range keys {
		key, err := readBytes(r, maxKey)
		if err != nil {
			return nil, err
		}
		keys[i] = string(key)
	}
	return keys, nil
}

func (s *Server) put(key string, value []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.putLocked(key, value)
}

func (s *Server) putLocked(key string, value []byte) {
	s.values[key] = value
	if !s.closed {
		close(s.set)
		s.set = make(chan struct{})
	}
}

// missing returns nil if all keys have values, and otherwise a channel that is closed when another
// value is set.
func (s *Server) missing(keys []string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range keys {
		if _, ok := s.values[k]; !ok {
			return s.set
		}
	}
	return nil
}

func (s *Server) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}
