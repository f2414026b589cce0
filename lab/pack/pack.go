// Command pack writes what package kernels embeds: ptx.zip, the PTX of a folder, and kernels.tsv, what the sources
// declare. build.sh runs it in the folder of the sources.
//
//	go run ./lab/pack FOLDER_OF_PTX
//	go run ./lab/pack -unpack ARCHIVE NEW_FOLDER
package main

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"vsetrain/internal/files/atomicfile"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("pack: ")
	var err error
	switch args := os.Args[1:]; {
	case len(args) == 1:
		err = pack(args[0])
	case len(args) == 3 && args[0] == "-unpack":
		err = unpack(args[1], args[2])
	default:
		err = errors.New("usage: pack FOLDER_OF_PTX, or pack -unpack ARCHIVE NEW_FOLDER")
	}
	if err != nil {
		log.Fatal(err)
	}
}

func pack(folder string) error {
	archive, err := packed(folder)
	if err != nil {
		return err
	}
	table, err := declared(".")
	if err != nil {
		return err
	}
	if err := atomicfile.WriteFile("ptx.zip", atomicfile.Bytes(archive)); err != nil {
		return err
	}
	return atomicfile.WriteFile("kernels.tsv", atomicfile.Bytes(table))
}

func unpack(archive, folder string) error {
	r, err := zip.OpenReader(archive)
	if err != nil {
		return err
	}
	defer r.Close()
	return os.CopyFS(folder, r)
}

// packed is the archive of the PTX in a folder, sorted by name and without times: the same PTX gives the same bytes.
func packed(folder string) ([]byte, error) {
	names, err := filepath.Glob(filepath.Join(folder, "*.ptx"))
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s holds no PTX", folder)
	}
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	w.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(w, flate.BestCompression)
	})
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		f, err := w.CreateHeader(&zip.FileHeader{Name: filepath.Base(name), Method: zip.Deflate})
		if err != nil {
			return nil, err
		}
		if _, err := f.Write(text); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

var declaration = regexp.MustCompile(`(?m)^KERNEL (\w+)\(([^)]*)\)`)

// declared is the table of the kernels in the order of their sources: one line each with name and parameters. A pointer
// parameter has * in front, or const* if the kernel does not write through it. The checksum in the first line lets a
// quick test notice sources that changed after make kernels.
func declared(folder string) ([]byte, error) {
	names, err := filepath.Glob(filepath.Join(folder, "*.cu"))
	if err != nil {
		return nil, err
	}
	others, err := filepath.Glob(filepath.Join(folder, "*.cuh"))
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	for _, name := range slices.Concat(names, others, []string{filepath.Join(folder, "build.sh")}) {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(sum, "%s %d\n%s", filepath.Base(name), len(text), text)
	}
	var b bytes.Buffer
	b.WriteString("# What the kernels declare; make kernels writes this file, ")
	fmt.Fprintf(&b, "of sources with the SHA-256 %x.\n", sum.Sum(nil))
	b.WriteString("kernel\tparameters\n")
	for _, name := range names {
		source, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		for _, f := range declaration.FindAllStringSubmatch(string(source), -1) {
			var parameters []string
			for _, p := range strings.Split(f[2], ",") {
				words := strings.FieldsFunc(p, func(r rune) bool { return strings.ContainsRune(" \n*", r) })
				kind := ""
				if strings.Contains(p, "*") {
					kind = "*"
					if strings.HasPrefix(strings.TrimSpace(p), "const ") {
						kind = "const*"
					}
				}
				parameters = append(parameters, kind+words[len(words)-1])
			}
			if len(parameters) > 64 {
				return nil, fmt.Errorf("%s: kernel %s has %d parameters, expected at most 64", name, f[1],
					len(parameters))
			}
			fmt.Fprintf(&b, "%s\t%s\n", f[1], strings.Join(parameters, " "))
		}
	}
	return b.Bytes(), nil
}
