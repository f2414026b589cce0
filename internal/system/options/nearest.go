package options

import "strings"

// edit is the distance of an insertion, a deletion or a substitution. A swap of neighbours is less, so that lshe is
// nearer to lseh than to lsh.
const (
	edit = 8
	swap = 7
)

// Nearest returns the candidate most like word, or "" if none is close: at most one edit for every three letters, and
// at least one letter in common. A candidate that begins with word, of three letters or more, is one edit away.
func Nearest(word string, candidates []string) string {
	word = strings.ToLower(word)
	best, bestDistance := "", 1+edit*max(1, len(word)/3)
	for _, c := range candidates {
		lower := strings.ToLower(c)
		d := distance(word, lower)
		switch {
		case d >= edit*max(len(word), len(c)):
			continue
		case len(word) >= 3 && strings.HasPrefix(lower, word):
			d = min(d, edit)
		}
		if d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// distance is the optimal string alignment distance: insertions, deletions, substitutions and swaps of neighbours.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = edit * i
	}
	for j := range rows[0] {
		rows[0][j] = edit * j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := edit
			if a[i-1] == b[j-1] {
				cost = 0
			}
			d := min(rows[i-1][j]+edit, rows[i][j-1]+edit, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[i-2][j-2]+swap)
			}
			rows[i][j] = d
		}
	}
	return rows[len(a)][len(b)]
}
