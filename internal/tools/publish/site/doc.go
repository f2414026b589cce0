// Command site renders README.md and docs/ as a static site without scripts. docs/README.md is its navigation. The same
// sources give the same bytes. Run it as `make docs`.
package main
