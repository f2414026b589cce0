// Package bind opens the addresses that the servers of the program listen on.
package bind

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
)

// Local is the host that servers listen on by default.
const Local = "127.0.0.1"

// Listen opens the address. The error is a *PortInUse if another program listens on it.
func Listen(addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	const onWindows = syscall.Errno(10048) // WSAEADDRINUSE
	if errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, onWindows) {
		return nil, &PortInUse{addr}
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %q: %w; expected HOST:PORT, such as 127.0.0.1:8420", addr, err)
	}
	return l, nil
}

// ports is how many ports ListenFrom tries before it takes any free one.
const ports = 20

// ListenFrom opens the first free port of Local from the given one on.
func ListenFrom(port int) (net.Listener, error) {
	for p := port; p < port+ports; p++ {
		l, err := Listen(net.JoinHostPort(Local, strconv.Itoa(p)))
		if _, taken := errors.AsType[*PortInUse](err); !taken {
			return l, err
		}
	}
	return Listen(net.JoinHostPort(Local, "0"))
}

// PortInUse is the error for an address that another process listens on.
type PortInUse struct{ Addr string }

func (e *PortInUse) Error() string {
	return fmt.Sprintf("%s: port in use by another program; choose one with --listen HOST:PORT, port 0 for any that "+
		"is free", e.Addr)
}

// IsLoopback reports whether only this machine can reach an address.
func IsLoopback(addr net.Addr) bool {
	t, ok := addr.(*net.TCPAddr)
	return ok && t.IP.IsLoopback()
}

// Here returns the address for a program on this machine. For a server that listens everywhere it is the loopback
// address.
func Here(addr net.Addr) string {
	t, ok := addr.(*net.TCPAddr)
	if !ok || !t.IP.IsUnspecified() {
		return addr.String()
	}
	return net.JoinHostPort(Local, strconv.Itoa(t.Port))
}
