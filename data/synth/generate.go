package synth

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"vsetrain/internal/compute/par"
	"vsetrain/internal/compute/philox"
	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/disk"
)

// picture is one generated image with its captions, and the memory for it.
type picture struct {
	id       int
	scene    scene
	ims      []float32 // [R, D]
	boxes    []float32 // [R, 4]
	captions []string
	trees    [][]byte
	words    []string // tokens of all captions
	err      error
}

// keys are the random families of one split.
type keys struct{ scenes, families, regions, captions philox.Key }

func newKeys(seed uint64, split string) keys {
	if split == "testall" {
		split = "test" // test is the beginning of testall
	}
	k := func(what string) philox.Key { return philox.NewKey(seed, "synth/"+split+"/"+what) }
	return keys{k("scenes"), k("families"), k("regions"), k("captions")}
}

// worker is the state of one thread that makes pictures.
type worker struct {
	tables   *tables
	detector detector
	speaker  speaker
	used     []bool
}

// make generates picture i of a split.
func (w *worker) make(p *picture, k *keys, i int) {
	p.scene = w.tables.scene(k.scenes, k.families, i)
	w.detector.detect(&p.scene, k.regions.Stream(uint64(i)), p.ims, p.boxes)
	w.speaker.s, w.speaker.sc = k.captions.Stream(uint64(i)), &p.scene
	clear(w.used)
	p.words = p.words[:0]
	for c := range p.captions {
		w.speaker.caption(w.used)
		p.captions[c] = w.speaker.text()
		p.trees[c], _ = json.Marshal(w.speaker.pairs()) // numbers alone
		p.words = append(p.words, w.speaker.words...)
	}
}

// block is a parallel loop over consecutive pictures of a split.
type block struct {
	workers  []worker
	pictures []picture
	keys     keys
	first    int    // index of pictures[0] in its split
	firstID  int    // id of picture 0 of the split
	images   string // folder of drawings, "" for none
}

// Do implements par.Body.
func (b *block) Do(w, i int) {
	p := &b.pictures[i]
	p.id = b.firstID + b.first + i
	b.workers[w].make(p, &b.keys, b.first+i)
	if b.images != "" {
		p.err = p.scene.save(filepath.Join(b.images, strconv.Itoa(p.id)+".png"))
	}
}

// Generate writes the data set that o describes to the folder dir, which it makes if it is missing:
//
//	{split}_ims.npy [N,R,D], {split}_ims_bbx.npy [N,R,4] (pixels x1,y1,x2,y2), {split}_ims_size.npy [N,2] (width,
//	height; int32), {split}_caps.txt, {split}_ids.txt, {split}_caps.json (dependency pairs [governor, dependent],
//	1-based, root first, over the tokens of the caption) and vocab.json (SCAN's layout, train and dev words).
//
// progress, if not nil, is called with the number of pictures done and their total. Generate writes to a hidden folder,
// in dir if it exists, otherwise beside it, and moves the complete files; a killed process leaves only the hidden
// folder. It refuses to replace a data set unless o.Force is set.
func Generate(dir string, o Options, progress func(done, total int)) error {
	if err := o.Validate(); err != nil {
		return err
	}
	dir = filepath.Clean(dir)
	if err := checkTarget(dir, o.Force); err != nil {
		return fmt.Errorf("synthetic world: %w", err)
	}
	staging, err := makeHidden(dir)
	if err != nil {
		return fmt.Errorf("synthetic world: %w", err)
	}
	defer atomicfile.RemoveAll(staging)
	if err := generate(staging, &o, progress); err != nil {
		return fmt.Errorf("synthetic world: write %s: %w", dir, err)
	}
	if err := install(staging, dir); err != nil {
		return fmt.Errorf("synthetic world: move the finished files to %s: %w", dir, err)
	}
	return nil
}

// blockBytes bounds the features held in memory.
const blockBytes = 16 << 20

func generate(dir string, o *Options, progress func(done, total int)) error {
	pool := par.New(o.Threads)
	defer pool.Close()
	b := newBlock(o, pool.Threads())
	mapping := map[string]string{}
	folder := filepath.Join(dir, imagesName)
	if o.Images || len(o.ImagesOf) > 0 {
		if err := disk.Now().Mkdir(folder); err != nil {
			return err
		}
	}
	counts := map[string]int{"train": o.Train, "dev": o.Dev, "test": o.Test, "testall": o.TestAll}
	firstID := map[string]int{"dev": o.Train, "test": o.Train + o.Dev, "testall": o.Train + o.Dev}
	total, done := o.Train+o.Dev+o.Test+o.TestAll, 0
	words := &counter{count: map[string]int{}}
	for _, split := range splits {
		n := counts[split]
		if n == 0 {
			continue
		}
		if b.images = ""; o.Images || slices.Contains(o.ImagesOf, split) {
			b.images = folder
		}
		b.keys, b.firstID = newKeys(o.Seed, split), firstID[split]
		f, err := openSplit(dir, split, n, o)
		if err != nil {
			return err
		}
		for b.first = 0; b.first < n; b.first += len(b.pictures) {
			m := min(len(b.pictures), n-b.first)
			pool.For(m, b)
			for i := range b.pictures[:m] {
				p := &b.pictures[i]
				err := p.err
				if err == nil {
					err = f.write(p)
				}
				if err != nil {
					f.abort()
					return err
				}
				if split == "train" || split == "dev" {
					for _, w := range p.words {
						words.add(w)
					}
				}
				if b.images != "" {
					mapping[strconv.Itoa(p.id)] = strconv.Itoa(p.id) + ".png"
				}
			}
			if done += m; progress != nil {
				progress(done, total)
			}
		}
		if err := f.close(); err != nil {
			f.abort()
			return err
		}
	}
	if len(mapping) > 0 {
		if err := writeJSON(filepath.Join(dir, "id_mapping.json"), mapping); err != nil {
			return err
		}
	}
	return writeJSON(filepath.Join(dir, "vocab.json"), words.vocabulary())
}

func newBlock(o *Options, threads int) *block {
	codes := newCodes(o.Seed, o.Dim)
	b := &block{workers: make([]worker, threads)}
	for i := range b.workers {
		t := newTables()
		b.workers[i] = worker{tables: t, detector: detector{codes: codes}, speaker: speaker{tables: t},
			used: make([]bool, len(patterns))}
	}
	n := max(threads, min(64, blockBytes/(4*o.Regions*o.Dim)))
	b.pictures = make([]picture, n)
	for i := range b.pictures {
		p := &b.pictures[i]
		p.ims, p.boxes = make([]float32, o.Regions*o.Dim), make([]float32, 4*o.Regions)
		p.captions, p.trees = make([]string, o.CaptionsPerImage), make([][]byte, o.CaptionsPerImage)
	}
	return b
}
