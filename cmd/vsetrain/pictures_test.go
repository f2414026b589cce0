package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"vsetrain/data"
	"vsetrain/internal/apps/serve"
	"vsetrain/internal/system/onnxruntime"
	"vsetrain/lab/runtest"
	"vsetrain/lab/try"
)

// A folder of pictures becomes a search page and a service: quickstart computes their features and trains, search and
// serve take a picture as a query, and pictures are added to the folder and over HTTP and removed while a client asks
// all the time; the token changes meanwhile. All paths have spaces and umlauts.
func TestPictures(t *testing.T) {
	model := runtest.Extractor(t, 8)
	if _, err := onnxruntime.Open(model, os.Getenv, 0); errors.Is(err, onnxruntime.ErrNone) {
		t.Skip(err)
	}
	t.Chdir(t.TempDir())
	try.Do(t, os.Mkdir("Bilder für später", 0o755))
	t.Chdir("Bilder für später")
	try.Do(t, os.Rename(model, "ein Modell.onnx"))
	try.Do(t, os.Rename(strings.TrimSuffix(model, ".onnx")+".yaml", "ein Modell.yaml"))
	mustRun(t, "", "data synth --images --train 0 --dev 0 --test 12 --regions 2 --dim 16", "Welt ä")
	pictures := filepath.Join("Welt ä", "images")
	later := map[string][]byte{}
	for _, name := range []string{"10.png", "11.png"} {
		file := filepath.Join(pictures, name)
		later[name] = try.Get(os.ReadFile(file))(t)
		try.Do(t, os.Remove(file))
	}
	t.Setenv("VSETRAIN_CUDA_DRIVER", runtest.NoDriver)
	t.Setenv("VSETRAIN_TRAIN_EPOCHS", "1")
	s := answering(t, os.Environ(), "quickstart", pictures, "--extractor", "ein Modell.onnx", "--work", "fertig ü",
		"--no-open", "--listen", "127.0.0.1:0")
	s.stop(t)
	run, gallery := filepath.Join("fertig ü", "run"), filepath.Join("fertig ü", "gallery")
	found := mustRun(t, "", "search --split dev --k 3 --no-cache --checkpoint", run, "--data",
		filepath.Join("fertig ü", "drawn"), "--image", filepath.Join(pictures, "3.png"))
	if strings.Count(found, "\n") < 3 {
		t.Errorf("search --image finds %s", found)
	}

	token := "0123456789abcdef"
	try.Do(t, os.WriteFile("Schlüssel", []byte(token), 0o600))
	s = answering(t, os.Environ(), "serve", run, "--data", gallery, "--split", "test", "--allow-changes", "--no-cache",
		"--token-file", "Schlüssel", "--listen", "127.0.0.1:0", "--log", "none")
	ask := func(bearer, path string, body any) (status int, a serve.SearchAnswer) {
		b, err := json.Marshal(body)
		if err == nil {
			status, b, err = post(s.url+path, bearer, b)
		}
		if err == nil {
			err = json.Unmarshal(b, &a)
		}
		if err != nil || status != 200 && status != 401 {
			t.Errorf("%s: %d, %s, %v", path, status, b, err)
		}
		return status, a
	}
	want := func(file string, scored int) {
		t.Helper()
		b := later[file]
		if b == nil {
			b = try.Get(os.ReadFile(filepath.Join(pictures, file)))(t)
		}
		status, a := ask(token, "v1/search", serve.SearchRequest{Picture: b})
		if status != 200 || len(a.Hits) == 0 || a.Hits[0].ID != file || a.Scored != scored {
			t.Errorf("%s of %d pictures: %d, %+v", file, scored, status, a)
		}
	}
	var over atomic.Bool
	var client sync.WaitGroup
	first := token
	client.Go(func() {
		query, k := "a red square", 3
		for ; !over.Load(); time.Sleep(5 * time.Millisecond) {
			if status, a := ask(first, "v1/search", serve.SearchRequest{Query: &query, K: &k}); status != 200 ||
				len(a.Hits) != 3 {
				t.Errorf("while pictures come and go: %d, %+v", status, a)
			}
		}
	})
	defer func() {
		over.Store(true)
		client.Wait()
	}()
	want("3.png", 10)
	ask(token, "v1/images/add", serve.AddRequest{ID: "10.png", Picture: later["10.png"]})
	want("10.png", 11)
	try.Do(t, os.WriteFile(filepath.Join(pictures, "11.png"), later["11.png"], 0o644))
	out := mustRun(t, "", "data extract --split test --add --skip-broken", "--model", "ein Modell.onnx", "--images",
		pictures, "--out", gallery)
	if !strings.Contains(out, "1 picture added to split test") {
		t.Errorf("data extract --add prints %s", out)
	}
	want("10.png", 11)
	ask(token, "v1/reload", struct{}{})
	want("11.png", 12)
	ask(token, "v1/images/remove", serve.RemoveRequest{IDs: []string{"0.png", "1.png"}})
	want("11.png", 10)
	over.Store(true)
	client.Wait()
	token = "fedcba9876543210"
	try.Do(t, os.WriteFile("Schlüssel", []byte(token), 0o600))
	ask(first, "v1/reload", struct{}{})
	if status, _ := ask(first, "v1/reload", struct{}{}); status != 401 {
		t.Errorf("the earlier token after a reload: %d", status)
	}
	want("3.png", 10)
	s.stop(t)
}

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
		{"a", "other", "unknown", "(the former come from b.onnx (SHA-256 bbbbbbbbbbbb), the latter have no record)"},
		{"known", "", "same", ""},
		{"known", "same", "same", ""},
		{"known", "g", "unknown", "(the latter come from a.onnx (SHA-256 aaaaaaaaaaaa), the former have no record)"},
		{"known", "other", "different", "were made by b.onnx (SHA-256 bbbbbbbbbbbb), the training " +
			"features of runs/known by a.onnx (SHA-256 aaaaaaaaaaaa): scores mean nothing"},
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
	x, err := onnxruntime.Open(model, os.Getenv, 0)
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

// inWorld changes into a folder with the data set w, whose test split has 20 images, and a run.
func inWorld(t *testing.T) {
	t.Helper()
	t.Setenv("VSETRAIN_CUDA_DRIVER", "/nowhere/libcuda.so.1")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Chdir(t.TempDir())
	saying(t, "data synth w --train 24 --dev 8 --test 20 --regions 2 --dim 16")
	saying(t, trainSmall+"data.dir=w --run runs/a")
}

const trainSmall = "train --set model.embed_dim=8 --set model.word_dim=4 --set train.batch=20 " +
	"--set train.epochs=1 --set "
