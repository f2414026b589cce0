package cuda

import "testing"

// SetTile gives the tiles of pairs another size for one test.
func SetTile(t *testing.T, bytes int) {
	old := tileBytes
	tileBytes = bytes
	t.Cleanup(func() { tileBytes = old })
}

// LimitScratch lowers what is kept at once for one test: bytes of BlockMatch and weights of self-attention.
func LimitScratch(t *testing.T, match, weights int) {
	m, w := matchBytes, selfPlaces
	matchBytes, selfPlaces = match, weights
	t.Cleanup(func() { matchBytes, selfPlaces = m, w })
}

// RoundFrom sets the number of multiplications from which operands are read as bfloat16, for one test.
func RoundFrom(t *testing.T, n int) {
	old := roundFrom
	roundFrom = n
	t.Cleanup(func() { roundFrom = old })
}
