package eval

import (
	"errors"
	"fmt"

	"vsetrain/internal/compute/device"
	"vsetrain/models"
)

// PairPlan says how the pairs of a split are scored on a device with its own memory. Encoded images and captions are
// copied to the device once if they fit. Otherwise a block of images is resident while all captions are streamed, a
// tile at a time; then the next block follows. If not even that fits, both are streamed with every tile.
type PairPlan struct {
	Images, Captions   int64 // bytes of the encoded values
	BlockImages        int   // resident images; 0 streams them with every tile
	CaptionsStay       bool  // all captions are resident
	TileImages         int   // images scored in one run
	TileCaptions       int   // captions scored in one run
	Capacity           int   // largest number of words in the captions of a tile
	Values             int64 // bytes that a run takes
	Reserve            int64 // bytes for scratch memory
	Free, Total        int64 // device memory before scoring; Total is 0 on devices that compute in host memory
	images             int
	tile               tileSize // for a CPU
	imageBytes, column int64    // bytes of an image, and of the captions of a tile
}

// String returns the plan in one line.
func (p PairPlan) String() string {
	where := "come with every tile"
	switch {
	case p.CaptionsStay:
		where = "stay"
	case p.BlockImages > 0:
		where = fmt.Sprintf("pass by blocks of %d images", p.BlockImages)
	}
	return fmt.Sprintf("GPU memory: encoded images %s and captions %s %s; tiles of %d x %d pairs take %s, reserve "+
		"%s; %s of %s free before them",
		device.FormatBytes(p.Images), device.FormatBytes(p.Captions), where, p.TileImages, p.TileCaptions,
		device.FormatBytes(p.Values),
		device.FormatBytes(p.Reserve), device.FormatBytes(p.Free), device.FormatBytes(p.Total))
}

// pairFactors are the sides of tiles on a device with its own memory, as multiples of the tile of a CPU. With the
// largest tile, about fifty kernels of a run have work for every multiprocessor of a large GPU; larger tiles would gain
// nothing.
var pairFactors = []int{4, 2, 1}

const (
	// pairReserve is the memory in bytes that kernels need besides the values of a run: two workspaces of at most 640
	// MB, and tables.
	pairReserve = 1536 << 20
	// pairValues bounds the bytes of the values of a run, so that kernels can index them in 32 bits.
	pairValues = 4 << 31
)

// planPairs chooses the tiles and what is resident, according to the free memory of the device.
func planPairs(r *models.PairRunner, images, captions *models.EncodedSet, tile tileSize) (PairPlan, error) {
	p := PairPlan{Images: images.Bytes(), Captions: captions.Bytes(), images: images.N, tile: tile,
		BlockImages: images.N, TileImages: tile.images, TileCaptions: tile.captions}
	dev, ok := device.As[interface {
		FreeMemory() (free, total int64, err error)
	}](r.Model.Instance.Dev)
	if !ok {
		p.BlockImages = tile.images
		return p, nil
	}
	var err error
	if p.Free, p.Total, err = dev.FreeMemory(); err != nil {
		return p, err
	}
	p.Reserve = min(pairReserve, p.Free/4)
	p.imageBytes = images.BytesOf(0, 1)
	for _, stay := range []bool{true, false} {
		for _, f := range pairFactors {
			fits, err := p.try(r, images, captions, f, stay)
			if err != nil || fits {
				return p, err
			}
		}
	}
	p.BlockImages = 0
	return p, nil
}

// try fills in the plan with tiles of a size and reports whether it fits.
func (p *PairPlan) try(r *models.PairRunner, images, captions *models.EncodedSet, factor int, stay bool) (fits bool,
	err error) {
	p.TileImages, p.TileCaptions = factor*p.tile.images, factor*p.tile.captions
	p.Capacity, p.column = 0, 0
	for c := 0; c < captions.N; c += p.TileCaptions {
		end := min(captions.N, c+p.TileCaptions)
		p.Capacity = max(p.Capacity, captions.First[end]-captions.First[c])
		p.column = max(p.column, captions.BytesOf(c, end))
	}
	ni, nc := min(images.N, p.TileImages), min(captions.N, p.TileCaptions)
	if p.Values, err = r.Bytes(images, captions, ni, nc, p.Capacity); err != nil {
		return false, err
	}
	if p.Values > pairValues && factor > 1 {
		return false, nil
	}
	free := p.Free - p.Reserve - p.Values
	if p.CaptionsStay = stay; stay {
		p.BlockImages = images.N
		return p.Images+p.Captions+p.column <= free, nil // and one more column, see MakeResident
	}
	block := min(int64(images.N), (free-2*p.column)/max(1, p.imageBytes))
	if p.BlockImages = int(block); p.BlockImages < images.N {
		p.BlockImages -= p.BlockImages % p.TileImages
	}
	return p.BlockImages > 0, nil
}

// isFull reports whether an error says that a device is out of memory.
func isFull(err error) bool {
	var full *device.OutOfMemoryError
	return errors.As(err, &full)
}
