package probe

import (
	"time"

	"vsetrain/internal/compute/par"
)

// Bandwidth estimates how fast the pool's threads copy memory, in bytes read and written a second: the best of the
// passes over two buffers of the given size, far larger than a cache, that fit into about d.
func Bandwidth(pool *par.Pool, size int, d time.Duration) float64 {
	const piece = 1 << 20
	size = max(size, piece) / piece * piece
	src, dst := make([]byte, size), make([]byte, size)
	// the system hands out zero pages that share one page of memory until they are written
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
