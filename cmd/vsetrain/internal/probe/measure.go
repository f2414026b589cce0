package probe

import (
	"fmt"
	"io"
	"os"
	"time"

	"vsetrain/internal/compute/par"
)

// Disk is the sequential speed of a file system in bytes per second.
type Disk struct{ Write, Read float64 } // Read is 0 if the page cache cannot be bypassed

const (
	diskBlock   = 8 << 20
	diskFile    = 128 << 20
	diskReserve = 1 << 30
)

// Free returns how many bytes this user can write in the folder dir, 0 if unknown.
func Free(dir string) (int64, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return 0, err
	}
	if !info.IsDir() {
		return 0, fmt.Errorf("%s: expected a folder, found a file", dir)
	}
	return free(dir), nil
}

// MeasureDisk writes a temporary file of at most 128 MB into dir for about d, reads it back, and removes it. The writes
// reach the disk (fsync after every 8 MB), and the reads bypass the page cache. With less than 1 GB free it measures
// nothing.
func MeasureDisk(dir string, d time.Duration) (disk Disk, err error) {
	if n, err := Free(dir); err != nil || n > 0 && n < diskReserve {
		return disk, err
	}
	f, err := os.CreateTemp(dir, ".vsetrain-doctor-*")
	if err != nil {
		return disk, err
	}
	defer func() {
		f.Close()
		if gone := os.Remove(f.Name()); err == nil {
			err = gone
		}
	}()
	block := make([]byte, diskBlock)
	for i, x := 0, uint32(1); i < len(block); i++ { // not compressible, in case the file system compresses
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		block[i] = byte(x)
	}
	size, start := 0, time.Now()
	for size < diskFile && (size == 0 || time.Since(start) < d) {
		if _, err := f.Write(block); err != nil {
			return disk, err
		}
		if err := f.Sync(); err != nil {
			return disk, err
		}
		size += len(block)
	}
	disk.Write = float64(size) / max(time.Since(start), 1).Seconds()
	if !dropCache(f) {
		return disk, nil
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return disk, err
	}
	read, start := 0, time.Now()
	for read < size && (read == 0 || time.Since(start) < d) {
		n, err := f.Read(block)
		if err != nil {
			return disk, err
		}
		read += n
	}
	disk.Read = float64(read) / max(time.Since(start), 1).Seconds()
	return disk, nil
}

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
