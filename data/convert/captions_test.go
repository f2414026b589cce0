package convert

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vsetrain/internal/compute/philox"
	"vsetrain/lab/try"
)

// lines returns the lines of a file.
func lines(t *testing.T, path string) []string {
	t.Helper()
	text := strings.TrimSuffix(string(try.Get(os.ReadFile(path))(t)), "\n")
	return strings.Split(text, "\n")
}

// jsonFile writes a value.
func jsonFile(t *testing.T, dir string, v any) string {
	t.Helper()
	return write(t, dir, "dataset_x.json", string(try.Get(json.Marshal(v))(t)))
}

// Files as Karpathy's give the captions and ids of each split, in their order, whatever ids, numbers of captions and
// names of splits they have; features of a .tsv by these ids make one data set with them.
func TestCaptions(t *testing.T) {
	dir := try.MemoryDir(t)
	messy := []string{"A  dog\nruns .", " A dog\truns ", "a dog runs\r\n", "A dog \u2028 runs."}
	clean := []string{"A dog runs .", "A dog runs", "a dog runs", "A dog runs."}
	for seed := range 60 {
		s := philox.NewKey(uint64(seed), "captions").Stream(0)
		val := []string{"val", "dev", "validation"}[s.IntN(3)]
		from := map[string]string{"train": "train", "restval": "train", val: "dev", "test": "test", "other": ""}
		coco, uneven, tokens := s.IntN(2) == 0, s.IntN(2) == 0, s.IntN(3) == 0
		var images []any
		want, ids, each := map[string][]string{}, map[string][]string{}, map[string][]string{} // by split
		counts := map[string]map[int]bool{}
		var pictures []picture
		for i := range 30 {
			split := []string{"train", "train", "restval", val, "test", "other"}[s.IntN(6)]
			name := fmt.Sprintf("img_%d.jpg", 900+i)
			im := map[string]any{"filename": name, "split": split, "imgid": i}
			id := strings.TrimSuffix(name, ".jpg")
			if coco {
				id = fmt.Sprint(5000 + i)
				im["cocoid"] = 5000 + i
			}
			k := 5
			if uneven {
				k = 1 + s.IntN(7)
			}
			var sentences []any
			to := from[split]
			for j := range k {
				c := s.IntN(len(messy))
				text := fmt.Sprintf("%s %d %d", messy[c], i, j)
				want[to] = append(want[to], fmt.Sprintf("%s %d %d", strings.TrimSuffix(clean[c], " "), i, j))
				each[to] = append(each[to], id)
				one := map[string]any{"raw": text, "sentid": j}
				if tokens {
					one = map[string]any{"tokens": strings.Fields(text)}
				}
				sentences = append(sentences, one)
			}
			im["sentences"] = sentences
			images = append(images, im)
			ids[to] = append(ids[to], id)
			if counts[to] == nil {
				counts[to] = map[int]bool{}
			}
			counts[to][k] = true
			pictures = append(pictures, precise(id, 2, 8))
		}
		out := filepath.Join(dir, fmt.Sprint(seed))
		file := jsonFile(t, dir, map[string]any{"images": images, "dataset": "x"})
		try.Get(Options{Out: out}.from(".json", file))(t)
		var made []string
		for _, split := range []string{"train", "dev", "test"} {
			if len(ids[split]) == 0 {
				continue
			}
			made = append(made, split+"_caps.txt", split+"_ids.txt")
			if got := lines(t, filepath.Join(out, split+"_caps.txt")); !slices.Equal(got, want[split]) {
				t.Fatalf("seed %d: captions of %s: %q\nwant %q", seed, split, got, want[split])
			}
			list := ids[split]
			if len(counts[split]) > 1 {
				list = each[split]
			}
			if got := lines(t, filepath.Join(out, split+"_ids.txt")); !slices.Equal(got, list) {
				t.Fatalf("seed %d: ids of %s: %q, want %q", seed, split, got, list)
			}
			// A row for each image, also where its id stands on a line for each caption.
			o := to(out, Split{split, filepath.Join(out, split+"_ids.txt")})
			o.Distinct, o.SourceType = true, "f32"
			try.Get(o.from(".tsv", tsv(t, dir, "a.tsv", "\n", pictures...)))(t)
			if got := lines(t, filepath.Join(out, split+"_ids.txt")); !slices.Equal(got, list) {
				t.Fatalf("seed %d: features changed the ids of %s: %q, want %q", seed, split, got, list)
			}
			checkRows(t, filepath.Join(out, split+"_ims.npy"), slices.DeleteFunc(slices.Clone(pictures),
				func(p picture) bool { return !slices.Contains(ids[split], p.id) })...)
		}
		var got []string
		for _, e := range try.Get(os.ReadDir(out))(t) {
			if strings.HasSuffix(e.Name(), ".txt") {
				got = append(got, e.Name())
			}
		}
		if slices.Sort(made); !slices.Equal(got, made) {
			t.Errorf("seed %d: files %q, want %q", seed, got, made)
		}
	}
}

// What cannot be read as captions and splits is refused by name, with a way on that works.
func TestCaptionsRefused(t *testing.T) {
	dir := t.TempDir()
	image := func(change map[string]any) map[string]any {
		im := map[string]any{"filename": "a.jpg", "split": "train", "imgid": 7,
			"sentences": []any{map[string]any{"raw": "a dog"}, map[string]any{"raw": "a cat"}}}
		maps.Copy(im, change)
		return im
	}
	other := image(map[string]any{"filename": "b.jpg"})
	for _, c := range []struct {
		file   any
		change func(*Options)
		want   []string
	}{
		{[]any{1}, nil, []string{"byte", "expected a JSON object with the key images"}},
		{map[string]any{"info": 1}, nil, []string{"no images", "keys info"}},
		{map[string]any{"images": []any{map[string]any{"id": 1, "file_name": "a.jpg"}}, "annotations": []any{}}, nil,
			[]string{"COCO's annotations", "dataset_coco.json"}},
		{map[string]any{"images": []any{image(map[string]any{"split": nil})}}, nil,
			[]string{"image 0 (a)", "no split"}},
		{map[string]any{"images": []any{image(nil), image(map[string]any{"filename": "a.png"})}}, nil,
			[]string{"images 0 and 1 have the same id a", "--id-key", "imgid"}},
		{map[string]any{"images": []any{image(nil), other}}, func(o *Options) { o.IDKey = "cocoid" },
			[]string{"image 0 has no cocoid", "filename, imgid, sentences, split"}},
		{map[string]any{"images": []any{other, image(map[string]any{"sentences": []any{}})}}, nil,
			[]string{"image a: no sentences", "--skip-broken"}},
		{map[string]any{"images": []any{image(map[string]any{"sentences": []any{map[string]any{"raw": " \n"}}})}}, nil,
			[]string{"image a: sentence 0 is empty", "--skip-broken"}},
		{map[string]any{"images": []any{image(nil), other}}, func(o *Options) { o.Captions = 3 },
			[]string{"image a: 2 captions, fewer than 3 (--captions)"}},
		{map[string]any{"images": []any{image(nil), image(map[string]any{"filename": "b", "split": "val"}),
			image(map[string]any{"filename": "c", "split": "dev"})}}, nil,
			[]string{"the splits val and dev", "--split dev=val"}},
		{map[string]any{"images": []any{image(map[string]any{"split": "mini"})}}, nil,
			[]string{"it has mini (1)", "--split train=NAME"}},
		{map[string]any{"images": []any{image(nil)}}, func(o *Options) { o.Splits = []Split{{"x", "val"}} },
			[]string{`no images of the split "val" for x`, "it has train (1)"}},
	} {
		o := Options{Out: filepath.Join(dir, "out")}
		if c.change != nil {
			c.change(&o)
		}
		try.Refuses(o.from(".json", jsonFile(t, dir, c.file)))(t, append(c.want, "dataset_x.json")...)
		leftovers(t, o.Out)
	}
	for text, want := range map[string]string{`{"images": [{"filename": "a.jpg", "spl`: "truncated",
		"\x1f\x8b\x08": "a gzip archive"} {
		try.Refuses(Options{Out: dir}.from(".json", write(t, dir, "x.json", text)))(t, want)
	}

	// The ways on.
	file := map[string]any{"images": []any{image(nil), image(map[string]any{"filename": "a.png", "imgid": 8,
		"sentences": []any{}}), image(map[string]any{"filename": "c", "imgid": 9, "split": "mini"})}}
	o := Options{Out: filepath.Join(dir, "out"), IDKey: "imgid", SkipBroken: true, Captions: 1,
		Splits: []Split{{"test", "mini"}, {Name: "train"}}}
	rep := try.Get(o.from(".json", jsonFile(t, dir, file)))(t)
	if len(rep.Broken) != 1 || rep.Broken[0].ID != "8" {
		t.Errorf("report %+v", rep)
	}
	for name, want := range map[string]string{"test_ids.txt": "9", "test_caps.txt": "a dog", "train_ids.txt": "7"} {
		if got := lines(t, filepath.Join(o.Out, name)); !slices.Equal(got, []string{want}) {
			t.Errorf("%s holds %q, want %q", name, got, want)
		}
	}
	try.Refuses(o.from(".json", jsonFile(t, dir, file)))(t, "already exists", "--force")
}

// MSR-VTT keeps videos and sentences in two lists, in either order.
func TestCaptionsOfVideos(t *testing.T) {
	dir := t.TempDir()
	videos := `"videos": [{"video_id": "v0", "split": "train"}, {"video_id": "v1", "split": "validate"},
		{"video_id": "v2", "split": "test"}]`
	sentences := `"sentences": [{"video_id": "v1", "caption": "b"}, {"video_id": "v0", "caption": "a"},
		{"video_id": "v0", "caption": "c"}, {"video_id": "v2", "caption": "d", "sen_id": 3}]`
	for i, text := range []string{videos + ", " + sentences, sentences + ", " + videos} {
		o := Options{Out: filepath.Join(dir, fmt.Sprint(i))}
		try.Get(o.from(".json", write(t, dir, "x.json", "\ufeff{\"info\": {}, "+text+"}")))(t)
		for name, want := range map[string]string{"train_caps.txt": "a c", "train_ids.txt": "v0", "dev_caps.txt": "b",
			"test_ids.txt": "v2"} {
			if got := strings.Join(lines(t, filepath.Join(o.Out, name)), " "); got != want {
				t.Errorf("%s holds %q, want %q", name, got, want)
			}
		}
	}
}
