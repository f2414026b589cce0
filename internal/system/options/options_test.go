package options

import (
	"errors"
	"math"
	"testing"

	"vsetrain/lab/try"
)

type inner struct {
	Rate float64 `yaml:"rate" above:"0" max:"1"`
}

type outer struct {
	Name  string     `yaml:"name" enum:"a|b"`
	Count int        `yaml:"count" min:"1"`
	Size  uint64     `yaml:"size" max:"9"`
	Pair  [2]float64 `yaml:"pair" min:"0" below:"1"`
	Inner inner      `yaml:"inner"`
	Free  string     `yaml:"free"`
	note  int        // not an option
}

func TestCheck(t *testing.T) {
	good := outer{Name: "a", Count: 1, Size: 9, Inner: inner{Rate: 1}, note: -1}
	try.Do(t, Check(&good))
	for _, c := range []struct {
		change func(*outer)
		want   string
	}{
		{func(o *outer) { o.Name = "c" }, `name: expected one of a, b, found "c"`},
		{func(o *outer) { o.Count = 0 }, `count: expected a whole number >= 1, found 0`},
		{func(o *outer) { o.Size = 10 }, `size: expected a whole number <= 9, found 10`},
		{func(o *outer) { o.Pair[1] = 1 }, `pair[1]: expected a number in [0, 1), found 1`},
		{func(o *outer) { o.Inner.Rate = 0 }, `inner.rate: expected a number in (0, 1], found 0`},
		{func(o *outer) { o.Inner.Rate = math.NaN() }, `inner.rate: expected a number in (0, 1], found NaN`},
		{func(o *outer) { o.Pair[0] = math.Inf(1) }, `pair[0]: expected a number in [0, 1), found +Inf`},
	} {
		o := good
		c.change(&o)
		try.Fails(t, Check(o), c.want)
	}
}

func TestUnder(t *testing.T) {
	e := &Error{Key: "lr", Found: "0", Expected: "more", Remedy: "raise it"}
	if got := Under("optim", e).Error(); got != "optim.lr: expected more, found 0; raise it" {
		t.Error(got)
	}
	if e.Key != "lr" {
		t.Error("Under changed its argument")
	}
	if other := errors.New("x"); Under("optim", other) != other {
		t.Error("Under changed another error")
	}
}

func TestPerSplit(t *testing.T) {
	for text, want := range map[string][2]int{"auto": {}, "1": {1, 1}, "5": {5, 5}, "train=20,test=1": {20, 1},
		"test=2": {0, 2}, "dev=3": {}} {
		var p PerSplit
		if err := p.UnmarshalText([]byte(text)); err != nil || p.Of("train") != want[0] || p.Of("test") != want[1] ||
			p.String() != text {
			t.Errorf("%q: %v, %v", text, p, err)
		}
	}
	if p := PerSplit(""); p.Of("train") != 0 || p.String() != "auto" {
		t.Errorf("empty: %v", p)
	}
	for _, text := range []string{"0", "-1", "", "five", "1.5", "1,2", "train=0", "train=", "=3", "train=1,train=2",
		"train=1,5", "train=auto", "train=1,"} {
		try.Fails(t, new(PerSplit).UnmarshalText([]byte(text)), PerSplitExpected)
	}
}

// Edits count alike, and two neighbours that change places a little less.
func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3 * edit}, {"abc", "", 3 * edit}, {"abc", "abc", 0}, {"abc", "abd", edit},
		{"abc", "abcd", edit}, {"abcd", "abc", edit}, {"abc", "acb", swap}, {"ca", "abc", 3 * edit},
		{"kitten", "sitting", 3 * edit}, {"batch", "bacth", swap}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("from %q to %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

// What is near shares letters with the word: a name of one letter is not another.
func TestNearest(t *testing.T) {
	candidates := []string{"d", "lmh", "lseh", "vsepp/f30k-benchmark", "vseinf/f30k-benchmark-bigru"}
	for word, want := range map[string]string{"r": "", "D": "d", "lshe": "lseh", "vsepp/f30k-benchmrak": candidates[3],
		"vseinf/f30k-benchmark": candidates[4], "VSEinf": candidates[4], "vs": "", "": "", "xyz": ""} {
		if got := Nearest(word, candidates); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}
