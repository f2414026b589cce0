package bind

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"vsetrain/internal/house/try"
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
	go func() { ended <- Serve(t.Context(), h, l, time.Second) }()
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
		b, err := io.ReadAll(a.Body)
		if err != nil || string(b) != strings.ToUpper(text) || <-sent != nil {
			t.Errorf("%q, %v", b, err)
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
