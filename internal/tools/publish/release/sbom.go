package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// bill is the bill of materials of a program: its modules with their licences, as CycloneDX 1.6 in JSON.
func bill(b *built, modules []module, t target) ([]byte, error) {
	sum := sha256.Sum256(b.Program.Data)
	own := fmt.Sprintf("pkg:generic/vsetrain@%s?goos=%s&goarch=%s", b.Version, t.OS, t.Arch)
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: b.Epoch.Format(time.RFC3339), Component: &cdx.Component{BOMRef: own,
		Type: cdx.ComponentTypeApplication, Name: "vsetrain", Version: b.Version, PackageURL: own,
		Hashes:   &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: fmt.Sprintf("%x", sum)}},
		Licenses: &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}}}}
	var components []cdx.Component
	var needs []string
	for _, m := range modules {
		ref := fmt.Sprintf("pkg:golang/%s@%s", m.Path, m.Version)
		needs = append(needs, ref)
		components = append(components, cdx.Component{BOMRef: ref, Type: cdx.ComponentTypeLibrary, Name: m.Path,
			Version: m.Version, PackageURL: ref, Scope: cdx.ScopeRequired,
			Licenses: &cdx.Licenses{{Expression: m.Licence}}})
	}
	bom.Components, bom.Dependencies = &components, &[]cdx.Dependency{{Ref: own, Dependencies: &needs}}
	var out bytes.Buffer
	err := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6)
	return out.Bytes(), err
}
