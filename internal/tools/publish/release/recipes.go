package main

import (
	"bytes"
	"embed"
	"fmt"
	"path/filepath"
	"strings"
	"text/template"

	"vsetrain/internal/files/atomicfile"
)

// recipes are those of conda-forge (recipe.yaml), Homebrew (vsetrain.rb) and Scoop (vsetrain.json).
//
//go:embed recipes
var recipeFiles embed.FS

// recipe is what the recipes are filled with.
type recipe struct {
	Version, URL string
	sums         map[string][]byte
}

// Conda is the version as conda knows versions: without a dash.
func (r recipe) Conda() string { return strings.ReplaceAll(r.Version, "-", ".") }

func (r recipe) name(ending string) string { return "vsetrain-" + r.Version + "-" + ending }

// File is the address of an archive.
func (r recipe) File(ending string) string { return r.URL + "/" + r.name(ending) }

// Sum is the SHA-256 of an archive of the release.
func (r recipe) Sum(ending string) (string, error) {
	sum, ok := r.sums[r.name(ending)]
	if !ok {
		return "", fmt.Errorf("the recipes need %s, which this release has not; make it for all systems",
			r.name(ending))
	}
	return fmt.Sprintf("%x", sum), nil
}

// writeRecipes writes the recipes into the folder recipes of the release.
func writeRecipes(out string, r recipe) error {
	all, err := template.New("").Delims("[[", "]]").ParseFS(recipeFiles, "recipes/*")
	if err != nil {
		return err
	}
	dir := filepath.Join(out, "recipes")
	if err := atomicfile.MkdirAll(dir); err != nil {
		return err
	}
	for _, t := range all.Templates() {
		if t.Name() == "" {
			continue
		}
		var text bytes.Buffer
		if err := t.Execute(&text, r); err != nil {
			return err
		}
		if err := atomicfile.WriteFile(filepath.Join(dir, t.Name()), atomicfile.Bytes(text.Bytes())); err != nil {
			return err
		}
	}
	return nil
}
