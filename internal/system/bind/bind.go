// Package bind opens the addresses that servers of the program listen on and tells who reaches them.
package bind

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
)

// Local is the host that servers listen on unless they are told otherwise.
const Local = "127.0.0.1"

// Listen opens the address. A port that is taken is a *PortInUse.
func Listen(addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) || isAddrInUse(err) {
		return nil, &PortInUse{addr}
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %q: %w; expected HOST:PORT, such as 127.0.0.1:8420", addr, err)
	}
	return l, nil
}

// ports are tried by ListenFrom before it takes any that is free.
const ports = 20

// ListenFrom opens the first free port of Local from the given one on.
func ListenFrom(port int) (net.Listener, error) {
	for p := port; p < port+ports; p++ {
		l, err := Listen(net.JoinHostPort(Local, strconv.Itoa(p)))
		var taken *PortInUse
		if !errors.As(err, &taken) {
			return l, err
		}
	}
	return Listen(net.JoinHostPort(Local, "0"))
}

// PortInUse is the error of an address that another process listens on.
type PortInUse struct{ Addr string }

// Error implements error.
func (e *PortInUse) Error() string {
	return fmt.Sprintf("%s: port in use by another program; choose one with --listen HOST:PORT, port 0 for any that "+
		"is free", e.Addr)
}

// isAddrInUse knows the number that Windows has for the same (WSAEADDRINUSE).
func isAddrInUse(err error) bool {
	var n syscall.Errno
	return errors.As(err, &n) && n == 10048
}

// IsLoopback reports whether only this machine reaches an address.
func IsLoopback(addr net.Addr) bool {
	t, ok := addr.(*net.TCPAddr)
	return ok && t.IP.IsLoopback()
}

// Here is the address for a program on this machine: a server that listens everywhere also listens on the loopback
// address.
func Here(addr net.Addr) string {
	t, ok := addr.(*net.TCPAddr)
	if !ok || !t.IP.IsUnspecified() {
		return addr.String()
	}
	return net.JoinHostPort(Local, strconv.Itoa(t.Port))
}
