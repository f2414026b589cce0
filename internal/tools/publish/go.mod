// What makes the site and releases is a module of its own, so that the program's needs no goldmark and no CycloneDX.
module vsetrain/internal/tools/publish

go 1.26.0

require (
	github.com/CycloneDX/cyclonedx-go v0.12.0
	github.com/yuin/goldmark v1.8.7
	vsetrain v0.0.0
)

require golang.org/x/sys v0.49.0 // indirect

replace vsetrain => ../../..
