// Command figures draws the charts of docs/ and writes the tables that show the same numbers: from the runs and tables
// in docs/log, the registers of the CUDA kernels and the losses themselves. It also draws the diagrams of the networks.
// The same input gives the same bytes. Run it as `make figures`; `make runs` and `make pack-runs` unpack and write the
// archive of runs.
package main

import (
	"bytes"
	"errors"
	"fmt"
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

// book is the output, and what it is made from.
type book struct {
	root, runs string            // the folder of the repository, and the folder of the runs of its archive
	files      map[string][]byte // pages and charts by their paths in the repository
}

// generate returns the contents of every generated file by its name.
func generate(root string) (map[string][]byte, error) {
	temp, err := os.MkdirTemp("", "figures")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temp)
	b := &book{root, filepath.Join(temp, "runs"), map[string][]byte{}}
	if err := unpack(filepath.Join(root, runsFile), b.runs); err != nil {
		return nil, err
	}
	for _, write := range []func(*book) error{(*book).steps, (*book).registers, (*book).reproduce,
		(*book).margins, (*book).gradients, (*book).diagrams, (*book).results, (*book).leaderboard} {
		if err := write(b); err != nil {
			return nil, err
		}
	}
	return b.files, nil
}

// put writes a text between the comments `<!-- name -->` and `<!-- /name -->` of a page.
func (b *book) put(page, name, text string) (err error) {
	had, ok := b.files[page]
	if !ok {
		if had, err = os.ReadFile(filepath.Join(b.root, page)); err != nil {
			return err
		}
	}
	begin, end := []byte("<!-- "+name+" -->\n"), []byte("<!-- /"+name+" -->\n")
	i, j := bytes.Index(had, begin), bytes.Index(had, end)
	if i < 0 || j < i {
		return fmt.Errorf("%s: expected the lines %q and %q in this order", page, bytes.TrimSpace(begin),
			bytes.TrimSpace(end))
	}
	b.files[page] = bytes.Join([][]byte{had[:i+len(begin)], had[j:]}, []byte(text))
	return nil
}
