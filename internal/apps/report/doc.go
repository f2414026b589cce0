// Package report turns finished and running runs into the tables, figures and pictures of the LSEH paper:
// training efficiency, recalls, learning curves, unique and hardest negatives, attention maps, computation time.
//
// Runs (run.go) are put together by data set, network and loss (group.go). Build makes a Report of them: sections of
// tables (table.go), figures (figure.go) and pictures, which is written as text, Markdown, LaTeX, CSV, image files or
// one page of HTML.
package report
