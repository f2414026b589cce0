package sweep

import _ "embed"

// Schema is the JSON Schema (draft 2020-12) of sweep files, for editors. Only Load checks rules of several keys.
//
//go:embed schema.json
var Schema string
