package convert

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/integrity"
)

// captionSplit is an output split, and the splits of the file from which it is made.
type captionSplit struct {
	name string
	of   []string
}

// usualSplits are the output splits if the options name none. The 30,504 images of COCO's restval belong to train, as
// in VSE++ and SCAN.
var usualSplits = []captionSplit{{"train", []string{"train", "restval"}},
	{"dev", []string{"val", "dev", "valid", "validate", "validation"}}, {"test", []string{"test"}}}

// captions writes {split}_caps.txt, a caption a line, and {split}_ids.txt: an id for each image if all images of the
// split have the same number of captions, otherwise an id for each caption. The order is the order of the file. IDs of
// a split are the splits of the file from which it is made.
func (c *conversion) captions() error {
	images, err := readCaptioned(c.Sources[0], c.IDKey)
	if err != nil {
		return err
	}
	count := map[string]int{} // images of each split of the file
	for _, im := range images {
		count[im.split]++
	}
	splits, err := c.captionSplits(count)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Sources[0], err)
	}
	if err := atomicfile.MkdirAll(c.Out); err != nil {
		return err
	}
	set := &atomicfile.Set{}
	defer set.Abort()
	for _, s := range splits {
		if err := c.writeCaptions(set, s, images); err != nil {
			return err
		}
		for _, of := range s.of {
			delete(count, of)
		}
	}
	for _, left := range slices.Sorted(maps.Keys(count)) {
		c.note("%d images of the split %q are in no split; --split NAME=%[2]s writes them", count[left], left)
	}
	return integrity.Commit(set)
}

// captionSplits returns the splits to write: the splits that the options name, otherwise the usual splits of the file.
func (c *conversion) captionSplits(count map[string]int) (list []captionSplit, err error) {
	asked := c.Splits
	if len(asked) == 0 {
		for _, u := range usualSplits {
			asked = append(asked, Split{Name: u.name})
		}
	}
	var has []string
	for _, name := range slices.Sorted(maps.Keys(count)) {
		has = append(has, fmt.Sprintf("%s (%d)", name, count[name]))
	}
	file := "it has " + strings.Join(has, ", ")
	for _, s := range asked {
		var of []string
		if s.IDs != "" {
			of = strings.Split(s.IDs, ",")
		}
		for _, u := range usualSplits {
			if s.IDs != "" || u.name != s.Name {
				continue
			}
			of = slices.DeleteFunc(slices.Clone(u.of), func(name string) bool { return count[name] == 0 })
			if u.name == "dev" && len(of) > 1 {
				return nil, fmt.Errorf("images of the splits %s, which are names of the same; say which makes %s: "+
					"--split %[2]s=%[3]s", strings.Join(of, " and "), s.Name, of[0])
			}
		}
		for _, name := range of {
			if count[name] == 0 {
				return nil, fmt.Errorf("no images of the split %q for %s; %s", name, s.Name, file)
			}
		}
		switch {
		case len(of) > 0:
			list = append(list, captionSplit{s.Name, of})
		case len(c.Splits) > 0:
			return nil, fmt.Errorf("no images that make the split %s; %s: name them, --split %[1]s=NAME[,NAME]", s.Name,
				file)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no images of the splits train, val and test; %s: name them, --split train=NAME", file)
	}
	return list, nil
}

// writeCaptions adds captions and ids of a split to a set.
func (c *conversion) writeCaptions(set *atomicfile.Set, s captionSplit, images []captioned) error {
	var caps, each, ids strings.Builder // ids of each caption, and of each image
	least, most, captions := 0, 0, 0
	from := map[string]int{}
	for _, im := range images {
		if !slices.Contains(s.of, im.split) {
			continue
		}
		n := len(im.captions)
		if c.Captions > 0 && im.fault == nil {
			if n < c.Captions {
				im.fault = fmt.Errorf("%d captions, fewer than %d (--captions)", n, c.Captions)
			}
			n = min(n, c.Captions)
		}
		if im.fault != nil {
			if err := c.broken(im.id, c.Sources[0], im.fault); err != nil {
				return err
			}
			continue
		}
		for _, text := range im.captions[:n] {
			caps.WriteString(text + "\n")
			each.WriteString(im.id + "\n")
		}
		ids.WriteString(im.id + "\n")
		if from[im.split]++; captions == 0 || n < least {
			least = n
		}
		captions, most = captions+n, max(most, n)
	}
	if captions == 0 {
		return fmt.Errorf("%s: split %s: no image with captions", c.Sources[0], s.name)
	}
	text := fmt.Sprintf("%d each", least)
	if least < most {
		ids = each
		text = fmt.Sprintf("%d to %d each, so that %s_ids.txt has an id for each caption; --distinct makes one row of "+
			"features for each image of it", least, most, s.name)
	}
	var parts []string
	sum := 0
	for _, of := range s.of {
		parts, sum = append(parts, fmt.Sprintf("%d of %s", from[of], of)), sum+from[of]
	}
	c.note("%s: %d images (%s), %d captions, %s", filepath.Join(c.Out, s.name+"_caps.txt"), sum,
		strings.Join(parts, ", "), captions, text)
	for _, file := range []struct{ end, text string }{{"_ids.txt", ids.String()}, {"_caps.txt", caps.String()}} {
		path := filepath.Join(c.Out, s.name+file.end)
		if err := free(path, c.Force); err != nil {
			return err
		}
		if err := set.Write(path, []byte(file.text)); err != nil {
			return err
		}
	}
	return nil
}
