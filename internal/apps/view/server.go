package view

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	"vsetrain/internal/apps/web"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/pretrained"
)

// Server shows the runs of a folder.
type Server struct {
	opt      Options
	store    *store
	measures *measures
	networks *networks
}

// New checks the options and looks for runs. A folder without runs is an error.
func New(o Options) (*Server, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.open == nil {
		o.open = o.openIndex
	}
	s := &Server{opt: o, store: newStore(o.Dir), measures: newMeasures()}
	s.networks = newNetworks(&s.opt)
	runs, _ := s.store.all(o.Now())
	if len(runs) == 0 {
		return nil, fmt.Errorf("%s: nothing to show: no run directory (a folder with config.yaml) in it or up to %d "+
			"folders below it", o.Dir, runfs.FindDepth)
	}
	warnOfOrigins(&s.opt, runs)
	return s, nil
}

// warnOfOrigins warns of runs that were trained, or may have been trained, on features of another model than the
// features of Options.Data.
func warnOfOrigins(o *Options, runs []*Run) {
	if o.Data == "" || o.Warn == nil {
		return
	}
	for _, run := range runs {
		if len(run.Saved) == 0 {
			continue
		}
		// a missing split and an unreadable run are reported when they are opened
		if note, err := pretrained.Gallery(run.Dir, o.Data, "test"); err == nil && note != "" {
			o.Warn(errors.New(note))
		}
	}
}

// Runs returns the number of runs that are shown.
func (s *Server) Runs() int {
	runs, _ := s.store.all(s.opt.Now())
	return len(runs)
}

// maxBody bounds the body of a form without a picture.
const maxBody = 1 << 16

// policy lets a page load only its own files, and forbids inline scripts and styles.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// Handler returns the handler of the pages. It accepts forms from its own pages only (Sec-Fetch-Site, Origin).
func (s *Server) Handler() *web.Site {
	mux := http.NewServeMux()
	for path, page := range map[string]func(*request) error{
		"/{$}": s.runsPage, "/run": s.runPage, "/compare": s.comparePage, "/sweep": s.sweepPage,
		"/search": s.picking(s.searchPage), "/image": s.picking(s.imagePage),
		"/attention": s.picking(s.attentionPage), "/queries": s.picking(s.queriesPage),
		"/mistakes": s.picking(s.mistakesPage), "/ranks.csv": s.picking(s.ranksFile), "/figure": s.sweepFigure,
		"/upload": s.afterUpload, "/": func(*request) error { return errNotFound },
	} {
		mux.Handle("GET "+path, s.page(page))
	}
	mux.HandleFunc("GET /picture", s.picture)
	mux.Handle("GET /assets/", assetHandler())
	mux.Handle("POST /load", s.page(s.load))
	mux.Handle("POST /rank", s.page(s.rank))
	mux.Handle("POST /upload", s.page(s.picking(s.uploadPage)))
	mux.Handle("POST /theme", s.page(s.theme))
	forms := http.NewCrossOriginProtection()
	return &web.Site{Hosts: s.opt.Hosts, Policy: policy, Read: 10 * time.Second, Write: time.Minute,
		Grace: 3 * time.Second,
		Handle: func(w http.ResponseWriter, r *http.Request) error {
			if err := forms.Check(r); err != nil {
				return web.Errorf(http.StatusForbidden, "", "%v", err)
			}
			limit := int64(maxBody)
			if r.URL.Path == "/upload" {
				limit = maxUpload
			}
			r.Body = http.MaxBytesReader(w, r.Body, limit)
			mux.ServeHTTP(w, r)
			return nil
		},
		Fail: func(w http.ResponseWriter, _ *http.Request, e *web.Error) { http.Error(w, e.Message, e.Status) },
		Done: func(a *web.Answer) {
			if a.Cause != nil {
				log.Printf("%s %q: %v", a.Method, a.URL.Path, a.Cause)
			}
		}}
}

// Close stops loading and closes the networks.
func (s *Server) Close() { s.networks.close() }

// Serve answers requests on l until ctx ends, then lets requests in progress finish for 3 s.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	err := s.Handler().Serve(ctx, l)
	if errors.Is(err, web.ErrCutOff) { // the reader can load the page again
		return nil
	}
	return err
}
