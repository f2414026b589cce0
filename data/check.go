package data

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"vsetrain/data/text"
)

// Check examines every file of a data set. The report lists what is wrong with the files. The error is not nil only if
// the folder cannot be read.
func Check(dir string, o CheckOptions) (*Report, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("data: %w; name the folder that holds train_caps.txt", err)
	}
	r := &Report{Dir: dir, Files: []FileReport{}, Splits: []SplitReport{}, Problems: []Problem{}}
	vocab := r.checkVocab(o.Vocab)
	names, err := Splits(dir)
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	if len(names) == 0 {
		r.fail(dir, "name the folder that holds train_caps.txt, train_ims.npy and train_ids.txt, or write one with "+
			"`vsetrain data convert` or `vsetrain data synth`",
			"no split: there is no file named *_caps.txt or *_ims.npy")
	}
	splits := map[string]*Split{}
	for i, name := range names {
		s := r.checkSplit(name, vocab, o)
		if s == nil {
			continue
		}
		defer s.Close()
		splits[name] = s
		for _, earlier := range names[:i] {
			other := splits[earlier]
			if other == nil || name == "testall" && earlier == "test" {
				continue // MS-COCO's test images are the first of testall
			}
			if err := SharedImages(other, s); err != nil {
				r.warn(name+"_ids.txt", "no image belongs in two splits", "%v", err)
			}
		}
	}
	for _, e := range entries {
		if e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		r.checkFile(e, splits, o)
	}
	r.Features = recognise(r.Files)
	sort.SliceStable(r.Problems, func(i, j int) bool { return r.Problems[i].Error && !r.Problems[j].Error })
	return r, nil
}

func (r *Report) checkVocab(path string) *text.Vocabulary {
	if path == "" || path == "auto" {
		path = filepath.Join(r.Dir, "vocab.json")
		if _, err := os.Stat(path); missing(err) {
			r.warn("vocab.json", "write it with `vsetrain data vocab`, or name the vocabulary",
				"no vocabulary, so unknown words are not counted")
			return nil
		}
	}
	v, err := text.LoadVocabulary(path)
	if err != nil {
		r.fail(path, "write the vocabulary again with `vsetrain data vocab`", "%v", err)
		return nil
	}
	r.Vocab = &VocabReport{path, v.Len(), v.Hash()}
	return v
}

// checkSplit opens a split and reads its captions; nil when it cannot be opened.
func (r *Report) checkSplit(name string, v *text.Vocabulary, o CheckOptions) *Split {
	s, err := Open(r.Dir, name, OpenOptions{CaptionsPerImage: o.PerImage.Of(name),
		FeatureDType: o.FeatureDType, AllowEmpty: true, Partial: true, Original: true})
	if err != nil {
		r.fail(name, "", "%v", err) // the error names file and remedy
		return nil
	}
	sr := SplitReport{
		Name: name, Captions: s.n, Dropped: s.layout.captions - s.n, Images: s.NumImages(),
		CaptionsPerImage: s.Groups().Each(), Repeated: s.repeated, Regions: s.regions, Dim: s.dim,
	}
	if s.captions != nil {
		sr.FewestCaptions, sr.MostCaptions = s.groups.Range()
	}
	r.checkChanges(&sr)
	if s.captions != nil {
		r.checkCaptions(s, v, &sr)
	}
	if s.images != nil {
		r.checkBoxes(s)
		r.checkRepeated(s, o)
	} else {
		r.warn(name+"_ims.npy", "write them with `vsetrain data convert` or `vsetrain data extract`",
			"no features; train, eval and text queries need them")
	}
	if s.ids == nil {
		r.warn(name+"_ids.txt", "write one image id per line to name images in reports",
			"no ids file; images are known by their row")
	} else if n, line := s.ids.empty(s.ids.len()); n > 0 {
		r.fail(name+"_ids.txt", "write an image id on each line", "%d empty lines, the first is line %d", n, line)
	}
	if err := oddIDs(s); err != nil {
		r.warn(name+"_ids.txt", "name each image once", "%v", err)
	}
	r.Splits = append(r.Splits, sr)
	return s
}
