package cuda

import (
	"testing"

	"vsetrain/internal/device/cuda/driver"
)

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

// DropFollow leaves out the waits between streams for which drop returns true, until the function it returns is called.
func DropFollow(drop func() bool) (restore func()) {
	old := follow
	follow = func(d *dev, s driver.Stream, e driver.Event) error {
		if drop() {
			return nil
		}
		return old(d, s, e)
	}
	return func() { follow = old }
}
