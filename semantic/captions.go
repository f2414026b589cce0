package semantic

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"vsetrain/internal/files/regular"
)

// captionFile is a caption file in memory.
type captionFile struct {
	path  string
	lines []string // in file order, empty ones included: the index of a line is the index of its caption
	hash  string   // SHA-256 of the file, hexadecimal
}

// ReadCaptions returns the lines of a caption file, empty ones included, and the SHA-256 of the file.
func ReadCaptions(path string) (lines []string, hash string, err error) {
	c, err := readCaptions(path)
	if err != nil {
		return nil, "", err
	}
	return c.lines, c.hash, nil
}

// maxCaptions bounds the bytes of a caption file; the captions of COCO have 30 MB.
const maxCaptions = 1<<32 - 1

// readCaptions reads a caption file: a line ends at \n; a last line without it counts, an empty end does not.
func readCaptions(path string) (*captionFile, error) {
	text, err := regular.ReadText(path, maxCaptions, "captions")
	if err != nil {
		return nil, fmt.Errorf("read captions: %w", err)
	}
	if text == "" {
		return nil, fmt.Errorf("read captions: %s is empty; expected one caption per line", path)
	}
	sum := sha256.Sum256([]byte(text))
	return &captionFile{path, strings.Split(strings.TrimSuffix(text, "\n"), "\n"), hex.EncodeToString(sum[:])}, nil
}
