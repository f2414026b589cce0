package bind

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"vsetrain/lab/try"
)

func TestListen(t *testing.T) {
	l := try.Get(Listen("127.0.0.1:0"))(t)
	defer l.Close()
	if !IsLoopback(l.Addr()) || Here(l.Addr()) != l.Addr().String() {
		t.Errorf("%v is not of this machine", l.Addr())
	}
	var taken *PortInUse
	if _, err := Listen(l.Addr().String()); !errors.As(err, &taken) || !strings.Contains(err.Error(), "port in use") {
		t.Errorf("a port that is taken: %v", err)
	}
	next, err := ListenFrom(l.Addr().(*net.TCPAddr).Port)
	if err != nil || next.Addr().String() == l.Addr().String() {
		t.Fatalf("%v, %v", next, err)
	}
	next.Close()
	for _, addr := range []string{"8420", "127.0.0.1:none", "1.2.3"} {
		try.Refuses(Listen(addr))(t, "expected HOST:PORT")
	}
	if everywhere := (&net.TCPAddr{IP: net.IPv4zero, Port: 80}); IsLoopback(everywhere) ||
		Here(everywhere) != "127.0.0.1:80" {
		t.Errorf("%v", everywhere)
	}
}

func TestAllowedHost(t *testing.T) {
	for host, want := range map[string]bool{"localhost": true, "LOCALHOST.:80": true, "127.0.0.1:8420": true,
		"[::1]:8420": true, "[::1]": true, "[::1": false, "[::1:8420": false, "::1]": false, "[[::1]]": false,
		"[]": false, "lab": true, "lab:80": true, "example.org": false, "127.0.0.1.example.org": false,
		"": false} {
		if got := AllowedHost(host, []string{"Lab"}); got != want {
			t.Errorf("host %q: %v", host, got)
		}
	}
}

// A server that is told to stop finishes what it does and accepts nothing new; what takes too long is cut off.
func TestServe(t *testing.T) {
	for _, c := range []struct{ takes, grace time.Duration }{{50 * time.Millisecond, 10 * time.Second},
		{10 * time.Second, 50 * time.Millisecond}} {
		l := try.Get(Listen("127.0.0.1:0"))(t)
		begun := make(chan bool)
		s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			close(begun)
			select {
			case <-time.After(c.takes):
			case <-r.Context().Done():
			}
			io.WriteString(w, "whole")
		})}
		ctx, stop := context.WithCancel(t.Context())
		served, answered := make(chan error, 1), make(chan string, 1)
		go func() { served <- Serve(ctx, s, l, c.grace) }()
		go func() {
			r, err := http.Get("http://" + l.Addr().String())
			if err != nil {
				answered <- err.Error()
				return
			}
			b, _ := io.ReadAll(r.Body)
			r.Body.Close()
			answered <- string(b)
		}()
		<-begun
		stop()
		whole := c.takes < c.grace
		if err := <-served; (err == nil) != whole || !whole && !errors.Is(err, ErrCutOff) {
			t.Errorf("%v: %v", c, err)
		}
		if got := <-answered; (got == "whole") != whole {
			t.Errorf("%v: the request got %q", c, got)
		}
		if _, err := net.Dial("tcp", l.Addr().String()); err == nil {
			t.Errorf("%v: it still listens", c)
		}
	}
}
