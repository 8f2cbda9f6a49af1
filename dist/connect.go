package dist

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// dial connects to a process at the first of its addresses that has the token of the group behind
// it.
func (r *rendezvous) dial(ctx context.Context, addresses []string) (net.Conn, error) {
	var errs []error
	for _, a := range addresses {
		d := net.Dialer{Timeout: 10 * time.Second}
		conn, err := d.DialContext(ctx, "tcp", a)
		if err == nil {
			if err = r.introduce(ctx, conn); err == nil {
				return conn, nil
			}
			_ = conn.Close()
			err = fmt.Errorf("%s does not answer as one of this group: %w", a, err)
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// introduce sends the token and the rank, and waits for the token to come back.
func (r *rendezvous) introduce(ctx context.Context, conn net.Conn) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := r.settle(conn); err != nil {
		return err
	}
	if _, err := conn.Write(binary.LittleEndian.AppendUint32([]byte(r.token), uint32(r.o.Rank))); err != nil {
		return err
	}
	return r.readToken(conn)
}

// greet returns the rank of a process that has introduced itself.
func (r *rendezvous) greet(ctx context.Context, conn net.Conn) (rank int, err error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	// a stranger that says nothing must not keep the others waiting
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	if err := r.settle(conn); err != nil {
		return 0, err
	}
	if err := r.readToken(conn); err != nil {
		return 0, err
	}
	var b [4]byte
	if _, err := io.ReadFull(conn, b[:]); err != nil {
		return 0, err
	}
	if _, err := conn.Write([]byte(r.token)); err != nil {
		return 0, err
	}
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	return int(binary.LittleEndian.Uint32(b[:])), conn.SetReadDeadline(time.Time{})
}

func (r *rendezvous) readToken(conn net.Conn) error {
	b := make([]byte, len(r.token))
	if _, err := io.ReadFull(conn, b); err != nil {
		return err
	}
	if string(b) != r.token {
		return errors.New("it belongs to another group")
	}
	return nil
}

// settle has the system notice when the other machine is gone.
func (r *rendezvous) settle(conn net.Conn) error {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil
	}
	patience := r.o.PeerTimeout
	err := tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: max(time.Second, patience/2),
		Interval: max(time.Second, patience/6), Count: 3})
	if err != nil {
		return err
	}
	return setUserTimeout(tcp, patience)
}
