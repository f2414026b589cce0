package bind

import (
	"errors"
	"net"
	"strings"
	"testing"

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
