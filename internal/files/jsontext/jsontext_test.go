package jsontext

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"vsetrain/lab/try"
)

type body struct {
	Query  *string   `json:"query,omitempty"`
	K      *int      `json:"k,omitempty"`
	IDs    []string  `json:"ids,omitempty"`
	Pairs  [][]int32 `json:"pairs,omitempty"`
	Vector []float32 `json:"vector,omitempty"`
	Flag   bool      `json:"flag,omitempty"`
	Bytes  []byte    `json:"bytes,omitempty"`
	Inner  struct {
		N uint64 `json:"n"`
	} `json:"inner,omitempty"`
	Map map[string]int `json:"map,omitempty"`
}

// Text is read as it is written, or refused with the reason.
func TestUnmarshal(t *testing.T) {
	for text, want := range map[string]string{
		`{"k": 1.0}`: "k 1", `{"k": 1e0}`: "k 1", `{"k": 10.0e-1}`: "k 1", `{"k": -2E1}`: "k -20",
		`{"k": 120e-1}`:    "k 12",
		"\ufeff{\"k\": 3}": "k 3", `{"k": null}`: "k nil", `{}`: "k nil", ` { "k" : 7 } `: "k 7",
		`{"\u006b": 7}`:                 "k 7",
		`{"k": 1.5}`:                    "k: expected a whole number, found 1.5",
		`{"k": 1e400}`:                  "k: expected a whole number, found 1e400",
		`{"k": 1e1000000000}`:           "k: expected a whole number, found 1e1000000000",
		`{"k": 1.00000000000000000001}`: "k: expected a whole number, found 1.0000",
		`{"k": "1"}`:                    `k: expected a whole number, found "1"`,
		`{"k": true}`:                   "k: expected a whole number, found true",
		`{"k": 010}`:                    "line 1: 010 has a leading zero, which JSON does not allow; write 10",
		"{\"k\":\n-007}":                "line 2: -007 has a leading zero, which JSON does not allow; write -7",
		`{"k": 99999999999999999999}`:   "a number 99999999999999999999 does not fit",
		`{"inner": {"n": 2.0}}`:         "k nil", `{"inner": {"n": -1.0}}`: "does not fit",
		`{"inner": {"N": 2}}`: `inner: unknown key "N"`,
		`{"K": 1}`:            `unknown key "K"`, `{"k": 1, "K": 2}`: `unknown key "K"`,
		`{"unknown": 1}`:                                       `unknown key "unknown"`,
		`{"k": 1, "k": 1}`:                                     `line 1: the key "k" stands twice in an object`,
		`{"k": 1, "\u006b": 2}`:                                `the key "k" stands twice`,
		`{"map": {"a": 1, "b": 2, "a": 3}}`:                    `the key "a" stands twice`,
		`{"map": {"a": 1, "A": 2.0}, "pairs": [[1.0, 2], []]}`: "k nil",
		`{"pairs": [[1.5]]}`:                                   "pairs[0][0]: expected a whole number, found 1.5",
		`{"pairs": 3}`:                                         "pairs: expected a list, found 3",
		`{"ids": [1]}`:                                         "ids[0]: expected a string, found 1",
		`{"ids": {"a": 1}}`:                                    "ids: expected a list, found an object",
		`{"flag": 1}`:                                          "flag: expected true or false, found 1",
		`{"vector": [1, 2.5, 1e3]}`:                            "k nil",
		`{"vector": ["1"]}`:                                    `vector[0]: expected a number, found "1"`,
		`{"bytes": "AAAA"}`:                                    "k nil",
		`{"bytes": [1]}`:                                       "bytes: expected bytes in base64, found a list",
		`{"ids": ["\ud800"]}`:                                  "line 1: half of a surrogate pair",
		`{"ids": ["\udc00"]}`:                                  "half of a surrogate pair",
		`{"ids": ["\ud83d\ude00"]}`:                            "k nil",
		`{"ids": ["\ud83d\ud83d"]}`:                            "half of a surrogate pair",
		`{"ids": ["\ud83dx"]}`:                                 "half of a surrogate pair",
		`{"ids": ["\ud83d\n"]}`:                                "half of a surrogate pair",
		`{"ids": ["\ud800", "\udc00"]}`:                        "half of a surrogate pair",
		`{"ids": ["\\ud800"]}`:                                 "k nil",
		`{"ids": ["\ud83d\u0041"]}`:                            "half of a surrogate pair",
		`{"\ud800": 1}`:                                        "half of a surrogate pair",
		"{\"query\": \"caf\xe9\"}":                             `line 1: expected text in UTF-8, found "\xe9"`,
		"{\"query\":\n\"\xed\xa0\x80\"}":                       "line 2: expected text in UTF-8",
		`[]`:                                                   "expected an object, found a list",
		`{"k": 1} {}`:                                          "there is more after its end",
		`{"k": 1`:                                              "the JSON ends within its value",
		``:                                                     "the JSON ends within its value",
		`{'k': 1}`:                                             "invalid character",
	} {
		var b body
		err := UnmarshalKnown([]byte(text), &b)
		got := "k nil"
		if err != nil {
			got = err.Error()
		} else if b.K != nil {
			got = fmt.Sprint("k ", *b.K)
		}
		if err == nil && got != want || err != nil && !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	var b body // keys that are passed over are so in any case
	try.Do(t, Unmarshal([]byte(`{"K": 5, "other": {"k": 6}, "k": 4.0, "Flag": true, "x": [{}, "]"]}`), &b))
	if b.K == nil || *b.K != 4 || b.Flag {
		t.Errorf("%+v", b)
	}
}

// drawn is a random value and its text; the text is made by hand, and bad is why it must be refused.
func drawn(rng *rand.Rand, depth int) (text string, value any, bad bool) {
	switch n := rng.IntN(8); {
	case n < 2 && depth > 0:
		m := map[string]any{}
		var parts []string
		for range rng.IntN(24) {
			key := string(rune('a' + rng.IntN(26)))
			if rng.IntN(3) > 0 {
				key += fmt.Sprint(rng.IntN(100))
			}
			v, x, worse := drawn(rng, depth-1)
			_, twice := m[key]
			written := `"` + key + `"`
			if rng.IntN(4) == 0 {
				written = fmt.Sprintf(`"\u%04x%s"`, key[0], key[1:])
			}
			m[key], bad = x, bad || worse || twice
			parts = append(parts, written+" : "+v)
		}
		return "{" + strings.Join(parts, ",") + "}", m, bad
	case n == 2 && depth > 0:
		list := []any{}
		var parts []string
		for range rng.IntN(4) {
			v, x, worse := drawn(rng, depth-1)
			list, parts, bad = append(list, x), append(parts, v), bad || worse
		}
		return "[" + strings.Join(parts, "\n, ") + "]", list, bad
	case n == 3:
		return "true", true, false
	case n == 4:
		x := rng.IntN(2000) - 1000
		return fmt.Sprint(x), float64(x), false
	}
	pieces := []struct {
		text, value string
		bad         bool
	}{{"a", "a", false}, {"é", "é", false}, {`\"`, `"`, false}, {`\\`, `\`, false}, {`\u00e9`, "é", false},
		{`\ud83d\ude00`, "😀", false}, {"😀", "😀", false}, {"\ufeff", "\ufeff", false}, {`\ud83d`, "", true}, {`\uDE00`,
			"", true},
		{"\xff", "", true}, {"\xc3", "", true}, {"\xed\xa0\x80", "", true}}
	var b, v strings.Builder
	for range rng.IntN(5) {
		p := pieces[rng.IntN(8)]
		if rng.IntN(60) == 0 {
			p = pieces[8+rng.IntN(5)]
		}
		b.WriteString(p.text)
		v.WriteString(p.value)
		bad = bad || p.bad
	}
	return `"` + b.String() + `"`, v.String(), bad
}

// Random values are read as they were made, at once and as a stream of pieces, or refused where they have to be.
func TestDrawn(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 1))
	refused := 0
	for range 1500 {
		text, want, bad := drawn(rng, 4)
		if strings.Contains(text, `\ud83d\uDE00`) { // two halves that met
			continue
		}
		for name, read := range map[string]func(v any) error{
			"at once":     func(v any) error { return Unmarshal([]byte(text), v) },
			"as a stream": func(v any) error { return json.NewDecoder(Reader(strings.NewReader(text))).Decode(v) },
			"byte by byte": func(v any) error {
				b, err := io.ReadAll(Reader(iotest.OneByteReader(strings.NewReader("\ufeff" + text))))
				return errors.Join(err, json.NewDecoder(bytes.NewReader(b)).Decode(v))
			},
		} {
			var got any
			err := read(&got)
			if bad != (err != nil) || !bad && !reflect.DeepEqual(got, want) {
				t.Fatalf("%s, %q: %v, %v, want %v, refused %v", name, text, got, err, want, bad)
			}
		}
		if bad {
			refused++
		}
	}
	if refused < 90 || refused > 1200 {
		t.Errorf("%d of 1500 refused", refused)
	}
}

// A newline belongs to the line that it ends.
func TestLines(t *testing.T) {
	l := NewLines(strings.NewReader("[1,\n2]\n"))
	try.Get(io.Copy(io.Discard, l))(t)
	for offset, want := range map[int64]int{0: 1, 3: 1, 4: 2, 6: 2, 7: 3} {
		if got := l.Line(offset); got != want {
			t.Errorf("byte %d is in line %d, want %d", offset, got, want)
		}
	}
}
