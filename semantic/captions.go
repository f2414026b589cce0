package semantic

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"vsetrain/internal/files/regular"
)

// maxCaptions is the largest size of a caption file in bytes; the captions of COCO have 30 MB.
const maxCaptions = 1<<32 - 1

// ReadCaptions returns the lines of a caption file and its SHA-256 in hexadecimal. Empty lines are captions too, so the
// index of a line is the index of its caption. The last line need not end with a newline.
func ReadCaptions(path string) (lines []string, hash string, err error) {
	text, err := regular.ReadText(path, maxCaptions, "captions")
	if err != nil {
		return nil, "", fmt.Errorf("read captions: %w", err)
	}
	if text == "" {
		return nil, "", fmt.Errorf("read captions: %s is empty; expected one caption per line", path)
	}
	sum := sha256.Sum256([]byte(text))
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n"), hex.EncodeToString(sum[:]), nil
}
