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
	if _, err := onnxruntime.Open(model, os.Getenv, onnxruntime.Options{}); errors.Is(err, onnxruntime.ErrNone) {
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
