package wire

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"crabmem/daemon/wire/pb"
)

// Addr is where a server listens.
type Addr struct {
	Network string // unix or tcp
	Address string // a path, or host:port
	Token   string // for a server that cannot identify the user; "" = none
}

// String writes the address without the token.
func (a Addr) String() string { return a.Network + ":" + a.Address }

// Dial connects to a server, and authenticates if the address has a token.
// Errors: ErrNoListener, ErrRefused, and the system's.
func Dial(ctx context.Context, a Addr) (*Conn, error) {
	switch a.Network {
	case "unix":
		if err := checkPath(a.Address); err != nil {
			return nil, err
		}
	case "tcp":
	default:
		return nil, fmt.Errorf("network %q: want unix or tcp", a.Network)
	}
	nc, err := connect(ctx, a)
	if errors.Is(err, errRefused) || errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", ErrNoListener, err)
	} else if err != nil {
		return nil, err
	}
	c := NewConn(nc)
	if a.Token == "" {
		return c, nil
	}
	if err := c.authenticate(ctx, a.Token); err != nil {
		c.Close()
		return nil, fmt.Errorf("authenticate at %s: %w", a, err)
	}
	return c, nil
}

// crowdWait limits the retries of a dial while the backlog of a Unix socket is
// full.
const crowdWait = 5 * time.Second

func connect(ctx context.Context, a Addr) (net.Conn, error) {
	return retryBacklog(ctx, a.Network, func() (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, a.Network, a.Address)
	})
}

// retryBacklog calls dial again while the backlog of a Unix socket is full.
func retryBacklog(ctx context.Context, network string, dial func() (net.Conn, error)) (net.Conn, error) {
	pause := time.Millisecond
	for began := time.Now(); ; {
		nc, err := dial()
		if network != "unix" || !errors.Is(err, syscall.EAGAIN) || time.Since(began) > crowdWait {
			return nc, err
		}
		select {
		case <-time.After(pause):
			pause = min(2*pause, 50*time.Millisecond)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (c *Conn) authenticate(ctx context.Context, token string) error {
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Now()) })
	err := c.Write(&pb.ClientMessage{Msg: &pb.ClientMessage_Auth{Auth: &pb.AuthMsg{Token: token}}})
	var m pb.ServerMessage
	if err == nil {
		err = c.Read(&m)
	}
	if !stop() {
		return context.Cause(ctx)
	}
	switch {
	case err != nil:
		return err
	case m.GetPong() != nil:
		return nil
	case m.GetError() != nil:
		return fmt.Errorf("%w: %s", ErrRefused, m.GetError().GetMessage())
	}
	return errors.New("unexpected response")
}

// checkPath refuses a name that is too long for a socket.
func checkPath(path string) error {
	maxPath := 103 // of the BSDs and macOS
	if runtime.GOOS == "linux" || runtime.GOOS == "windows" {
		maxPath = 107
	}
	if len(path) > maxPath {
		return &longPathError{path, maxPath}
	}
	return nil
}

type longPathError struct {
	path string
	most int
}

func (e *longPathError) Error() string {
	return fmt.Sprintf("%s: a socket path has at most %d bytes, but this one has %d: use a shorter home (--home, CRABTALK_HOME), or a shorter CRABMEM_SOCKET",
		strconv.Quote(e.path), e.most, len(e.path))
}

func (e *longPathError) Is(target error) bool { return target == syscall.ENAMETOOLONG }

// probe returns an error if it detects that no process listens on a socket.
func probe(path string) error {
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		c.Close()
	}
	return err
}
