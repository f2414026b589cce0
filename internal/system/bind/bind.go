// Package bind opens the addresses that servers of the program listen on, tells who reaches them, and serves until it
// is told to stop.
package bind

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
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

// AllowedHost reports whether a Host header, with or without port, is localhost, an IP address or one of the names. A
// page elsewhere that points its own name at this machine (DNS rebinding) sends its own name.
func AllowedHost(host string, names []string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	} else if inside, ok := strings.CutPrefix(host, "["); ok { // an address of IPv6 without port
		if host, ok = strings.CutSuffix(inside, "]"); !ok {
			return false
		}
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if host == "localhost" || slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, host) }) {
		return true
	}
	_, err := netip.ParseAddr(host)
	return err == nil
}

// CheckHosts returns an error for the first of the names of hosts, for AllowedHost, that is none.
func CheckHosts(names []string) error {
	for _, h := range names {
		if _, _, err := net.SplitHostPort(h); err == nil || h == "" {
			return fmt.Errorf("--allow-host %q: expected a name without port", h)
		}
	}
	return nil
}

// ErrCutOff is the error of a server that was told to stop and whose requests in progress took too long.
var ErrCutOff = errors.New("requests in progress were cut off")

// Serve answers requests on l until ctx ends. Then it accepts no more and lets those in progress finish, for at most
// the given time; after that it cuts them off and returns ErrCutOff.
func Serve(ctx context.Context, s *http.Server, l net.Listener, grace time.Duration) error {
	if streams, ok := l.(*Stdio); ok {
		s.Handler = streams.answered(s.Handler)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	rest, stop := context.WithTimeout(context.Background(), grace)
	defer stop()
	if err := s.Shutdown(rest); err != nil {
		s.Close()
		return fmt.Errorf("%w: they took more than %v", ErrCutOff, grace)
	}
	return nil
}
