package data

import (
	"slices"
	"strings"
)

// publishedFeatures are the region features that SCAN's repository publishes, by data set: the rows of the arrays
// float32 [rows, 36, 2048], with a row for each image or for each of its five captions.
var publishedFeatures = []struct {
	name string
	rows map[string][]int // by file
}{
	{"f30k_precomp", map[string][]int{"train_ims.npy": {29000, 145000}, "dev_ims.npy": {1014, 5070},
		"test_ims.npy": {1000, 5000}}},
	{"coco_precomp", map[string][]int{"train_ims.npy": {113287, 566435}, "dev_ims.npy": {1000, 5000, 25000},
		"test_ims.npy": {1000, 5000}, "testall_ims.npy": {5000, 25000}}},
}

// recognise returns the published data sets whose features the files of a folder may be, by name, type and shape alone;
// empty where one of them does not fit, or there are none.
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
