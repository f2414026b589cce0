// Package configs holds the presets that are part of the program: presets.tsv, a row for each published setting, and
// the YAML files that the rows are put together from.
package configs

import "embed"

// FS are the table, the YAML files of networks, losses and data sets, and the sweeps.
//
//go:embed presets.tsv *.yaml */*.yaml
var FS embed.FS

// Sweeps is the folder of FS whose files are no presets of runs but sweeps.
const Sweeps = "sweeps"
