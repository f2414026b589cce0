package view

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/png"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"vsetrain/internal/apps/web"
	"vsetrain/internal/files/pictures"

	"vsetrain/internal/apps/search"
	"vsetrain/lab/try"
)

// send posts a form with one file.
func (s *site) send(path, field, file string, content []byte, header ...string) (int, string) {
	s.t.Helper()
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	w, err := form.CreateFormFile(field, file)
	if err == nil {
		_, err = w.Write(content)
	}
	if err == nil {
		err = form.Close()
	}
	try.Do(s.t, err)
	r := try.Get(http.NewRequest("POST", s.URL+path, &b))(s.t)
	r.Header.Set("Content-Type", form.FormDataContentType())
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer := try.Get(http.DefaultClient.Do(r))(s.t)
	defer answer.Body.Close()
	text := try.Get(io.ReadAll(answer.Body))(s.t)
	return answer.StatusCode, string(text)
}

// A picture that is sent finds captions; its name, its size, its kind and where the form comes from are held against
// nothing but the rules.
func TestUpload(t *testing.T) {
	s := open(t, Options{Dir: runs, open: opensFake(&fake{})})
	p := &picked{Key: networkKey{"one", "best", "test"}}
	var picture bytes.Buffer
	try.Do(t, png.Encode(&picture, image.NewGray(image.Rect(0, 0, 3, 2))))
	to := p.URL("/upload")
	if status, text := s.send(to, "picture", "a.png", picture.Bytes()); status != http.StatusBadRequest ||
		!strings.Contains(text, "open the network first") {
		t.Errorf("before it is open: %d", status)
	}
	s.load(p.Key)
	s.has(p.URL("/search"), `enctype="multipart/form-data"`)
	status, text := s.send(to, "picture", "../../etc/passwd", picture.Bytes())
	if status != http.StatusOK || !strings.Contains(text, "2 of 2 captions") || strings.Contains(text, "passwd") ||
		strings.Contains(text, "<script>alert") {
		t.Errorf("%d: %s", status, text)
	}
	for name, c := range map[string]struct {
		field, want string
		content     []byte
		header      []string
		status      int
	}{
		"text":    {"picture", "expected a JPEG, PNG, WebP or GIF", []byte("no picture"), nil, 400},
		"field":   {"file", "expected a form with a picture", picture.Bytes(), nil, 400},
		"large":   {"picture", "too large; expected at most 32 MiB", make([]byte, maxUpload), nil, 400},
		"foreign": {"picture", "cross-origin", picture.Bytes(), []string{"Sec-Fetch-Site", "cross-site"}, 403},
	} {
		if status, text := s.send(to, c.field, "a.png", c.content, c.header...); status != c.status ||
			!strings.Contains(text, c.want) {
			t.Errorf("%s: %d, %q lacks %q", name, status, text, c.want)
		}
	}
	// other forms keep their small limit
	for pad, want := range map[int]int{maxBody / 2: http.StatusSeeOther, maxBody: http.StatusBadRequest} {
		form := url.Values{"theme": {"dark"}, "pad": {strings.Repeat("a", pad)}}
		if r, _ := s.ask("POST", "/theme", form); r.StatusCode != want {
			t.Errorf("a form of more than %d bytes: %s, want %d", pad, r.Status, want)
		}
	}
	if r, _ := s.ask("GET", to, nil); r.StatusCode != http.StatusSeeOther && r.Request.URL.Path != "/search" {
		t.Errorf("GET leads to %s", r.Request.URL)
	}
}

// slow is a searcher that works on a picture until its request has gone.
type slow struct {
	*fake
	begun, gone chan bool
}

func (w slow) OfPicture(ctx context.Context, _ []byte, _ int) (search.Answer, error) {
	close(w.begun)
	<-ctx.Done()
	close(w.gone)
	return search.Answer{}, ctx.Err()
}

// Who leaves is noticed while the picture is worked on, also where the body goes on after it.
func TestUploadLeaves(t *testing.T) {
	w := slow{&fake{}, make(chan bool), make(chan bool)}
	s := open(t, Options{Dir: runs, open: func(context.Context, search.Options) (searcher, error) { return w, nil }})
	p := &picked{Key: networkKey{"one", "best", "test"}}
	s.load(p.Key)
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	file, err := form.CreateFormFile("picture", "a.png")
	if err == nil {
		_, err = file.Write([]byte("a picture"))
	}
	if err == nil {
		err = form.WriteField("note", strings.Repeat("a", 20_000))
	}
	if err = errors.Join(err, form.Close()); err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "POST", s.URL+p.URL("/upload"), io.MultiReader(&b)) // in chunks
	try.Do(t, err)
	r.Header.Set("Content-Type", form.FormDataContentType())
	go func() {
		<-w.begun
		leave()
	}()
	if answer, err := http.DefaultClient.Do(r); err == nil {
		answer.Body.Close()
		t.Errorf("an answer: %s", answer.Status)
	}
	select {
	case <-w.gone:
	case <-time.After(10 * time.Second):
		t.Error("the picture is still worked on")
	}
}

// counted is a context that ends after its error was asked for that many times.
type counted struct {
	context.Context
	left int
}

func (c *counted) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// A picture that nobody waits for any more is not decoded to its end, and the next one finds its place free.
func TestPictureCancelled(t *testing.T) {
	var b bytes.Buffer
	try.Do(t, png.Encode(&b, image.NewGray(image.Rect(0, 0, 300, 300))))
	x := &index{turn: pictures.NewTurn(), extractor: &search.Extractor{}}
	for range 2 {
		if _, err := x.OfPicture(&counted{t.Context(), 5}, b.Bytes(), 1); err != context.Canceled {
			t.Errorf("%v", err)
		}
	}
}

// Whatever the form is, the picture is a part of what was sent.
func FuzzUpload(f *testing.F) {
	f.Add("b", "--b\r\nContent-Disposition: form-data; name=\"picture\"; filename=\"a\"\r\n\r\nbytes\r\n--b--\r\n")
	f.Add("b", "--b\r\nContent-Disposition: form-data; name=\"other\"\r\n\r\n\r\n--b\r\n\r\n--b--")
	f.Add("", "--\r\n")
	f.Fuzz(func(t *testing.T, boundary, body string) {
		r := httptest.NewRequest("POST", "/search/upload", strings.NewReader(body))
		r.Header.Set("Content-Type", mime.FormatMediaType("multipart/form-data",
			map[string]string{"boundary": boundary}))
		r.Body = http.MaxBytesReader(httptest.NewRecorder(), r.Body, 4096)
		b, err := uploaded(&request{Request: r})
		if err == nil && !strings.Contains(body, string(b)) {
			t.Errorf("%q is no part of %q", b, body)
		}
		var bad *web.Error
		if err != nil && !errors.As(err, &bad) {
			t.Errorf("%T: %v", err, err)
		}
	})
}
