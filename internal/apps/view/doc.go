// Package view shows runs and what their networks retrieve as web pages, for one person on their own machine.
//
//	/            the runs below a folder, their states and best results
//	/run         one run: curves, recalls, settings, environment
//	/compare     several runs: curves in one plot, training efficiency, settings that differ
//	/sweep       the trials of a sweep and the settings they vary
//	/search      a caption finds images, /image an image finds captions
//	/queries     the rank of every query of a split, /mistakes the queries that went worst
//	/picture     the picture of an image
//
// The server makes pages with html/template, and curves as SVG. Everything works without JavaScript; with it, pages
// follow a running training and have keyboard shortcuts. The server does not change files. A GET does not change the
// server either; a POST loads a network.
//
// The files of a run and the captions and ids of a data set are treated as hostile: they are escaped, no path is built
// from a request, and pictures are opened only below the picture folder. Requests with a foreign host name are refused,
// so that another page cannot read this one by DNS rebinding (internal/apps/web).
package view
