package data

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"vsetrain/data/text"
	"vsetrain/lab/golden"
	"vsetrain/lab/try"
)

func TestGoldenData(t *testing.T) {
	var file struct {
		Cases []struct {
			Name      string
			Captions  [][]int32
			SampleIDs []int32 `json:"sample_ids"`
			Cases     []indexCase
			Expected  json.RawMessage
		}
	}
	golden.Load(t, "data.json", &file)
	ran := map[string]int{}
	for _, c := range file.Cases {
		switch {
		case strings.HasPrefix(c.Name, "collate"):
			ran["collate"]++
			checkCollate(t, c.Name, c.Captions, c.SampleIDs, c.Expected)
		case strings.HasPrefix(c.Name, "image_index"):
			for _, x := range c.Cases {
				ran["index"]++
				checkIndex(t, x)
			}
		}
	}
	if ran["collate"] == 0 || ran["index"] == 0 {
		t.Errorf("cases that ran: %v", ran)
	}
}

type indexCase struct {
	NumImages   int `json:"num_images"`
	NumCaptions int `json:"num_captions"`
	Caption     int `json:"caption"`
	ImDiv       int `json:"im_div"`
	Image       int `json:"image"`
}

// checkIndex tries the rule on features that differ and, for a row per caption, on features in groups of five.
func checkIndex(t *testing.T, c indexCase) {
	lines := splitLines("case", strings.Repeat("x\n", c.NumCaptions))
	for _, group := range []int{1, 5} {
		if group > 1 && c.NumImages != c.NumCaptions {
			continue
		}
		images := matrix{c.NumImages, 1, func(row, _ int) float32 { return float32(row / group) }}
		l, err := solveLayout(lines, images, nil, 0, "case")
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		s := &Split{layout: l, n: l.captions}
		if s.ImageRow(c.Caption) != c.Image || (c.NumCaptions/s.rows) != c.ImDiv {
			t.Errorf("%+v: image row %d", c, s.ImageRow(c.Caption))
		}
	}
}

// checkCollate assembles the case's captions through a data set whose vocabulary has the word wN at id N.
func checkCollate(t *testing.T, name string, captions [][]int32, ids []int32, expected json.RawMessage) {
	var want struct {
		Order, IDs, Lengths []int32
		Targets             [][]int32
	}
	if err := json.Unmarshal(expected, &want); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	top := int32(text.Unk)
	for _, c := range captions {
		if n := len(c); n < 2 || c[0] != text.Start || c[n-1] != text.End {
			t.Fatalf("%s: caption %v is not framed by <start> and <end>", name, c)
		}
		top = max(top, slices.Max(c))
	}
	word := func(id int32) string { return fmt.Sprintf("w%d", id) }
	var all []string
	for id := text.Unk + 1; id <= top; id++ {
		all = append(all, word(id))
	}
	v := try.Get(text.BuildVocabulary(slices.Values(all), 1))(t)
	lines := make([]string, slices.Max(ids)+1)
	for i := range lines {
		lines[i] = "x"
	}
	for i, c := range captions {
		var words []string
		for _, id := range c[1 : len(c)-1] {
			words = append(words, word(id))
		}
		lines[ids[i]] = strings.Join(words, " ")
	}
	file := splitLines(name, strings.Join(lines, "\n"))
	n := len(lines)
	s := &Split{captions: file, layout: layout{captions: n, rows: n, groups: EqualGroups(n, 1)}, n: n, regions: 1,
		dim: 1}
	w := worker{encoder: v.NewEncoder()}
	var b Batch
	try.Do(t, w.assemble(&Loader{split: s, vocab: v}, &b, ids))
	if !slices.Equal(b.Indices, want.IDs) || !slices.Equal(b.Lengths, want.Lengths) {
		t.Errorf("%s: ids %v lengths %v, want %v %v", name, b.Indices, b.Lengths, want.IDs, want.Lengths)
	}
	for i, row := range want.Targets {
		if ids[want.Order[i]] != b.Indices[i] {
			t.Errorf("%s: position %d holds sample %d, want number %d", name, i, b.Indices[i], want.Order[i])
		}
		if got := b.Words[i]; !slices.Equal(got, row[:b.Lengths[i]]) {
			t.Errorf("%s: words %v, want %v", name, got, row)
		}
	}
}
