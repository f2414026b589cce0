// Command site renders README.md and docs/ as a static site. docs/README.md is its navigation; a script searches the
// pages, and without JavaScript the rest works. The same sources give the same bytes. Run it as `make docs`.
package main
