package sweep

import _ "embed"

// Schema is the JSON Schema (draft 2020-12) of sweep files, for editors. What only Load sees, such as keys that need
// each other, it leaves open.
//
//go:embed schema.json
var Schema string
