package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vsetrain/data"
	"vsetrain/internal/apps/serve"
	"vsetrain/internal/system/onnxruntime"
	"vsetrain/lab/runtest"
	"vsetrain/lab/try"
)

// Features of another model, and of an unknown one, are named at the start of every command that searches, by the
// server and on the page; features of a run's own data set are not.
func TestWhoseFeatures(t *testing.T) {
	inWorld(t)
	made := func(dir, split, by string) {
		b := try.Get(json.Marshal(data.ExtractorRecord{Model: "/m/" + by + ".onnx", Hash: strings.Repeat(by, 64),
			Regions: 2, Dim: 16}))(t)
		try.Do(t, os.WriteFile(data.ExtractorFile(dir, split), b, 0o644))
	}
	saying(t, "data synth known --train 24 --dev 8 --test 20 --regions 2 --dim 16")
	for _, split := range []string{"train", "dev", "test"} {
		made("known", split, "a")
	}
	saying(t, trainSmall+"data.dir=known --run runs/known")
	for _, name := range []string{"g", "same", "other"} {
		saying(t, "data synth "+name+" --train 4 --dev 4 --test 20 --regions 2 --dim 16 --seed 9")
	}
	made("same", "test", "a")
	made("other", "test", "b")
	for _, c := range []struct{ run, gallery, origin, text string }{
		{"a", "", "same", ""},
		{"a", "w", "same", ""},
		{"a", "g", "unknown", "there is no record that the features of g/test_ims.npy and the training features of"},
		{"a", "other", "unknown", "(the former are of b.onnx (SHA-256 bbbbbbbbbbbb), the latter have no record)"},
		{"known", "", "same", ""},
		{"known", "same", "same", ""},
		{"known", "g", "unknown", "(the latter are of a.onnx (SHA-256 aaaaaaaaaaaa), the former have no record)"},
		{"known", "other", "different", "were made by b.onnx (SHA-256 bbbbbbbbbbbb), those that runs/known was " +
			"trained on by a.onnx (SHA-256 aaaaaaaaaaaa): scores mean nothing"},
	} {
		var at []string
		if c.gallery != "" {
			at = []string{"--data", c.gallery}
		}
		run := "runs/" + c.run
		says := func(command, text string) {
			t.Helper()
			text = strings.Join(strings.Fields(text), " ")
			if c.text == "" && strings.Contains(text, "features of") || !strings.Contains(text, c.text) {
				t.Errorf("%s of %s with %s: %s", command, run, c.gallery, text)
			}
		}
		says("search", saying(t, "search "+run+" a man --no-cache", at...))
		says("embed", saying(t, "embed "+run+" --of images --out o.npy --force", at...))
		at = append(at, "--no-cache", "--listen", "127.0.0.1:0")
		s := answering(t, os.Environ(), append([]string{"serve", run}, at...)...)
		says("serve", s.String())
		var info serve.InfoAnswer
		try.Do(t, json.Unmarshal([]byte(get(t, s.url+"v1/info")), &info))
		if f := info.Splits[0]; f.Features != c.origin || (f.Note == "") != (c.text == "") {
			t.Errorf("/v1/info of %s with %s: %+v", run, c.gallery, f)
		}
		says("/v1/info", info.Splits[0].Note)
		if info.Pictures || info.NoPictures == "" {
			t.Errorf("/v1/info: %+v", info)
		}
		_, b, err := post(s.url+"v1/search", "", []byte(`{"picture":"AAAA"}`))
		try.Do(t, err)
		why := "nothing says which model made the features of "
		if c.gallery == "other" || c.gallery == "same" || c.run == "known" && c.gallery == "" {
			why = ".onnx: no such file"
		}
		if !strings.Contains(string(b), "this server takes no pictures: ") || !strings.Contains(string(b), why) {
			t.Errorf("a picture for %s with %s: %s", run, c.gallery, b)
		}
		s.stop(t)
		if c.gallery != "" {
			s = answering(t, os.Environ(), append([]string{"view", run}, at...)...)
			says("view", strings.ReplaceAll(s.String(), "split test of "+c.gallery, c.gallery+"/test_ims.npy"))
			s.stop(t)
		}
	}
}

// A folder of pictures is refused before its features are computed where the network cannot read them, or was trained
// on features of another model.
func TestQuickstartLooksFirst(t *testing.T) {
	model := runtest.Extractor(t, 16)
	x, err := onnxruntime.Open(model, os.Getenv, onnxruntime.Options{})
	if errors.Is(err, onnxruntime.ErrNone) {
		t.Skip(err)
	}
	try.Do(t, err)
	x.Close()
	inWorld(t)
	saying(t, "data synth drawn --images --train 0 --dev 0 --test 3 --regions 2 --dim 16")
	saying(t, "data synth fits --train 24 --dev 8 --test 20 --regions 36 --dim 16")
	b := try.Get(json.Marshal(data.ExtractorRecord{Model: "/m/other.onnx", Hash: strings.Repeat("0", 64), Regions: 36,
		Dim: 16}))(t)
	try.Do(t, os.WriteFile(data.ExtractorFile("fits", "train"), b, 0o644))
	saying(t, trainSmall+"data.dir=fits --run runs/fits")
	for run, want := range map[string]string{"runs/a": "was trained on features of 2 x 16, cells.onnx makes 36 x 16",
		"runs/fits": "by other.onnx (SHA-256 000000000000): scores mean nothing", "runs/nosuch": "no such file"} {
		code, out := say("quickstart --work q --no-open --listen 127.0.0.1:0 --checkpoint "+run, "--extractor", model,
			filepath.Join("drawn", "images"))
		if text := strings.Join(strings.Fields(out), " "); code != exitFailure || !strings.Contains(text, want) {
			t.Errorf("%s: %d, %s", run, code, text)
		}
		if _, err := os.Stat("q"); err == nil {
			t.Errorf("%s: something was computed", run)
		}
	}
}
