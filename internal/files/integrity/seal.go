package integrity

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/regular"
)

// ErrDamaged is the error for a text that differs from what was written.
var ErrDamaged = errors.New("the file is damaged or was changed: its content does not match its checksum")

// A sealed text is a JSON object whose first member is its checksum, or lines after a comment with it. The checksum is
// the SHA-256 of the text without that line, so a truncated text does not match.
const (
	jsonStart, jsonSeal, jsonEnd = "{\n", `  "sha256": "`, "\",\n"
	textSeal, textEnd            = "# sha256 ", "\n"
)

// Seal adds its checksum to a text: an indented JSON object with members, or lines in which # begins a comment. Other
// JSON has no place for it and stays unchanged.
func Seal(b []byte) []byte {
	sum := fmt.Sprintf("%x", sha256.Sum256(b))
	if bytes.HasPrefix(b, []byte(jsonStart)) {
		return append([]byte(jsonStart+jsonSeal+sum+jsonEnd), b[len(jsonStart):]...)
	}
	if json.Valid(b) && bytes.IndexAny(b, "{[") == 0 {
		return b
	}
	return append([]byte(textSeal+sum+textEnd), b...)
}

// Unseal returns a text without its checksum, or ErrDamaged. A text without a checksum, as earlier versions wrote it,
// is returned unchanged; then sealed is false.
func Unseal(b []byte) (text []byte, sealed bool, err error) {
	for _, form := range [][3]string{{jsonStart, jsonSeal, jsonEnd}, {"", textSeal, textEnd}} {
		rest, ok := bytes.CutPrefix(b, []byte(form[0]+form[1]))
		if !ok {
			continue
		}
		sum, rest, ok := bytes.Cut(rest, []byte(form[2]))
		text = append([]byte(form[0]), rest...)
		if !ok || fmt.Sprintf("%x", sha256.Sum256(text)) != string(sum) {
			return nil, true, ErrDamaged
		}
		return text, true, nil
	}
	for _, line := range []string{jsonSeal, textSeal} { // a checksum in the wrong place
		if bytes.Contains(b, []byte("\n"+line)) {
			return nil, true, ErrDamaged
		}
	}
	return b, false, nil
}

// ReadSealed reads a sealed text of at most limit bytes; what names the kind of file in errors.
func ReadSealed(path string, limit int64, what string) ([]byte, error) {
	b, err := regular.ReadFile(path, limit+256, what)
	if err == nil {
		b, _, err = Unseal(b)
	}
	if errors.Is(err, ErrDamaged) {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return b, err
}

// WriteJSON replaces the file at path with a value as a sealed JSON object.
func WriteJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return WriteText(path, append(b, '\n'))
}

// WriteText replaces the file at path with a sealed text.
func WriteText(path string, b []byte) error { return WriteFile(path, atomicfile.Bytes(Seal(b))) }
