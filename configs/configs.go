// Package configs holds the presets of the program: presets.tsv, a row for each published setting, and the YAML files
// that the rows combine.
package configs

import "embed"

// FS holds the table, the YAML files of networks, losses and data sets, and the sweeps.
//
//go:embed presets.tsv *.yaml */*.yaml
var FS embed.FS

// Sweeps is the folder of FS with sweeps; the other files are presets of runs.
const Sweeps = "sweeps"
