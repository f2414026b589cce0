package data

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vsetrain/lab/try"
)

func readTrees(t testing.TB, name, content string) (*Dependencies, error) {
	t.Helper()
	return readDependencies(filepath.Join(try.Files(t, map[string]string{name: content}), name))
}

const conlluText = "# newdoc\n# text = The dog's barking\n1\tThe\tthe\tDET\t_\t_\t2\tdet\t_\t_\n" +
	"2-3\tdog's\t_\t_\t_\t_\t_\t_\t_\t_\n" +
	"2\tdog\tdog\tNOUN\t_\t_\t4\tnsubj\t_\t_\n3\t's\tbe\tAUX\t_\t_\t4\taux\t_\t_\n" +
	"4\tbarking\tbark\tVERB\t_\t_\t0\troot\t_\t_\n4.1\tnothing\t_\t_\t_\t_\t_\t_\t_\t_\n\n" +
	"1\tLoud\tloud\tADJ\t_\t_\t0\troot\t_\t_\n2\t.\t.\tPUNCT\t_\t_\t1\tpunct\t_\t_\n\n# " +
	"newdoc\n1\tRain\train\tNOUN\t_\t_\t0\troot\t_\t_\n"

// Both formats of the same trees give the same edges.
func TestDependencyFormats(t *testing.T) {
	a := try.Get(readTrees(t, "x_caps.json", "[\n[[0,4],[2,1],[4,2],[4,3],[5,6]],\n\n[[0,1]], []]\n"))(t)
	b := try.Get(readTrees(t, "x_caps.conllu", conlluText))(t)
	want := "[2 1 4 2 4 3 5 6]"
	if fmt.Sprint(a.Of(0)) != want || fmt.Sprint(b.Of(0)) != want || len(a.Of(1)) != 0 || len(b.Of(1)) != 0 {
		t.Errorf("edges %v and %v, want %s", a.Of(0), b.Of(0), want)
	}
	if a.Len() != 3 || b.Len() != 2 || a.Line(0) != 2 || a.Line(1) != 4 || b.Line(0) != 3 || b.Line(1) != 14 {
		t.Errorf("%d and %d captions at lines %v and %v", a.Len(), b.Len(), a.lines, b.lines)
	}
	plain, err := readTrees(t, "x.conllu", strings.ReplaceAll(conlluText, "# newdoc\n", ""))
	if err != nil || plain.Len() != 3 || fmt.Sprint(plain.Of(1)) != "[1 2]" {
		t.Errorf("a caption for each sentence: %+v, %v", plain, err)
	}
}

func TestBadDependencies(t *testing.T) {
	word := func(id, head string) string { return id + "\tx\tx\tX\t_\t_\t" + head + "\tdep\t_\t_\n" }
	for _, c := range []struct{ name, content, want string }{
		{"a.json", "{}", "a.json:1: expected a list"},
		{"a.json", "[\n[[0,1]],\n[[0,1],[1]]]", "a.json:3: dependencies of caption 1: [1] has 1 numbers"},
		{"a.json", "[[[0,1],[1,\"x\"]]]", "dependencies of caption 0"},
		{"a.json", "[[[0,1],[1,2.5]]]", "dependencies of caption 0"},
		{"a.json", "[\n\n[[0,1],[-1,2]]]", "a.json:3: pair [-1,2]"},
		{"a.json", "[[[2,1],[0,2]]]", "expected the pair of the root"},
		{"a.json", "[[[0,1],[3,3]]]", "token 3 depends on itself"},
		{"a.json", "[[[0,1]]", "does not end"},
		{"a.json", "[] []", "more than one JSON value"},
		{"a.conllu", word("1", "0") + word("3", "1"), "a.conllu:2: word number \"3\"; expected 2"},
		{"a.conllu", "\n" + word("1", "x"), "a.conllu:2: head \"x\""},
		{"a.conllu", word("1", "0") + word("2", "3"), "a.conllu:2: head 3 in a sentence of 2 words"},
		{"a.conllu", word("1", "1"), "a.conllu:1: word 1 is its own head"},
		{"a.conllu", word("1", "2") + word("2", "1"), "a sentence without a root"},
		{"a.conllu", "1 x x X _ _ 0 root _ _\n", "columns separated by tabs"},
		{"a.conllu", word("1", "0") + "\n# newdoc\n", "after sentences without one"},
	} {
		try.Refuses(readTrees(t, c.name, c.content))(t, c.want)
	}
}

// A batch has the edges of its captions, without those that reach after them; what is missing is named.
func TestOddDependenciesAreCounted(t *testing.T) {
	w := newWorld(t, 6, 5, false, "train") // captions 7i have one word beside the stop
	for pair, want := range map[string]string{"[1,2]": "", "[1,3]": "train_caps.json:2: caption 0 has a dependency " +
		"on token 3, but only 2 words; 5 of 30 captions have such pairs, which training leaves out"} {
		w.write(t, "train_caps.json", trees(30, "[[0,1],"+pair+"]"))
		err := OddDependencies(w.open(t, "train", OpenOptions{Dependencies: "need"}), vocab(t))
		if want != "" || err != nil {
			try.Fails(t, err, want)
		}
	}
}

func TestBatchesHaveTheEdgesOfTheirCaptions(t *testing.T) {
	w := newWorld(t, 2, 5, false, "train")
	try.Refuses(Open(w.dir, "train", OpenOptions{Dependencies: "need"}))(t,
		"train_caps.conllu in the CoNLL-U format; model.gsmn.mode: dense")
	if s := w.open(t, "train", OpenOptions{Dependencies: "check"}); s.dependencies != nil {
		t.Error("dependencies out of nothing")
	}
	w.write(t, "train_caps.json", trees(10, "[[0,1],[1,2],[2,3],[5,1]]"))
	s := w.open(t, "train", OpenOptions{Dependencies: "need"})
	for b := range batchesOf(NewLoader(s, vocab(t), LoaderOptions{Batch: 10, Epochs: 1}))(t) {
		for i, n := range b.Lengths { // positions 0 to n-1
			var want []int32
			for _, e := range [][2]int32{{1, 2}, {2, 3}, {5, 1}} {
				if e[0] < n && e[1] < n {
					want = append(want, e[0], e[1])
				}
			}
			if got := b.Edges[2*b.EdgeStart[i] : 2*b.EdgeStart[i+1]]; !slices.Equal(got, want) {
				t.Errorf("a caption of %d words has edges %v, want %v", n, got, want)
			}
		}
	}
}

func FuzzDependencies(f *testing.F) {
	f.Add([]byte("[[[0,2],[2,1]],[]]"), false)
	f.Add([]byte(conlluText), true)
	f.Fuzz(func(t *testing.T, in []byte, conllu bool) {
		d := &Dependencies{path: "x", first: []int32{0}}
		var err error
		if conllu {
			err = d.readCoNLLU(bytes.NewReader(in))
		} else {
			err = d.readJSON(bytes.NewReader(in))
		}
		if err != nil {
			return
		}
		for c := range d.Len() {
			for i, e := range d.Of(c) {
				if e < 0 || i%2 == 1 && e == d.Of(c)[i-1] {
					t.Fatalf("edge %v", d.Of(c))
				}
			}
			if d.Line(c) < 1 {
				t.Fatal("line")
			}
		}
	})
}
