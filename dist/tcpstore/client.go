package tcpstore

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// Client is a connection to a store. Its methods may be called by several goroutines; they wait for
// each other.
type Client struct {
	mu   sync.Mutex
	conn net.Conn
	r    *bufio.Reader
	addr string
}

// Dial connects to the store at address ("host:port"). It tries again until ctx ends, since the
// store may start later than its clients.
func Dial(ctx context.Context, address string) (*Client, error) {
	pause := 20 * time.Millisecond
	for {
		c, err := dialOnce(ctx, address)
		if err == nil {
			return c, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("tcpstore: no store answers at %s: %w (%w)", address, err, ctx.Err())
		case <-time.After(pause):
			pause = min(2*pause, time.Second)
		}
	}
}

func dialOnce(ctx context.Context, address string) (*Client, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c := &Client{conn: conn, r: bufio.NewReader(conn), addr: address}
	const nonce = 0x67746f21
	hello := binary.LittleEndian.AppendUint32([]byte{byte(queryValidate)}, magic)
	hello = binary.LittleEndian.AppendUint32(append(hello, byte(queryPing)), nonce)
	err = c.call(ctx, hello, func() error {
		var b [4]byte
		if _, err := io.ReadFull(c.r, b[:]); err != nil {
			return err
		}
		if got := binary.LittleEndian.Uint32(b[:]); got != nonce {
			return fmt.Errorf("what listens there is no TCPStore: want the ping %#x back, got %#x", nonce, got)
		}
		return nil
	})
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return c, nil
}

// call sends a request and reads its response, until ctx ends. A call that fails midway leaves the
// connection unusable.
func (c *Client) call(ctx context.Context, request []byte, answer func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	_, err := c.conn.Write(request)
	if err == nil && answer != nil {
		err = answer()
	}
	if err != nil && errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return err
}

func (c *Client) failed(what, key string, err error) error {
	return fmt.Errorf("tcpstore: %s %q at %s: %w", what, key, c.addr, err)
}

// Set gives a key a value.
func (c *Client) Set(ctx context.Context, key string, value []byte) error {
	b := appendString([]byte{byte(querySet)}, keyPrefix+key)
	b = appendString(b, string(value))
	if err := c.call(ctx, b, nil); err != nil {
		return c.failed("set", key, err)
	}
	return nil
}

// Get returns the value of a key. It waits until there is one.
func (c *Client) Get(ctx context.Context, key string) (value []byte, err error) {
	b := binary.LittleEndian.AppendUint64([]byte{byte(queryWait)}, 1)
	b = appendString(b, keyPrefix+key)
	err = c.call(ctx, b, func() error {
		answer, err := c.r.ReadByte()
		if err == nil && answer != stopWaiting {
			err = errors.New("the store has cancelled the wait")
		}
		return err
	})
	if err == nil {
		err = c.call(ctx, appendString([]byte{byte(queryGet)}, keyPrefix+key), func() (err error) {
			value, err = readBytes(c.r, maxValue)
			return err
		})
	}
	if err != nil {
		return nil, c.failed("get", key, err)
	}
	return value, nil
}

// Add adds to the number that a key holds, 0 if there is none, and returns the sum.
func (c *Client) Add(ctx context.Context, key string, n int64) (sum int64, err error) {
	b := appendString([]byte{byte(queryAdd)}, keyPrefix+key)
	b = binary.LittleEndian.AppendUint64(b, uint64(n))
	err = c.call(ctx, b, func() error {
		v, err := readUint64(c.r)
		sum = int64(v)
		return err
	})
	if err != nil {
		return 0, c.failed("add to", key, err)
	}
	return sum, nil
}

// Has reports whether a key has a value.
func (c *Client) Has(ctx context.Context, key string) (ready bool, err error) {
	b := binary.LittleEndian.AppendUint64([]byte{byte(queryCheck)}, 1)
	err = c.call(ctx, appendString(b, keyPrefix+key), func() error {
		answer, err := c.r.ReadByte()
		ready = answer == checkReady
		return err
	})
	if err != nil {
		return false, c.failed("check", key, err)
	}
	return ready, nil
}

// LocalAddr returns the address of this end of the connection, at which the store's machine can
// reach this one.
func (c *Client) LocalAddr() net.Addr { return c.conn.LocalAddr() }

// WaitClosed waits until the store has closed the connection, when another store can be opened at
// its address. It is an error if an earlier call on this connection was cut short.
func (c *Client) WaitClosed(ctx context.Context) error {
	err := c.call(ctx, nil, func() error {
		_, err := c.r.ReadByte()
		return err
	})
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("tcpstore: the store at %s does not close: %w", c.addr, err)
	case err == nil:
		return fmt.Errorf("tcpstore: the store at %s sent an unexpected answer instead of closing the connection", c.addr)
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return nil
	}
	return fmt.Errorf("tcpstore: waiting for the end of the store at %s: %w", c.addr, err)
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }
