package web

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"vsetrain/lab/try"
)

func TestAllowedHost(t *testing.T) {
	for host, want := range map[string]bool{"localhost": true, "LOCALHOST.:80": true, "127.0.0.1:8420": true,
		"[::1]:8420": true, "[::1]": true, "[::1": false, "[::1:8420": false, "::1]": false, "[[::1]]": false,
		"[]": false, "lab": true, "lab:80": true, "example.org": false, "127.0.0.1.example.org": false,
		"": false} {
		if got := allowedHost(host, []string{"Lab"}); got != want {
			t.Errorf("host %q: %v", host, got)
		}
	}
}

// A server that is told to stop finishes what it does and accepts nothing new; what takes too long is cut off.
func TestServe(t *testing.T) {
	for _, c := range []struct{ takes, grace time.Duration }{{50 * time.Millisecond, 10 * time.Second},
		{10 * time.Second, 50 * time.Millisecond}} {
		l := try.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
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
		go func() { served <- serve(ctx, s, l, c.grace) }()
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

// Every answer has the headers that keep other pages away; what is refused, an error and a panic are answered in the
// form of the server, which is told of all.
func TestSite(t *testing.T) {
	var a Answer
	s := &Site{Policy: "default-src 'none'", Hosts: []string{"lab"}, Done: func(done *Answer) { a = *done },
		Fail: func(w http.ResponseWriter, _ *http.Request, e *Error) { http.Error(w, e.Code+": "+e.Message, e.Status) },
		Of: func(err error) error {
			if errors.Is(err, io.EOF) {
				return Errorf(http.StatusConflict, "ended", "no more")
			}
			return err
		},
		Handle: func(w http.ResponseWriter, r *http.Request) error {
			switch r.URL.Path {
			case "/bad":
				return BadRequest("expected %d", 1)
			case "/known":
				return io.EOF
			case "/late":
				return context.DeadlineExceeded
			case "/large":
				_, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 3))
				return err
			case "/unknown":
				return errors.New("the secret")
			case "/panic":
				panic("the secret")
			case "/half":
				io.WriteString(w, "half")
				return errors.New("the secret")
			}
			io.WriteString(w, "whole")
			return nil
		}}
	for _, c := range []struct {
		target, host string
		status       int
		body, cause  string
	}{
		{"/", "localhost", 200, "whole", ""},
		{"/", "lab:80", 200, "whole", ""},
		{"/", "evil.example", 421, "host: ", ""},
		{"/?" + strings.Repeat("x", MaxQuery), "localhost", 200, "whole", ""},
		{"/?" + strings.Repeat("x", MaxQuery+1), "localhost", 414, "long_query: ", ""},
		{"/bad", "localhost", 400, "bad_request: expected 1", ""},
		{"/known", "localhost", 409, "ended: no more", ""},
		{"/late", "localhost", 504, "timeout: ", ""},
		{"/large", "localhost", 413, "too_large: the request has more than 3 bytes", ""},
		{"/unknown", "localhost", 500, "internal: ", "the secret"},
		{"/panic", "localhost", 500, "internal: ", "panic: the secret"},
		{"/half", "localhost", 200, "half", "the secret"},
	} {
		r := httptest.NewRequest("POST", c.target, strings.NewReader("body"))
		r.Host = c.host
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		body, cause := w.Body.String(), ""
		if a.Cause != nil {
			cause = a.Cause.Error()
		}
		if w.Code != c.status || !strings.HasPrefix(body, c.body) || strings.Contains(body, "secret") ||
			a.Status != c.status || a.Bytes != len(body) || cause != c.cause {
			t.Errorf("%.20s at %s: %d, %q, told of %d, %d bytes, %q", c.target, c.host, w.Code, body, a.Status,
				a.Bytes, cause)
		}
		for name, want := range map[string]string{"Content-Security-Policy": s.Policy, "Cache-Control": "no-store",
			"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin"} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%.20s: %s is %q, want %q", c.target, name, got, want)
			}
		}
	}
	s.AnyHost = func() bool { return true }
	r := httptest.NewRequest("GET", "/", nil)
	w := httptest.NewRecorder()
	if s.ServeHTTP(w, r); w.Code != 200 {
		t.Errorf("under any name: %d", w.Code)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	s.Handle = func(http.ResponseWriter, *http.Request) error { return gone.Err() }
	w = httptest.NewRecorder()
	if s.ServeHTTP(w, r.WithContext(gone)); a.Status != statusGone || w.Body.Len() > 0 {
		t.Errorf("a client that is gone: %d, %q", a.Status, w.Body)
	}
}
