package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The recipes name the archives of a release with their addresses and checksums; without one of them there are none.
func TestRecipes(t *testing.T) {
	r := recipe{Version: "1.2.3-rc.1", URL: "https://example.org/v1.2.3", sums: map[string][]byte{}}
	for _, ending := range []string{"linux-amd64.tar.gz", "linux-arm64.tar.gz", "darwin-arm64.tar.gz",
		"darwin-amd64.tar.gz", "windows-amd64.zip"} {
		sum := sha256.Sum256([]byte(ending))
		r.sums["vsetrain-1.2.3-rc.1-"+ending] = sum[:]
	}
	out := t.TempDir()
	if err := writeRecipes(out, r); err != nil {
		t.Fatal(err)
	}
	for name, archives := range map[string]int{"recipe.yaml": 5, "vsetrain.rb": 4, "vsetrain.json": 1} {
		b, err := os.ReadFile(filepath.Join(out, "recipes", name))
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for file, sum := range r.sums {
			url, digest := strings.Index(string(b), r.URL+"/"+file), strings.Index(string(b), fmt.Sprintf("%x", sum))
			if url >= 0 && digest > url && digest < url+len(r.URL+file)+40 {
				found++
			}
		}
		if found != archives || strings.Contains(string(b), "[[") {
			t.Errorf("%s has %d archives with their checksums, want %d:\n%s", name, found, archives, b)
		}
		if strings.HasSuffix(name, ".json") && !json.Valid(b) {
			t.Errorf("%s is no JSON", name)
		}
	}
	delete(r.sums, "vsetrain-1.2.3-rc.1-windows-amd64.zip")
	if err := writeRecipes(t.TempDir(), r); err == nil || !strings.Contains(err.Error(), "windows-amd64.zip") {
		t.Errorf("without an archive: %v", err)
	}
}
