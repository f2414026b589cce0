package probe

import (
	"time"

	"vsetrain/internal/compute/par"
)

// Bandwidth measures how fast the pool's threads copy memory, in bytes read and written per second. It returns the best
// pass over two buffers of size bytes, which should be far larger than a cache, within about d.
func Bandwidth(pool *par.Pool, size int, d time.Duration) float64 {
	const piece = 1 << 20
	size = max(size, piece) / piece * piece
	src, dst := make([]byte, size), make([]byte, size)
	// Pages of zeros share one page of memory until they are written.
	for i := 0; i < size; i += 512 {
		src[i] = 1
	}
	body := par.Func(func(_, i int) { copy(dst[i*piece:][:piece], src[i*piece:][:piece]) })
	pool.For(size/piece, body)
	best, start := time.Duration(1<<62), time.Now()
	for {
		t := time.Now()
		pool.For(size/piece, body)
		best = min(best, time.Since(t))
		if time.Since(start) >= d {
			return 2 * float64(size) / max(best, 1).Seconds()
		}
	}
}
