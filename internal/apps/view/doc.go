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
// Pages are made on the server with html/template, curves as SVG; without JavaScript everything works, with it pages
// follow a running training and the keyboard. Nothing on disk is changed. What is fetched with GET changes nothing in
// the server either; a network is loaded by a POST.
//
// The files of a run and the captions and ids of a data set are treated as hostile: they are escaped, no path is built
// from a request, and pictures are opened below the picture folder only. Requests under a foreign host name are
// refused, so that no other page can read this one by rebinding its name (internal/apps/web).
package view
