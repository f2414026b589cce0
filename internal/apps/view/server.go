package view

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/trained"
	"vsetrain/internal/system/bind"
)

// Server shows the runs of a folder.
type Server struct {
	opt      Options
	store    *store
	measures *measures
	networks *networks
	pages    pages
}

// New checks the options and looks for runs. A folder without runs is an error: there would be nothing to show.
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
	var err error
	s.pages, err = parsePages()
	return s, err
}

// warnOfOrigins tells before a page is asked for which runs were not trained on features as those of Options.Data, or
// may not have been.
func warnOfOrigins(o *Options, runs []*Run) {
	if o.Data == "" || o.Warn == nil {
		return
	}
	for _, run := range runs {
		if len(run.Saved) == 0 {
			continue
		}
		// a split that is not there, and a run that cannot be opened, tell so when they are opened
		if note, err := trained.Gallery(run.Dir, o.Data, "test"); err == nil && note != "" {
			o.Warn(errors.New(note))
		}
	}
}

// Runs returns how many runs are shown now.
func (s *Server) Runs() int {
	runs, _ := s.store.all(s.opt.Now())
	return len(runs)
}

// Handler returns the pages behind the checks of guard.
func (s *Server) Handler() http.Handler {
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
	return guard(s.opt.Hosts, mux)
}

// Close stops what is loading and closes the networks.
func (s *Server) Close() { s.networks.close() }

// Serve answers requests on l until ctx ends, then lets those in progress finish for a moment.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	h := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      60 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    1 << 16,
	}
	err := bind.Serve(ctx, h, l, 3*time.Second)
	if errors.Is(err, bind.ErrCutOff) { // whoever reads the page loads it again
		return nil
	}
	return err
}
