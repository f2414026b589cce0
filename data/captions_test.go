package data

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"vsetrain/lab/try"
)

// otherFormats write caption c of image i as files of the field have it.
var otherFormats = map[string]func(i, c int, caption string) string{
	"Flickr8k.token.txt":  func(i, c int, s string) string { return fmt.Sprintf("1%08d_a1b2.jpg#%d\t%s", i, c, s) },
	"results.csv":         func(i, c int, s string) string { return fmt.Sprintf("%d.jpg| %d| %s", 1000+i, c, s) },
	"captions.txt, comma": func(i, c int, s string) string { return fmt.Sprintf("%d.jpg,%s", 1000+i, s) },
	"name and blank":      func(i, c int, s string) string { return fmt.Sprintf("COCO_val2014_%012d.jpg %s", i, s) },
	"folder":              func(i, c int, s string) string { return fmt.Sprintf("images/%d.PNG %s", i, s) },
	"Multi30k ids":        func(i, c int, s string) string { return fmt.Sprintf("%d#enc#%d %s", i, c, s) },
	"numbers of captions": func(i, c int, s string) string { return fmt.Sprintf("%d\t%s", 5*i+c, s) },
	"CSV with an index":   func(i, c int, s string) string { return fmt.Sprintf("%d,%q", 5*i+c, s) },
	"CSV of captions":     func(_, _ int, s string) string { return fmt.Sprintf("%q", s) },
	"repr of bytes":       func(_, _ int, s string) string { return "b'" + s + "'" },
	"JSON lines":          func(i, _ int, s string) string { return fmt.Sprintf(`{"id": %d, "caption": %q}`, i, s) },
	"JSON, indented":      func(i, c int, s string) string { return fmt.Sprintf(`  "%d-%d": %q,`, i, c, s) },
	"JSON list":           func(_, _ int, s string) string { return fmt.Sprintf("%q,", strings.Fields(s)) },
	"word ids":            func(_, _ int, s string) string { return strings.Trim(fmt.Sprint([]byte(s)), "[]") },
	"word ids, commas": func(_, _ int, s string) string {
		return strings.Trim(strings.ReplaceAll(fmt.Sprint([]byte(s)), " ", ","), "[]")
	},
}

// drawCaption has what captions have: numbers, quotes, commas, file names now and then.
func drawCaption(rng *rand.Rand) string {
	words := strings.Fields(`a man , two dogs in "stop" 3 red 'n' b.jpg | the image of #1 it's #5 text photo: café ` +
		`一只狗 { } [ ] -- 10,000 ;`)
	var s []string
	for range 3 + rng.IntN(12) {
		s = append(s, words[rng.IntN(len(words))])
	}
	return "A " + strings.Join(s, " ") + " ."
}

// Captions of any kind are read, and lines of another format are refused with file, line and a part of the line, also
// where some lines are captions.
func TestForeignCaptions(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 2))
		captions := make([]string, 2+rng.IntN(400))
		for i := range captions {
			captions[i] = drawCaption(rng)
		}
		if err := refuseForeign(splitLines("x_caps.txt", strings.Join(captions, "\n"))); err != nil {
			t.Errorf("seed %d: captions are refused: %v", seed, err)
		}
		head := []string{"image,caption", "image_name| comment_number| comment", "id\tsplit\traw",
			`"filename","sentence"`, ",Image_ID;Caption"}[seed%5]
		table := splitLines("x_caps.txt", head+"\n"+strings.Join(captions, "\n"))
		if refuseForeign(table) == nil {
			t.Errorf("the head %q is read as a caption", head)
		}
		for name, write := range otherFormats {
			lines := make([]string, len(captions))
			for i, c := range captions {
				if lines[i] = c; len(captions) < 20 || rng.IntN(10) > 0 {
					lines[i] = write(i/5, i%5, c)
				}
			}
			err := refuseForeign(splitLines("x_caps.txt", strings.Join(lines, "\n")))
			if err == nil {
				t.Fatalf("seed %d: %s is read as captions: %q", seed, name, lines[0])
			}
			try.Fails(t, err, "x_caps.txt:", "expected a caption alone on each line, found ")
		}
	}
}
