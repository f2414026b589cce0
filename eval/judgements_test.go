package eval

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"vsetrain/data"
	"vsetrain/internal/files/npy"
	"vsetrain/lab/golden"
	"vsetrain/lab/try"
)

// openSplit makes a split of three images of two captions.
func openSplit(t testing.TB, ids string) *data.Split {
	t.Helper()
	dir := try.Files(t, map[string]string{"test_caps.txt": "one\ntwo\nthree\nfour\nfive\nsix\n"})
	if ids != "" {
		try.Do(t, os.WriteFile(filepath.Join(dir, "test_ids.txt"), []byte(ids), 0o666))
	}
	try.Do(t, npy.WriteFloat32(filepath.Join(dir, "test_ims.npy"), []int{3, 1, 2}, []float32{1, 2, 3, 4, 5, 6}))
	s := try.Get(data.Open(dir, "test", data.OpenOptions{CaptionsPerImage: 2}))(t)
	t.Cleanup(func() { s.Close() })
	return s
}

const pair1 = "x_image_to_caption.json"
const pair2 = "x_caption_to_image.json"

// cocoFolder makes a folder with the caption numbers of COCO, and files of the given texts.
func cocoFolder(t *testing.T, files map[string]string, numbers ...int64) string {
	t.Helper()
	dir := try.Files(t, files)
	w := try.Get(npy.Create(filepath.Join(dir, cocoCaptionIDs), npy.I64, []int{len(numbers)}))(t)
	try.Do(t, errors.Join(w.WriteInts(numbers), w.Close()))
	return dir
}

// worldIDs are the ids of three images of two captions.
func worldIDs(t testing.TB) *IDs {
	return testIDs(t, []string{"1", "2", "3"}, []string{"10", "11", "20", "21", "30", "31"})
}

// Ids come from the ids file or from COCO. A string and a number are the same id, and so are a COCO file name and its
// number.
func TestIDs(t *testing.T) {
	numbers := []int64{770337, 771687, 38, 39, 40, 41}
	for _, c := range []struct {
		name, ids, folder string
		images, captions  string // the lists of the first image and of its second caption
	}{
		{"flickr", "1_a.jpg\n2_b.jpg\n3_c.jpg\n", "", `{"1_a.jpg": ["1_a.jpg#0", "3_c.jpg#1"]}`,
			`{"1_a.jpg#1": ["2_b.jpg"]}`},
		{"numbers of rows", "", "", `{"0": ["0#0", "2#1"]}`, `{"0#1": [1]}`},
		{"coco file names", "COCO_val2014_000000391895.jpg\n000000000042.jpg\n7\n", "",
			`{"391895": ["COCO_val2014_000000391895.jpg#0", "7#1"]}`, `{"391895#1": [42]}`},
		{"coco captions", "391895\n42\n7\n", cocoFolder(t, nil, numbers...), `{"391895": [770337, "41"]}`,
			`{"771687": [42]}`},
		{"coco captions and images", "a\nb\nc\n", cocoFolder(t, map[string]string{
			"original_caption_to_image.json": `{"770337":[1],"771687":[1],"38":[2],"39":[2],"40":["3"],"41":[3]}`},
			numbers...),
			`{"1": [770337, 41]}`, `{"771687": [2]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := try.Files(t, map[string]string{pair1: c.images, pair2: c.captions})
			ids := try.Get(NewIDs(openSplit(t, c.ids), c.folder))(t)
			j := try.Get(ReadJudgements([]string{filepath.Join(dir, pair1), filepath.Join(dir, pair2)}, ids))(t)
			if !slices.Equal(j.I2T.Queries, []int32{0}) || !slices.Equal(j.I2T.Positives, []int32{0, 5}) ||
				!slices.Equal(j.T2I.Queries, []int32{1}) || !slices.Equal(j.T2I.Positives, []int32{1}) ||
				j.Name != "x" {
				t.Errorf("%+v", j)
			}
		})
	}
}

func TestBadIDs(t *testing.T) {
	with := func(original string) string {
		return cocoFolder(t, map[string]string{"original_caption_to_image.json": original}, 1, 2, 3, 4, 5, 6)
	}
	for _, c := range []struct {
		name, folder, ids string
		want              []string
	}{
		{"another split", cocoFolder(t, nil, 1, 2, 3), "", []string{"coco_test_ids.npy", "3 captions", "has 6",
			"another split", "testall"}},
		{"one caption twice", cocoFolder(t, nil, 1, 2, 3, 4, 5, 1), "",
			[]string{"captions 0 and 5 have the same id 1"}},
		{"one image twice", "", "a\nb\na\n", []string{"images 0 and 2 have the same id a"}},
		{"a caption without image", with(`{"1":[1]}`), "",
			[]string{"original_caption_to_image.json", "one image of caption 2, found 0"}},
		{"captions in another order", with(`{"1":[1],"2":[2],"3":[2],"4":[2],"5":[3],"6":[3]}`), "",
			[]string{"captions 1 and 2 of image row 0 have images 1 and 2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := NewIDs(openSplit(t, c.ids), c.folder)
			wantWords(t, err, c.want...)
		})
	}
}

func wantWords(t *testing.T, err error, words ...string) {
	t.Helper()
	try.Fails(t, err, words...)
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("more than one line: %v", err)
	}
}

func TestBadJudgements(t *testing.T) {
	ids := worldIDs(t)
	const good = `{"10": [1, 2]}`
	for _, c := range []struct {
		name, images string
		want         []string
	}{
		{"unknown image", "{\"1\": [10],\n \"9\": [11]}",
			[]string{"x_image_to_caption.json:2", "image 9 is not in split test of world", "lacks 1 of the 2 images",
				`"1"`, `"10"`, "another split"}},
		{"unknown caption", `{"1": [10, 77]}`, []string{"x_image_to_caption.json:1",
			"caption 77 is not in split test of world", "1 of the 2 positives"}},
		{"another split", `{"81": [810], "82": [820]}`, []string{"caption 810", "2 of the 2 images",
			"2 of the 2 positives"}},
		{"empty list", "{\n\"1\": [10],\n\"2\": []}",
			[]string{"x_image_to_caption.json:3", "image 2 has an empty list of positives"}},
		{"a positive twice", `{"1": [10, 11, 10]}`, []string{"image 1 lists caption 10 twice"}},
		{"a positive twice as text and number", `{"1": [10, "10"]}`, []string{"image 1 lists caption 10 twice"}},
		{"a query twice", `{"1": [10], "1": [11]}`, []string{`"1" stands twice`}},
		{"no judgements", `{}`, []string{"no judgements", "images is empty"}},
		{"no list", `{"1": 10}`, []string{"image 1: expected a list of ids, found 10"}},
		{"null", `{"1": null}`, []string{"image 1 has an empty list"}},
		{"a fraction", `{"1": [10.5]}`, []string{"image 1: expected an id", "10.5"}},
		{"a list of lists", `{"1": [[10]]}`, []string{"expected an id", "[10]"}},
		{"no object", `[1, 2]`, []string{"x_image_to_caption.json:1", "expected an object"}},
		{"truncated", `{"1": [10], "2"`, []string{"truncated"}},
		{"empty file", ``, []string{"truncated"}},
		{"two objects", `{"1": [10]} {"2": [20]}`, []string{"one JSON object and nothing after it"}},
		{"no JSON", "{\n\n1: [10]}", []string{"x_image_to_caption.json:3"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := try.Files(t, map[string]string{pair1: c.images, pair2: good})
			_, err := ReadJudgements([]string{filepath.Join(dir, pair1), filepath.Join(dir, pair2)}, ids)
			wantWords(t, err, c.want...)
			dir = try.Files(t, map[string]string{"both.json": `{"caption_to_image": ` + good +
				`, "image_to_caption": ` + c.images + `}`})
			if _, err := ReadJudgements([]string{filepath.Join(dir, "both.json")}, ids); err == nil {
				t.Error("read without an error in one file of both directions")
			}
		})
	}
	read := func(text string, ids *IDs) (*Judgements, error) {
		return ReadJudgements([]string{filepath.Join(try.Files(t, map[string]string{"j.json": text}), "j.json")}, ids)
	}
	try.Refuses(read(`{"image_to_caption": {"1": [10]}}`, ids))(t, "j.json", `no "caption_to_image"`)
	try.Refuses(read(`{"i2t": {}}`, ids))(t, "j.json:1", `key "i2t"`, "image_to_caption")
	try.Refuses(read(`{"image_to_caption": {"1": [10]}, "image_to_caption": {"2": [10]}}`, ids))(t, "j.json:1",
		"stands twice")

	// One positive in a thousand may be absent: it counts, and is never found.
	var captions []string
	for c := range 1000 {
		captions = append(captions, strconv.Itoa(c))
	}
	large := testIDs(t, []string{"1"}, captions)
	many := `{"caption_to_image": {"1": [1]}, "image_to_caption": {"1": [` + strings.Join(captions, ",")
	if j, err := read(many+", 5000]}}", large); err != nil || len(j.I2T.Positives) != 1000 || j.I2T.Absent[0] != 1 {
		t.Errorf("an absent positive: %+v, %v", j, err)
	}
	try.Refuses(read(many+", 5000, 5001]}}", large))(t, "caption 5000 is not in split", "2 of the 1002 positives")
}

func TestFindJudgements(t *testing.T) {
	dir := try.Files(t, map[string]string{"b_image_to_caption.json": "", "b_caption_to_image.json": "",
		"a_image_to_caption.json": "", "a_caption_to_image.json": "", "README": ""})
	sets, err := FindJudgements(dir)
	if err != nil || len(sets) != 2 || filepath.Base(sets[0][1]) != "a_caption_to_image.json" ||
		filepath.Base(sets[1][0]) != "b_image_to_caption.json" {
		t.Errorf("%v, %v", sets, err)
	}
	try.Refuses(FindJudgements(t.TempDir()))(t, "no judgements in this folder", "NAME_image_to_caption.json")
	try.Refuses(FindJudgements(filepath.Join(dir, "nowhere")))(t, "nowhere")
	half := try.Files(t, map[string]string{"a_caption_to_image.json": ""})
	try.Refuses(FindJudgements(filepath.Join(half, "a_caption_to_image.json")))(t, "the other direction is missing",
		"a_image_to_caption.json")
}

const expert = "1\t10\t4\t4\t3\n1\t20\t1\t1\t2\n2\t20\t2\t3\t3\n2\t31\t1\t1\t1\n"
const crowd = "1\t10\t1\t3\t0\n1\t20\t0\t0\t3\n2\t20\t0.666666666666667\t2\t1\n2\t31\t0.333333333333333\t1\t2\n"

// By hand, of the crowd: scores 9 1 5 7 and shares 1 0 2/3 1/3 agree in five pairs of pairs and disagree in one: tau-b
// is 4/6, and tau-c 2 4 4 / (16 3) the same. Ranks 4 1 2 3 and 4 1 3 2 correlate by 1 - 6 2 / (4 15) = 0.8. Without the
// own captions (1, 10), (2, 20) two pairs are left, which agree. The numbers of the experts, with each rating by
// itself, are scipy 1.17's.
func TestAgreementWithPeople(t *testing.T) {
	ids := worldIDs(t)
	s := &Dense[float64]{3, 6, make([]float64, 18)}
	for at, v := range map[int]float64{0: 9, 2: 1, 6 + 2: 5, 6 + 5: 7} {
		s.Data[at] = v
	}
	dir := try.Files(t, map[string]string{"Expert.txt": expert, "Crowd.txt": crowd})
	for name, want := range map[string]HumanAgreement{
		"Crowd": {"Crowd", Agreement{4, 4, 4.0 / 6, 4.0 / 6, 0.8}, Agreement{2, 2, 1, 1, 1}},
		"Expert": {"Expert", Agreement{4, 12, 0.40016336533252056, 0.3888888888888889, 0.4868791246821762},
			Agreement{2, 6, -0.4472135954999579, -1.0 / 3, -0.447213595499958}},
	} {
		path := filepath.Join(dir, name+".txt")
		if !IsRatings(path) {
			t.Errorf("%s is not taken for ratings", path)
		}
		r := try.Get(ReadRatings(path, ids))(t)
		got := try.Get(Agree(s, each(s, 2), r))(t)
		for _, p := range [][2]Agreement{{got.All, want.All}, {got.Others, want.Others}} {
			golden.Close(t, name, p[0].list(), p[1].list(), golden.FP64)
		}
	}
}

func (a Agreement) list() []float64 {
	return []float64{float64(a.Pairs), float64(a.Ratings), a.TauB, a.TauC, a.Spearman}
}

func TestBadRatings(t *testing.T) {
	ids := worldIDs(t)
	for _, c := range []struct{ name, text, want string }{
		{"unknown image", expert + "9\t10\t1\t1\t1\n", "r.txt:5: image 9 is not in split test of world"},
		{"unknown caption", "1\t99\t1\t1\t1\n", "r.txt:1: caption 99 is not in split test of world"},
		{"fields", "1\t10\t1\t1\n", "r.txt:1: 4 fields"},
		{"no number", "1\t10\tx\t1\t1\n", `r.txt:1: "x" is not a rating`},
		{"a rating of 5", "1\t10\t5\t1\t1\n", "expected three ratings from 1 to 4, or a share"},
		{"a share of other counts", "1\t10\t0.5\t3\t0\n", "expected three ratings from 1 to 4, or a share"},
		{"nobody", "1\t10\t0\t0\t0\n", "expected three ratings"},
		{"both kinds", expert + "1\t11\t1\t3\t0\n", "r.txt:5: numbers 1 3 0 are of another kind than the numbers of " +
			"line 1"},
		{"a pair twice", expert + "2\t20\t1\t1\t1\n", "image 2 and caption 20 are in line 3 too"},
		{"empty", "", "the file is empty"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ReadRatings(filepath.Join(try.Files(t, map[string]string{"r.txt": c.text}), "r.txt"), ids)
			wantWords(t, err, c.want)
		})
	}
	dir := try.Files(t, map[string]string{"r.txt": "1\t10\t2\t2\t2\n"})
	r := try.Get(ReadRatings(filepath.Join(dir, "r.txt"), ids))(t)
	s := &Dense[float64]{3, 6, make([]float64, 18)}
	try.Refuses(Agree(s, each(s, 2), r))(t, "ratings r", "at least two different values")
}

// No file makes a reader panic, and what is read fits the split.
func FuzzJudgements(f *testing.F) {
	for _, s := range []string{`{"1": [10, "20"], "2": [31]}`, `{"1": []}`, `{"1": null}`, `[`, `{"1": {"a": [1]}}`,
		expert, crowd, "1\t10\t1e9\t1\t1\n"} {
		f.Add([]byte(s))
	}
	ids := worldIDs(f)
	scores := &Dense[float64]{3, 6, make([]float64, 18)}
	f.Fuzz(func(t *testing.T, b []byte) {
		both := bytes.Join([][]byte{[]byte(`{"caption_to_image": {"10": [1]}, "image_to_caption": `), b, []byte("}")},
			nil)
		dir := try.Files(t, map[string]string{"j.json": string(both), "r.txt": string(b)})
		if j, err := ReadJudgements([]string{filepath.Join(dir, "j.json")}, ids); err == nil {
			if _, _, err := Judge(nil, scores, j); err != nil {
				t.Errorf("judgements were read, and then: %v", err)
			}
		}
		if r, err := ReadRatings(filepath.Join(dir, "r.txt"), ids); err == nil {
			for p := range r.Values {
				if int(r.Images[p]) >= 3 || int(r.Captions[p]) >= 6 {
					t.Errorf("pair %d of image %d, caption %d", p, r.Images[p], r.Captions[p])
				}
			}
		}
	})
}
