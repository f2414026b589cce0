package view

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"vsetrain/internal/apps/chart"
	"vsetrain/internal/apps/web"
)

//go:embed templates/*.html
var templateFiles embed.FS

//go:embed assets/*
var assetFiles embed.FS

// pages are the templates by the name of the page, each with the layout and the shared parts.
var pages = func() map[string]*template.Template {
	shared := template.Must(template.New("").Funcs(functions).ParseFS(templateFiles, "templates/layout.html",
		"templates/part_*.html"))
	all := map[string]*template.Template{}
	names, _ := fs.Glob(templateFiles, "templates/page_*.html") // the pattern is right
	for _, name := range names {
		page := strings.TrimSuffix(strings.TrimPrefix(path.Base(name), "page_"), ".html")
		all[page] = template.Must(template.Must(shared.Clone()).ParseFS(templateFiles, name))
	}
	return all
}()

type request struct {
	*http.Request
	w   http.ResponseWriter
	s   *Server
	now time.Time
	q   url.Values
}

// frame is the data of the layout around a page.
type frame struct {
	Title, Tab, Root string
	Theme            string // light, dark, or "" for the theme of the system
	Here             string // path and query of the page
	Part             string // path and query of the part that changes; "" for a static page
	Query            *picked
	Data             any
}

// Errors of addresses.
var (
	errNotFound = web.Errorf(http.StatusNotFound, "", "there is no such page")
	errNoRun    = web.Errorf(http.StatusNotFound, "", "there is no such run; it may have been moved or deleted")
)

// page returns a handler that shows an error of f as a page.
func (s *Server) page(f func(*request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, hr *http.Request) {
		r := &request{Request: hr, w: w, s: s, now: s.opt.Now(), q: hr.URL.Query()}
		err := f(r)
		if err == nil || hr.Context().Err() != nil {
			return
		}
		status := http.StatusInternalServerError
		if e, ok := errors.AsType[*web.Error](err); ok {
			status = e.Status
		}
		if err := r.render(status, "error", frame{Title: "Not shown", Data: err.Error()}); err != nil {
			log.Printf("show the error page: %v", err)
		}
	})
}

// show renders a page, or with ?part=1 its part that changes. With an ETag, unchanged pages are not sent again.
func (r *request) show(name string, f frame) error { return r.render(http.StatusOK, name, f) }

func (r *request) render(status int, name string, f frame) error {
	f.Root, f.Theme, f.Here = r.s.opt.Dir, r.themeOf(), r.URL.RequestURI()
	whole := "layout"
	if r.q.Get("part") != "" && status == http.StatusOK {
		whole = "live"
	}
	var b bytes.Buffer
	if err := pages[name].ExecuteTemplate(&b, whole, f); err != nil {
		return fmt.Errorf("page %s: %w", name, err)
	}
	h := r.w.Header()
	if f.Part == "" {
		h.Set("X-Live", "done") // the script need not ask again
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	if status == http.StatusOK {
		sum := sha256.Sum256(b.Bytes())
		tag := `"` + hex.EncodeToString(sum[:12]) + `"`
		h.Set("ETag", tag)
		h.Set("Cache-Control", "no-cache")
		h.Set("Vary", "Cookie")
		if r.Header.Get("If-None-Match") == tag {
			r.w.WriteHeader(http.StatusNotModified)
			return nil
		}
	}
	r.w.WriteHeader(status)
	if r.Method != http.MethodHead {
		r.w.Write(b.Bytes()) // an error is a browser that went away
	}
	return nil
}

// partURL returns the address of the changing part of this page.
func (r *request) partURL() string {
	q := r.URL.Query()
	q.Set("part", "1")
	return r.URL.Path + "?" + q.Encode()
}

// themeCookie stores the choice of colours. The server reads and sets it, so that it works without JavaScript.
const themeCookie = "vsetrain_theme"

func (r *request) themeOf() string {
	c, err := r.Cookie(themeCookie)
	if err != nil || c.Value != "light" && c.Value != "dark" {
		return ""
	}
	return c.Value
}

// theme stores the colours and goes back to the page.
func (s *Server) theme(r *request) error {
	theme, back := r.FormValue("theme"), r.FormValue("back")
	if theme != "light" && theme != "dark" && theme != "auto" {
		return web.BadRequest("theme: expected light, dark or auto")
	}
	http.SetCookie(r.w, &http.Cookie{Name: themeCookie, Value: theme, Path: "/", MaxAge: 365 * 24 * 3600,
		HttpOnly: true, SameSite: http.SameSiteStrictMode})
	r.redirect(back)
	return nil
}

// redirect redirects to the path and query of an address, on this server whatever host it names.
func (r *request) redirect(to string) {
	u, err := url.Parse(to)
	if err != nil {
		u = &url.URL{}
	}
	target := "/" + strings.TrimLeft(path.Clean("/"+strings.ReplaceAll(u.Path, `\`, "/")), "/")
	if u.RawQuery != "" {
		target += "?" + u.RawQuery
	}
	http.Redirect(r.w, r.Request, target, http.StatusSeeOther)
}

// assetHandler serves style and script under names that browsers may cache.
func assetHandler() http.Handler {
	files, err := fs.Sub(assetFiles, "assets")
	if err != nil {
		panic(err) // the folder is embedded
	}
	h := http.StripPrefix("/assets/", http.FileServerFS(files))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/") {
			http.NotFound(w, r)
			return
		}
		if r.URL.Query().Get("v") == assetVersion {
			w.Header().Set("Cache-Control", "private, max-age=31536000, immutable")
		} else {
			w.Header().Set("Cache-Control", "no-cache")
		}
		if r.URL.Path == "/assets/palette.css" {
			http.ServeContent(w, r, "palette.css", time.Time{}, strings.NewReader(chart.CSS()))
			return
		}
		h.ServeHTTP(w, r)
	})
}

// assetVersion changes with the assets.
var assetVersion = func() string {
	h := sha256.New()
	io.WriteString(h, chart.CSS())
	fs.WalkDir(assetFiles, ".", func(name string, e fs.DirEntry, err error) error {
		if b, err := assetFiles.ReadFile(name); err == nil {
			h.Write(b)
		}
		return err
	})
	return hex.EncodeToString(h.Sum(nil)[:6])
}()
