package web

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"vsetrain/lab/try"
)

// A server answers over a pair of streams one request after the other, however long they are apart, begins when it is
// ready, and ends with its input.
func TestStdio(t *testing.T) {
	in, ask := io.Pipe()
	answer, out := io.Pipe()
	ready := make(chan struct{})
	l := NewStdio(in, out, ready)
	late := time.AfterFunc(10*time.Second, func() { // instead of waiting for ever
		in.Close()
		out.Close()
	})
	defer late.Stop()
	const limit = 50 * time.Millisecond
	h := &http.Server{ReadHeaderTimeout: limit, ReadTimeout: limit, IdleTimeout: limit,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			_, _ = io.WriteString(w, strings.ToUpper(string(b)))
		})}
	ended := make(chan error, 1)
	go func() { ended <- serve(t.Context(), h, l, time.Second) }()
	read := bufio.NewReader(answer)
	for i, text := range []string{"first", "second"} {
		r := try.Get(http.NewRequest("POST", "http://localhost/", strings.NewReader(text)))(t)
		sent := make(chan error, 1)
		go func() { sent <- r.Write(ask) }()
		time.Sleep(3 * limit)
		if i == 0 {
			close(ready)
		}
		a := try.Get(http.ReadResponse(read, r))(t)
		if b := try.Get(io.ReadAll(a.Body))(t); string(b) != strings.ToUpper(text) || <-sent != nil {
			t.Errorf("%q", b)
		}
		time.Sleep(3 * limit)
	}
	ask.Close()
	if err := <-ended; !errors.Is(err, io.EOF) {
		t.Errorf("it ended with %v", err)
	}
	unready := NewStdio(strings.NewReader(""), io.Discard, nil)
	if _, err := unready.Accept(); !errors.Is(err, io.EOF) {
		t.Errorf("without input: %v", err)
	}
}

// Every request that arrived is answered in its turn, wherever the input ends: before the server is ready, during the
// work on a request, between requests, or within one, which alone is lost.
func TestStdioAnswersWhatArrived(t *testing.T) {
	draw := rand.New(rand.NewPCG(5, 6))
	for i := range 60 {
		n, cut := draw.IntN(6), draw.IntN(3) == 0
		var asked, want []byte
		for k := range n {
			body := strings.Repeat("x", draw.IntN(3)*draw.IntN(5000))
			asked = fmt.Appendf(asked, "POST /%d HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", k,
				len(body), body)
			want = fmt.Appendf(want, "%d:%d ", k, len(body))
		}
		if cut {
			const lost = "POST /lost HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nx"
			asked = append(asked, lost[:draw.IntN(len(lost))]...)
		}
		slow := time.Duration(draw.IntN(3)) * time.Millisecond
		ready := make(chan struct{})
		in, ask := io.Pipe()
		pause, most := time.Duration(draw.IntN(3))*time.Millisecond, 1+draw.IntN(4000)
		go func() {
			for len(asked) > 0 {
				k := min(len(asked), most)
				ask.Write(asked[:k])
				asked = asked[k:]
				time.Sleep(pause)
			}
			ask.Close()
		}()
		time.AfterFunc(time.Duration(draw.IntN(4))*time.Millisecond, func() { close(ready) })
		var out bytes.Buffer
		h := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			b, err := io.ReadAll(r.Body)
			time.Sleep(slow)
			if err == nil && r.Context().Err() == nil {
				fmt.Fprintf(w, "%s:%d", strings.TrimPrefix(r.URL.Path, "/"), len(b))
			}
		})}
		if err := serve(t.Context(), h, NewStdio(in, &out, ready), time.Second); !errors.Is(err, io.EOF) {
			t.Fatalf("draw %d: it ended with %v", i, err)
		}
		var got []byte
		for read := bufio.NewReader(&out); len(got) < len(want); {
			a, err := http.ReadResponse(read, nil)
			if err != nil {
				break
			}
			got = append(append(got, try.Get(io.ReadAll(a.Body))(t)...), ' ')
		}
		if string(got) != string(want) {
			t.Fatalf("draw %d of %d requests: got %q, want %q", i, n, got, want)
		}
	}
}
