package data

import (
	"strings"

	"vsetrain/internal/files/integrity"
)

// fileKinds maps the ends of file names, behind the name of the split, to what the files hold.
var fileKinds = []struct{ suffix, kind string }{
	{"_caps.txt", "captions"}, {"_ims.npy", "features"}, {"_ids.txt", "ids"},
	{"_boxes.npy", "boxes"}, {"_ims_bbx.npy", "boxes"}, {"_sizes.npy", "sizes"}, {"_ims_size.npy", "sizes"},
	{changesEnd, "changes"}, {lengthsEnd, "region counts"},
	{"_precaps_stan.txt", "word ids"}, {"_caps.json", "dependencies"}, {"_caps.conllu", "dependencies"},
	{"_svd.npy", "semantics"}, {"_bert.npy", "semantics"}, {"_svd.txt", "semantics"}, {"_bert.txt", "semantics"},
}

// kindOf returns the kind of a file and the split it belongs to.
func kindOf(name string) (kind, split string) {
	for _, k := range fileKinds {
		if split, ok := strings.CutSuffix(name, k.suffix); ok && split != "" {
			return k.kind, split
		}
	}
	switch {
	case name == integrity.ManifestName:
		return "manifest", ""
	case name == "id_mapping.json":
		return "id mapping", ""
	case strings.Contains(name, "vocab"):
		return "vocabulary", ""
	}
	return "other", ""
}
