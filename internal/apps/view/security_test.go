package view

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"vsetrain/internal/apps/web"

	"vsetrain/data"
	"vsetrain/internal/apps/search"
	"vsetrain/internal/files/pictures"
	"vsetrain/internal/run/analysis"
	"vsetrain/lab/try"
)

// hostile breaks out of text, attributes, addresses and scripts where it is not escaped.
const hostile = `"'><script>alert(1)</script><img src=x onerror=alert(2)>{{.}}` + "\u202e</title></svg><!--"

// fake is an index of two images with one caption each, whose texts and ids are hostile.
type fake struct {
	ids    []string
	closed *atomic.Int32
	pairs  bool
}

func (f *fake) Info() search.Info {
	return search.Info{Data: hostile, Split: "test", Images: len(f.list()), Captions: len(f.list()),
		Own: data.EqualGroups(len(f.list()), 1), Scored: len(f.list()), Pairs: f.pairs, Queries: search.AllQueries}
}

func (f *fake) list() []string {
	if f.ids == nil {
		return []string{hostile, "b"}
	}
	return f.ids
}

func (f *fake) Image(i int) search.Image {
	return search.Image{Index: i, ID: f.list()[i], Captions: []string{f.Caption(i)}}
}
func (f *fake) Caption(c int) string { return fmt.Sprint(hostile, c) }
func (f *fake) FindImage(id string) (int, error) {
	return 0, fmt.Errorf("no image %s", id)
}
func (f *fake) answer() (search.Answer, error) {
	return search.Answer{Hits: []search.Hit{{Index: 1, Score: 2}, {Index: 0, Score: 1}}, Scored: 2,
		Unknown: []string{hostile}}, nil
}
func (f *fake) Text(_ context.Context, q string, _ int) (search.Answer, error) {
	if q == "unknown" {
		return search.Answer{}, &search.UnknownError{Query: hostile, Words: []string{hostile}}
	}
	return f.answer()
}
func (f *fake) OfImage(context.Context, int, int) (search.Answer, error) { return f.answer() }
func (f *fake) HasExtractor() bool                                       { return true }
func (f *fake) OfPicture(ctx context.Context, b []byte, _ int) (search.Answer, error) {
	if _, err := pictures.Decode(ctx, b, 1<<20); err != nil {
		return search.Answer{}, web.BadRequest("%v", err)
	}
	return f.answer()
}
func (f *fake) OfCaption(context.Context, int, int) (search.Answer, error) { return f.answer() }
func (f *fake) Outcomes(context.Context) (*search.Outcomes, error) {
	var out search.Outcomes
	for i := range f.list() {
		o := search.Outcome{Query: i, Rank: 1, Match: search.Hit{Index: i, Score: 1},
			Wrong: search.Hit{Index: 1 - i%2, Score: 2}}
		out.Images, out.Captions = append(out.Images, o), append(out.Captions, o)
	}
	return &out, nil
}
func (f *fake) Attention(_ context.Context, i, c int) (*analysis.WordAttention, error) {
	m := analysis.WordMap{Word: f.Caption(c), Attention: analysis.Attention{Width: 2, Height: 1,
		Boxes: [][4]float64{{0, 0, 1, 1}}, Scores: []float64{1}}}
	return &analysis.WordAttention{Text: f.Caption(c), Words: []analysis.WordMap{m, m, m}}, nil
}
func (f *fake) Close() error {
	if f.closed != nil {
		f.closed.Add(1)
	}
	return nil
}

func opensFake(f *fake) opener {
	return func(context.Context, search.Options) (searcher, error) { return f, nil }
}

// Captions, ids, names of runs, settings, environment and what is typed come out as text on every page.
func TestHostileText(t *testing.T) {
	root := t.TempDir()
	c := tiny()
	c.Data.Dir, c.Train.InitFrom = hostile, hostile
	name := strings.ReplaceAll(hostile, "/", "_")
	fakeRun(t, filepath.Join(root, name), c, line2(1, 1, 5, true))
	fakeRun(t, filepath.Join(root, name, "sweep", "trials", name), c, "") // below a run: not looked at
	fakeRun(t, filepath.Join(root, "s"+name, "trials", name), c, line2(1, 1, 5, true))
	write(t, filepath.Join(root, name, "checkpoints", "best.safetensors"), "")
	write(t, filepath.Join(root, name, "env.json"),
		`{"sessions":[{"host":"<script>alert(3)</script>","command":["<script>"]}]}`)
	s := open(t, Options{Dir: root, open: opensFake(&fake{})})
	k := networkKey{name, "best", "test"}
	s.load(k)
	p := &picked{Key: k}
	id := url.QueryEscape(name)
	pages := []string{"/", "/?q=" + url.QueryEscape(hostile), "/?sort=" + url.QueryEscape(hostile), "/run?id=" + id,
		"/compare?r=" + id + "&r=" + url.QueryEscape("s"+name+"/trials/"+name),
		"/sweep", p.URL("/search"), p.URL("/search", "q", hostile), p.URL("/search", "q", "unknown"),
		p.URL("/search", "c", 0), p.URL("/image", "i", 0),
		p.URL("/queries", "dir", "i2t"), p.URL("/queries", "bin", hostile), p.URL("/mistakes"),
		p.URL("/mistakes", "dir", "i2t"),
		p.URL("/image", "id", hostile), "/search?r=" + id + "&split=" + url.QueryEscape(hostile), "/run?id=" +
			url.QueryEscape(hostile), "/" + url.PathEscape(hostile)}
	for _, page := range pages {
		_, text := s.ask("GET", page, nil)
		lower := strings.ToLower(text)
		if strings.Contains(lower, "<script>") || strings.Contains(lower, "<img src=x") ||
			strings.Contains(lower, "<!--") || strings.Count(lower, "<script") != 1 {
			t.Errorf("%s lets a caption, an id or a name through", page)
		}
		if !strings.Contains(text, "</html>") || strings.Contains(text, "ZgotmplZ") {
			t.Errorf("%s is not whole", page)
		}
	}
	s.has(p.URL("/mistakes"), "&lt;script&gt;alert(1)")
}

// Every answer carries the policy that forbids foreign and inline scripts.
func TestHeaders(t *testing.T) {
	s := open(t, Options{Dir: runs})
	for _, path := range []string{"/", "/nowhere", "/assets/app.js", "/picture?i=0"} {
		r, _ := s.ask("GET", path, nil)
		if p := r.Header.Get("Content-Security-Policy"); !strings.Contains(p, "default-src 'none'") ||
			strings.Contains(p, "unsafe") || r.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", path, r.Header)
		}
	}
	text := s.get("/")
	for _, bad := range []string{"http://", "https://", " style=", " onclick", "javascript:"} {
		if strings.Contains(text, bad) {
			t.Errorf("the page contains %q", bad)
		}
	}
}

// A page elsewhere that points its name here, or sends forms here, is refused; so are other methods.
func TestGuard(t *testing.T) {
	s := open(t, Options{Dir: runs, Hosts: []string{"lab.example"}})
	for host, ok := range map[string]bool{"127.0.0.1:80": true, "lab.example:1": true, "evil.example": false,
		"127.0.0.1@evil": false} {
		if r, _ := s.ask("GET", "/", nil, "Host", host); (r.StatusCode == http.StatusOK) != ok ||
			!ok && r.StatusCode != http.StatusMisdirectedRequest && r.StatusCode != http.StatusBadRequest {
			t.Errorf("host %s: %s", host, r.Status)
		}
	}
	theme := url.Values{"theme": {"dark"}, "back": {"/"}}
	for _, c := range []struct {
		header []string
		ok     bool
	}{{nil, true}, {[]string{"Origin", s.URL}, true}, {[]string{"Sec-Fetch-Site", "same-origin"}, true},
		{[]string{"Origin", "http://evil.example"}, false},
		{[]string{"Origin", "null"}, false}, {[]string{"Sec-Fetch-Site", "cross-site"}, false}} {
		if r, _ := s.ask("POST", "/theme", theme, c.header...); (r.StatusCode == http.StatusSeeOther) != c.ok {
			t.Errorf("%v: %s", c.header, r.Status)
		}
	}
	for _, path := range []string{"/load", "/rank", "/theme"} {
		if r, _ := s.ask("GET", path+"?r=one&theme=dark", nil); r.StatusCode < 400 {
			t.Errorf("GET %s: %s", path, r.Status)
		}
	}
	if len(s.server.networks.all) != 0 {
		t.Error("a GET loaded a network")
	}
	for _, method := range []string{"PUT", "DELETE", "TRACE"} {
		if r, _ := s.ask(method, "/", nil); r.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("%s: %s", method, r.Status)
		}
	}
	for back, want := range map[string]string{"/run?id=a": "/run?id=a", "//evil.example/x": "/x",
		"http://evil.example": "/", `/\evil.example`: "/evil.example", "": "/", "%zz": "/"} {
		r, _ := s.ask("POST", "/theme", url.Values{"theme": {"dark"}, "back": {back}})
		if got := r.Header.Get("Location"); got != want {
			t.Errorf("back to %q goes to %q, want %q", back, got, want)
		}
	}
	if r, _ := s.ask("POST", "/theme", url.Values{"theme": {"red"}}); r.StatusCode != http.StatusBadRequest {
		t.Errorf("theme red: %s", r.Status)
	}
	long := strings.Repeat("x", web.MaxQuery)
	s.status("/?q="+long, http.StatusRequestURITooLong)
}

// Pictures come from the picture folder alone, whatever the ids file or the request says.
func TestPictures(t *testing.T) {
	root := t.TempDir()
	images := filepath.Join(root, "images")
	png := try.Get(os.ReadFile(filepath.Join(world, "images", "32.png")))(t)
	for _, path := range []string{"secret.png", "images/ok.png", "images/sub/deep.png", "images/<b>.png"} {
		write(t, filepath.Join(root, path), string(png))
	}
	write(t, filepath.Join(root, "images/page.png"), "<html><script>alert(1)</script>")
	write(t, filepath.Join(root, "images/drawing.svg"),
		`<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`)
	try.Do(t, os.Mkdir(filepath.Join(images, "folder.png"), 0o777))
	linked := os.Symlink(filepath.Join(root, "secret.png"), filepath.Join(images, "link.png")) == nil
	ids := map[string]bool{"ok": true, "ok.png": true, "sub/deep": true, "<b>": true, "../secret": false,
		"../secret.png": false, "sub/../../secret": false, filepath.Join(root, "secret.png"): false,
		`..\secret`: false, "page": false, "drawing.svg": false, "folder": false, "gone": false, "": false, "..": false,
		"ok.png\x00": false, "%2e%2e%2fsecret": false}
	if linked {
		ids["link"] = false
	}
	var list []string
	for id := range ids {
		list = append(list, id)
	}
	s := open(t, Options{Dir: runs, Images: images, open: opensFake(&fake{ids: list})})
	k := networkKey{"one", "best", "test"}
	s.load(k)
	p := &picked{Key: k}
	for i, id := range list {
		r, text := s.ask("GET", p.URL("/picture", "i", i), nil)
		if ok := r.StatusCode == http.StatusOK && text == string(png); ok != ids[id] ||
			!ids[id] && r.StatusCode != http.StatusNotFound {
			t.Errorf("id %q: %s, %d bytes; want a picture: %t", id, r.Status, len(text), ids[id])
		}
		if ids[id] && r.Header.Get("Content-Type") != "image/png" {
			t.Errorf("id %q: type %s", id, r.Header.Get("Content-Type"))
		}
	}
	for _, q := range []string{"i=../secret.png", "i=..%2fsecret", "i=%2e%2e%2fsecret.png", "i=-1", "i=99999", "i=",
		"id=../secret", "i=01", "i=1.5", "i=0&split=../x", "i=0&r=../one"} {
		v := try.Get(url.ParseQuery("r=one&ck=best&split=test"))(t)
		more, _ := url.ParseQuery(q)
		for name := range more {
			v.Set(name, more.Get(name))
		}
		s.status("/picture?"+v.Encode(), http.StatusNotFound)
	}
	for _, path := range []string{"/picture/../secret.png", "/assets/../secret.png", "/assets/%2e%2e/server.go",
		"/assets/..%2f..%2fgo.mod", "/assets/", "/images/ok.png", "/..%2fsecret.png", "/%2e%2e/%2e%2e/etc/passwd"} {
		r, text := s.ask("GET", path, nil)
		if r.StatusCode == http.StatusOK || strings.Contains(text, "package view") ||
			strings.HasPrefix(text, string(png[:8])) {
			t.Errorf("%s: %s", path, r.Status)
		}
	}
}

// Looking changes nothing on disk, with everything open.
func TestReadOnly(t *testing.T) {
	root := t.TempDir()
	try.Do(t, os.CopyFS(root, os.DirFS(runs)))
	before := listing(t, root, world)
	s := open(t, Options{Dir: root})
	s.load(networkKey{"one", "best", "test"})
	for _, page := range []string{"/", "/run?id=one", "/compare?r=one&r=sub/two", "/sweep", "/search?r=one&q=a",
		"/image?r=one&i=0", "/queries?r=one", "/mistakes?r=one", "/picture?r=one&i=0"} {
		s.get(page)
	}
	if after := listing(t, root, world); after != before {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
}

// listing has a line for every file with its size and time.
func listing(t *testing.T, dirs ...string) string {
	t.Helper()
	var b strings.Builder
	for _, dir := range dirs {
		try.Do(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			st, err := e.Info()
			if err == nil {
				fmt.Fprintln(&b, path, st.Mode(), st.Size(), st.ModTime().UnixNano())
			}
			return err
		}))
	}
	return b.String()
}
