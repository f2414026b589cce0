package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"

	"vsetrain/internal/files/atomicfile"
)

func main() {
	var err error
	switch args := os.Args[1:]; {
	case len(args) == 0:
		err = run(".")
	case len(args) == 2 && args[0] == "unpack":
		err = unpack(runsFile, args[1])
	case len(args) == 2 && args[0] == "pack":
		var data []byte
		if data, err = packed(args[1]); err == nil {
			err = atomicfile.WriteFile(runsFile, atomicfile.Bytes(data))
		}
	default:
		err = errors.New("usage: figures [unpack FOLDER | pack FOLDER], in the folder of the repository")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

// run writes what has changed below the folder of the repository.
func run(root string) error {
	files, err := generate(root)
	if err != nil {
		return err
	}
	for name, want := range files {
		path := filepath.Join(root, name)
		if had, err := os.ReadFile(path); err == nil && bytes.Equal(had, want) {
			continue
		}
		if err := atomicfile.WriteFile(path, atomicfile.Bytes(want)); err != nil {
			return err
		}
		fmt.Println(path)
	}
	return nil
}

// Files that are read and written, relative to the repository.
const (
	stepsFile       = "docs/log/steps.csv"
	performancePage = "docs/performance.md"
	stepsChart      = "docs/steps.svg"
	marginsFile     = "docs/margins.svg"
	gradientsFile   = "docs/gradients.svg"
	registersFile   = "internal/compute/device/cuda/kernels/registers.tsv"
	internalsPage   = "docs/cuda-internals.md"
)

// generate returns the contents of every generated file by its name.
func generate(root string) (map[string][]byte, error) {
	var steps []step
	page, err := tableOf(root, performancePage, "steps", stepsFile, func(r io.Reader) (_ string, err error) {
		steps, err = readSteps(r)
		return stepsTable(steps), err
	})
	if err != nil {
		return nil, err
	}
	internals, err := tableOf(root, internalsPage, "registers", registersFile, registersTable)
	if err != nil {
		return nil, err
	}
	lines, err := margins()
	if err != nil {
		return nil, err
	}
	gradient, err := gradients()
	if err != nil {
		return nil, err
	}
	temp, err := os.MkdirTemp("", "figures")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temp)
	kept := filepath.Join(temp, "runs")
	if err := unpack(filepath.Join(root, runsFile), kept); err != nil {
		return nil, err
	}
	files, err := results(root, kept)
	if err != nil {
		return nil, err
	}
	board, err := leaderboard(root, kept)
	if err != nil {
		return nil, err
	}
	maps.Copy(files, board)
	files[performancePage], files[stepsChart], files[marginsFile] = page, stepsBars(steps), lines.Draw().SVG()
	files[internalsPage], files[gradientsFile] = internals, gradient.SVG()
	if files[ranksPage], err = tableOf(root, ranksPage, "ranks", ranksFile, ranksTable); err != nil {
		return nil, err
	}
	if files[reproducePage], err = reproduce(root); err != nil {
		return nil, err
	}
	for _, d := range networks {
		if files[d.file], err = d.draw(); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// tableOf returns a page with the table of that name made anew from a file.
func tableOf(root, page, name, source string, table func(io.Reader) (string, error)) ([]byte, error) {
	f, err := os.Open(filepath.Join(root, source))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := table(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	b, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		return nil, err
	}
	if b, err = between(b, name, text); err != nil {
		return nil, fmt.Errorf("%s: %w", page, err)
	}
	return b, nil
}

// between returns a page with the text between the comments `<!-- name -->` and `<!-- /name -->` replaced.
func between(page []byte, name, text string) ([]byte, error) {
	begin, end := []byte("<!-- "+name+" -->\n"), []byte("<!-- /"+name+" -->\n")
	i, j := bytes.Index(page, begin), bytes.Index(page, end)
	if i < 0 || j < i {
		return nil, fmt.Errorf("expected the lines %q and %q in this order", bytes.TrimSpace(begin),
			bytes.TrimSpace(end))
	}
	return bytes.Join([][]byte{page[:i+len(begin)], page[j:]}, []byte(text)), nil
}
