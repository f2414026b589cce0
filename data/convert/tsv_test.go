package convert

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/npy"
	"vsetrain/lab/try"
)

func TestTSVByIDs(t *testing.T) {
	dir := t.TempDir()
	a, b, c, d, e := made("11", 3, 5), made("7", 3, 5), made("205", 3, 5), made("4", 3, 5), made("9", 3, 5)
	f1 := tsv(t, dir, "a.tsv", "\r\n", a, b, c)
	f2 := tsv(t, dir, "b.tsv", "\n", d, b, e)
	train := write(t, dir, "train.txt", "4\n0011\n205\n")
	test := write(t, dir, "test.txt", "7\n7\n9\n9\n\n")
	out := filepath.Join(dir, "out")
	o := target(out, Split{"train", train}, Split{"test", test})
	rep := try.Get(o.from(".tsv", f1, f2))(t)
	a.id = "0011" // as the ids file has it
	checkSplit(t, out, "train", npy.F32, d, a, c)
	checkSplit(t, out, "test", npy.F32, b, b, e, e)
	if rep.Records != 6 || rep.Unused != 0 || rep.Rows["test"] != 4 {
		t.Errorf("report %+v", rep)
	}
	want := Duplicate{"7", f1 + ":2", f2 + ":2", "the same byte by byte"}
	if len(rep.Duplicates) != 1 || rep.Duplicates[0] != want {
		t.Errorf("duplicates %+v, want %+v", rep.Duplicates, want)
	}
	try.Refuses(o.from(".tsv", f1, f2))(t, "already exists")
	// What a killed conversion left behind of ids that stay as they are goes too.
	left, old := filepath.Join(out, ".train_ids.txt.tmp-gone-99999999-8"), time.Now().Add(-48*time.Hour)
	try.Do(t, errors.Join(os.WriteFile(left, nil, 0o600), os.Chtimes(left, old, old)))
	o.Force, o.DType = true, npy.F16
	try.Get(o.from(".tsv", f1, f2))(t)
	checkSplit(t, out, "train", npy.F16, d, a, c)
	if _, err := os.Stat(left); err == nil {
		t.Errorf("%s is still there", left)
	}
}

func TestTSVInOrderInfersTheShape(t *testing.T) {
	dir := t.TempDir()
	a, b := made("3", 2, 4), made("1", 2, 4)
	for name, text := range map[string]string{
		"plain": a.line() + "\n" + b.line(),
		"quoted": strings.ReplaceAll("\""+strings.ReplaceAll(a.line(), "\t", "\"\t\"")+"\"\r\n", "=\"", "=\n\"") +
			b.line() + "\n\n",
		"reordered": "features\tboxes\tnum_boxes\timage_h\timage_w\timage_id\textra\n" +
			reversed(a.line()) + "\tx\n" + reversed(b.line()) + "\ty\n",
	} {
		o := to(filepath.Join(dir, name))
		o.SourceType, o.In = "f32", strings.NewReader(text)
		if rep := try.Get(o.from(".tsv", "-"))(t); rep.Records != 2 {
			t.Errorf("%s: report %+v", name, rep)
		}
		checkSplit(t, o.Out, "x", npy.F32, a, b)
	}
}

func reversed(line string) string {
	f := strings.Split(line, "\t")
	slices.Reverse(f)
	return strings.Join(f, "\t")
}

func TestTSVFit(t *testing.T) {
	dir := t.TempDir()
	less, more := made("1", 2, 5), made("2", 4, 5)
	file := tsv(t, dir, "a.tsv", "\n", less, more)
	ids := write(t, dir, "ids.txt", "2\n1\n")
	out := filepath.Join(dir, "out")
	o := target(out, Split{"dev", ids})
	try.Refuses(o.from(".tsv", file))(t, "a.tsv:2", "image 2", "expected 3 regions, found 4", "fit")
	leftovers(t, out)
	o.Fit = true
	rep := try.Get(o.from(".tsv", file))(t)
	if rep.Padded != 1 || rep.Cut != 1 {
		t.Errorf("report %+v", rep)
	}
	more.boxes, more.features = more.boxes[:12], more.features[:15]
	less.boxes, less.features = append(less.boxes, 0, 0, 0, 0), append(less.features, 0, 0, 0, 0, 0)
	checkSplit(t, out, "dev", npy.F32, more, less)
}

func TestTSVBadInput(t *testing.T) {
	good := made("1", 3, 5)
	line := good.line()
	fields := strings.Split(line, "\t")
	with := func(i int, s string) string { return replaceField(line, i, s) }
	nan := made("1", 3, 5)
	nan.features[6] = float32(math.NaN())
	other := made("2", 3, 5)
	big := made("1", 3, 5)
	names := strings.Fields(columnSets[0].columns)
	big.features[0] = 1e6
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"truncated base64":  {line[:len(line)-7], []string{"a.tsv:1", "image 1", "features", "truncated"}},
		"cut after a group": {line[:len(line)-8], []string{"a.tsv:1", "image 1", "features", "truncated"}},
		"wrong field count": {strings.Join(fields[:5], "\t"), []string{"a.tsv:1", "5 columns of no known set",
			"cut off"}},
		"too many fields": {line + "\tmore", []string{"a.tsv:1", "7 columns of no known set", `the text "more"`}},
		"not base64":      {with(4, "!!!!"), []string{"a.tsv:1", "boxes", "base64"}},
		"boxes too few": {with(4, base(good.boxes[:8])),
			[]string{"boxes", "expected 24, 48 or 96 bytes", "found 32"}},
		"num_boxes":      {with(3, "x"), []string{"num_boxes", "whole number", `"x"`}},
		"num_boxes zero": {with(3, "0"), []string{"image 1", "num_boxes: 0", "--skip-broken"}},
		"width":          {with(1, "-5"), []string{"image_w", "found -5"}},
		"channels": {with(5, base(good.features[:12])),
			[]string{"a.tsv:1", "expected features of 5 channels", "10, 20 or 40 bytes"}},
		"not a number":         {nan.line(), []string{"region 1, channel 1 is NaN"}},
		"beyond float16":       {big.line(), []string{"image 1", "1e+06"}},
		"missing id":           {other.line(), []string{"ids.txt", "1 (line 1)", "a.tsv"}},
		"differing duplicates": {line + "\n" + with(1, "77"), []string{"a.tsv:2", "image 1", "a.tsv:1", "first"}},
		"open quote":           {"\"" + line, []string{"a.tsv:1", "closing quote"}},
		"empty id":             {with(0, ""), []string{"a.tsv:1", "image id"}},
		"header":               {"image_id\tboxes\n" + line, []string{"a.tsv:1", "no column num_boxes"}},
		"cut off, seven named": {strings.Join(append(names[:1:1], append([]string{"extra"}, names[1:]...)...),
			"\t") + "\n" + line, []string{"a.tsv:2", "expected 7 tab-separated fields", "found 6"}},
		"id of two lines": {"\"1\n2\"" + line[1:], []string{"a.tsv:1", "field 1", "without control characters",
			`"1\n2"`}},
		"id not in UTF-8": {"\xff" + line[1:], []string{"a.tsv:1", "UTF-8"}},
		"empty":           {"", []string{"ids.txt", "1 (line 1)"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			o := target(filepath.Join(dir, "out"), Split{"train", write(t, dir, "ids.txt", "1\n")})
			o.DType = npy.F16
			try.Refuses(o.tsv(t, c.text))(t, c.want...)
			leftovers(t, o.Out)
		})
	}
}

// The features are the last files to come, so that no kill leaves them beside boxes or ids of an earlier set.
func TestFeaturesComeLast(t *testing.T) {
	dir := t.TempDir()
	c := &conversion{Options: target(dir, Split{Name: "train"}, Split{Name: "dev"})}
	p := made("7", 3, 5)
	var outs []*output
	for _, s := range c.Splits {
		o := try.Get(c.newOutput(s, -1))(t)
		it := item{regions: 3, length: 3, dim: 5, features: p.features, boxes: p.boxes, width: 4, height: 5}
		try.Do(t, o.write(&it, p.id))
		outs = append(outs, o)
	}
	set := &atomicfile.Set{}
	try.Do(t, prepare(set, outs...))
	var names []string
	for _, path := range set.Paths() {
		names = append(names, filepath.Base(path))
	}
	if n := len(names); n != 8 || names[n-2] != "train_ims.npy" || names[n-1] != "dev_ims.npy" {
		t.Errorf("order %v", names)
	}
	set.Abort()
	leftovers(t, dir)
}

// Replacing a set removes the boxes and sizes that the new source does not have.
func TestForceLeavesNoOldBoxes(t *testing.T) {
	out, folder := t.TempDir(), t.TempDir()
	p := made("7", 3, 5)
	o := target(out)
	try.Get(o.tsv(t, p.line()))(t)
	checkSplit(t, out, "x", o.DType, p)
	npz(t, filepath.Join(folder, "7.npz"), map[string][]byte{"x": npyBytes("<f4", p.features, 3, 5)})
	try.Refuses(o.from("folder", folder))(t, "already exists")
	o.Force = true
	try.Get(o.from("folder", folder))(t)
	for _, end := range []string{"_ims_bbx.npy", "_ims_size.npy"} {
		if _, err := os.Lstat(filepath.Join(out, "x"+end)); !os.IsNotExist(err) {
			t.Errorf("x%s is still there (%v)", end, err)
		}
	}
}

func TestTSVKeepFirst(t *testing.T) {
	a := made("1", 3, 5)
	b := a
	b.w++
	o := target(t.TempDir())
	o.KeepFirst = true
	rep := try.Get(o.tsv(t, a.line()+"\n"+b.line()))(t)
	if len(rep.Duplicates) != 1 || rep.Duplicates[0].Why != "with other content" {
		t.Errorf("duplicates %+v", rep.Duplicates)
	}
	checkSplit(t, o.Out, "x", npy.F32, a)
}

func TestIDsFiles(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("5\n", 25)
	for i := range 12 {
		long += strings.Repeat("9", i+1) + "\n"
	}
	file := tsv(t, dir, "a.tsv", "\n", made("5", 3, 5))
	for name, c := range map[string]struct{ text, want string }{
		"empty": {"\n\n", "empty file"},
		"blank": {"5\n\n5\n", ":2: expected an image id, found a blank line"},
		"long":  {long, "and 2 more"},
	} {
		o := target(filepath.Join(dir, name), Split{"x", write(t, dir, name+".txt", c.text)})
		try.Refuses(o.from(".tsv", file))(t, c.want)
	}
}

func TestOptionsThatCannotBeUsed(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"regions":             func(o *Options) { o.Regions = maxRegions + 1 },
		"feature size":        func(o *Options) { o.Dim = maxDim + 1 },
		"at least one":        func(o *Options) { o.Splits = nil },
		"split name":          func(o *Options) { o.Splits[0].Name = "a/b" },
		"needs the num":       func(o *Options) { o.Regions, o.Fit = 0, true },
		"has no ids file":     func(o *Options) { o.Splits = append(o.Splits, Split{Name: "y"}) },
		"scale: expected a":   func(o *Options) { o.Scale = math.Inf(1) },
		"squeeze: expected d": func(o *Options) { o.Squeeze = []int{1, 1} },
	} {
		o := target("out")
		change(&o)
		try.Refuses(o.from("folder", "."))(t, want)
	}
}
