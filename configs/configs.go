// Package configs holds the presets that are part of the program: presets.tsv, a row for each published setting, and
// the YAML files that the rows are put together from.
package configs

import "embed"

// FS are the presets. Sweeps are not among them: they name folders of their own and are started from a file.
//
//go:embed presets.tsv demo.yaml data loss vsepp vsrn saf sgr vseinf gsmn scan chan
var FS embed.FS
