package cuda

import "testing"

// SetTile gives the tiles of pairs another size for one test.
func SetTile(t *testing.T, bytes int) {
	old := tileBytes
	tileBytes = bytes
	t.Cleanup(func() { tileBytes = old })
}
