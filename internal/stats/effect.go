package stats

import (
	"fmt"
	"slices"
)

// WithoutEffect reports for each factor whether it had no effect: some observations differ only in this factor, and all
// of them have the same outcome. levels[i][k] is the level of factor k in observation i.
func WithoutEffect(levels [][]string, outcomes []float64) []bool {
	var none []bool
	if len(levels) == 0 {
		return none
	}
	for k := range levels[0] {
		alike, differ, same := map[string]int{}, false, true
		for i, l := range levels {
			others := fmt.Sprintf("%q", slices.Concat(l[:k], l[k+1:]))
			first, seen := alike[others]
			if !seen {
				alike[others] = i
				continue
			}
			differ = differ || levels[first][k] != l[k]
			same = same && outcomes[first] == outcomes[i]
		}
		none = append(none, differ && same)
	}
	return none
}
