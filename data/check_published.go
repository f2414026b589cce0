package data

import (
	"slices"
	"strings"
)

// publishedFeatures are the data sets of SCAN's repository: the numbers of rows of the arrays float32 [rows, 36, 2048],
// with a row for each image or for each of its five captions.
var publishedFeatures = []struct {
	name string
	rows map[string][]int // by file
}{
	{"f30k_precomp", map[string][]int{"train_ims.npy": {29000, 145000}, "dev_ims.npy": {1014, 5070},
		"test_ims.npy": {1000, 5000}}},
	{"coco_precomp", map[string][]int{"train_ims.npy": {113287, 566435}, "dev_ims.npy": {1000, 5000, 25000},
		"test_ims.npy": {1000, 5000}, "testall_ims.npy": {5000, 25000}}},
}

// recognise returns the names of the published data sets to which all feature files of a folder may belong, by their
// names, types and shapes; "" if there is none.
func recognise(files []FileReport) string {
	var names []string
	for _, p := range publishedFeatures {
		fits := false
		for _, f := range files {
			if f.Kind != "features" {
				continue
			}
			s := f.Shape
			if fits = f.DType == "<f4" && len(s) == 3 && s[1] == 36 && s[2] == 2048 &&
				slices.Contains(p.rows[f.Name], s[0]); !fits {
				break
			}
		}
		if fits {
			names = append(names, p.name)
		}
	}
	return strings.Join(names, " or ")
}
