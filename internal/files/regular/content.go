package regular

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Format is the format of a file, told by its first bytes.
type Format string

// The formats that this program reads. Content knows others, too.
const (
	NPY         Format = "npy"         // an array of NumPy
	NPZ         Format = "npz"         // a zip archive of them
	Torch       Format = "torch"       // a file of PyTorch, in either format
	Pickle      Format = "pickle"      // any other pickle
	Safetensors Format = "safetensors" //
	JSON        Format = "json"        // an object or a list
	Table       Format = "table"       // lines of equally many values, separated by tabs, commas or semicolons
	Text        Format = "text"        // other text in UTF-8
	Picture     Format = "picture"     // JPEG, PNG, GIF, WebP
)

// Sniffed is how many bytes at the beginning of a file Content reads.
const Sniffed = 4096

// magics are the formats that begin with a magic number. PATH in a message stands for the quoted path of the file.
var magics = []struct {
	at     int
	magic  string
	format Format
	says   string
}{
	{0, "\x93NUMPY", NPY, "a NumPy array; its name should end in .npy"},
	{0, "\x89HDF\r\n\x1a\n", "hdf5", "an HDF5 file, which is not read; docs/data.md, \"HDF5 and PyTorch files\", " +
		"makes a NumPy array of it"},
	{0, "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", Torch, torchSays},
	{0, "\x1f\x8b", "gzip", "a gzip archive; `gzip -dc PATH > NEW` unpacks it"},
	{0, "BZh", "bzip2", "a bzip2 archive; `bzip2 -dc PATH > NEW` unpacks it"},
	{0, "\xfd7zXZ\x00", "xz", "an xz archive; `xz -dc PATH > NEW` unpacks it"},
	{0, "\x28\xb5\x2f\xfd", "zstd", "a Zstandard archive; `zstd -dc PATH > NEW` unpacks it"},
	{0, "7z\xbc\xaf\x27\x1c", "7z", "a 7-Zip archive; `7z x PATH` unpacks it"},
	{0, "Rar!\x1a\x07", "rar", "a RAR archive; `unrar x PATH` unpacks it"},
	{257, "ustar", "tar", "a tar archive; `tar -xf PATH` unpacks it"},
	{0, "\x89PNG\r\n\x1a\n", Picture, pictureSays},
	{0, "\xff\xd8\xff", Picture, pictureSays},
	{0, "GIF8", Picture, pictureSays},
	{8, "WEBP", Picture, pictureSays},
	{0, "%PDF-", "pdf", "a PDF document"},
	{0, "MATLAB 5.0 MAT-file", "mat", "a file of MATLAB, which is not read; scipy.io.loadmat reads it in Python"},
	{0, "PAR1", "parquet", "a Parquet file, which is not read; pandas.read_parquet reads it in Python"},
	{0, "ARROW1", "arrow", "an Arrow file, which is not read; pyarrow reads it in Python"},
	{0, "SQLite format 3\x00", "sqlite", "an SQLite database, which is not read"},
	{16, "\xde\xc0\xef\xbe", "lmdb", "an LMDB database, which is not read"},
}

const (
	torchSays = "a file of PyTorch: of a checkpoint the name should end in .pth or .pth.tar; for features, " +
		"docs/data.md, \"HDF5 and PyTorch files\", makes a NumPy array of it"
	pictureSays = "a picture; `vsetrain data extract` computes features of a folder of them"
)

// Content tells the format of a file from head, its first Sniffed bytes or the whole file. says describes the file at
// path and how to convert it. Both are "" if the format is unknown.
func Content(head []byte, path string) (format Format, says string) {
	for _, m := range magics {
		if len(head) >= m.at+len(m.magic) && string(head[m.at:m.at+len(m.magic)]) == m.magic {
			return m.format, strings.ReplaceAll(m.says, "PATH", Quote(path))
		}
	}
	switch {
	case len(head) == 0:
		return "empty", "empty; fetch it again, or make it again"
	case len(bytes.Trim(head, "\x00")) == 0:
		return "zeros", fmt.Sprintf("nothing but zeros in its first %d bytes, as an interrupted or sparse copy leaves "+
			"them; copy it again", len(head))
	case bytes.HasPrefix(head, []byte("PK\x03\x04")) || bytes.HasPrefix(head, []byte("PK\x05\x06")):
		return zipContent(head, path)
	case isSafetensors(head):
		return Safetensors, "a safetensors file; its name should end in .safetensors"
	case isPickle(head):
		return Pickle, "a pickle of Python, of which this program reads vocabularies and checkpoints alone"
	}
	if text, ok := utf16Text(head); ok {
		return "utf16", fmt.Sprintf("text in UTF-16 that begins with %q; `iconv -f UTF-16 -t UTF-8 %s > NEW` converts "+
			"it", begin(text), Quote(path))
	}
	return textContent(head, path)
}

// zipContent tells what a zip archive holds from the name of its first member.
func zipContent(head []byte, path string) (Format, string) {
	name := ""
	if len(head) >= 30 {
		if n := 30 + int(binary.LittleEndian.Uint16(head[26:])); n <= len(head) {
			name = string(head[30:n])
		}
	}
	switch {
	case strings.HasSuffix(name, ".npy"):
		return NPZ, fmt.Sprintf("a NumPy archive with the array %s; its name should end in .npz, so that `vsetrain "+
			"data convert` reads it", strings.TrimSuffix(name, ".npy"))
	case strings.HasSuffix(name, "data.pkl") || strings.HasSuffix(name, "/version") ||
		strings.HasSuffix(name, "/byteorder"):
		return Torch, torchSays
	}
	return "zip", fmt.Sprintf("a zip archive that begins with the member %q; `unzip %s` unpacks it", begin(name),
		Quote(path))
}

// isSafetensors looks for the length of a header, eight bytes, and the header, a JSON object.
func isSafetensors(head []byte) bool {
	return len(head) > 9 && binary.LittleEndian.Uint64(head) < 1<<30 && head[8] == '{' &&
		(head[9] == '"' || head[9] == '}' || head[9] == ' ')
}

// isPickle recognises protocols 2 to 5 by their opcode PROTO, and earlier ones by how containers and instances begin.
func isPickle(head []byte) bool {
	if len(head) > 2 && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5 {
		return true
	}
	begins := []string{"(dp", "(lp", "(dq", "(i__main__\n", "ccopy_reg\n", "ccopyreg\n", "c__main__\n"}
	return slices.ContainsFunc(begins, func(p string) bool { return bytes.HasPrefix(head, []byte(p)) })
}

// utf16Text returns the beginning of text in UTF-16: text that begins with a byte order mark, or in which every other
// byte is zero, as in European languages.
func utf16Text(head []byte) (string, bool) {
	var order binary.ByteOrder = binary.LittleEndian
	even, odd := 0, 0 // zeros
	for i, b := range head[:len(head)&^1] {
		if b == 0 {
			even, odd = even+1-i%2, odd+i%2
		}
	}
	pairs := len(head) / 2
	switch {
	case bytes.HasPrefix(head, []byte{0xff, 0xfe}):
	case bytes.HasPrefix(head, []byte{0xfe, 0xff}), even == pairs && odd == 0 && pairs > 1:
		order = binary.BigEndian
	case odd == pairs && even == 0 && pairs > 1:
	default:
		return "", false
	}
	units := make([]uint16, min(pairs, 64))
	for i := range units {
		units[i] = order.Uint16(head[2*i:])
	}
	text := strings.TrimPrefix(string(utf16.Decode(units)), byteOrderMark)
	return text, !strings.ContainsRune(text, 0)
}

var htmlTitle = regexp.MustCompile(`(?is)<title[^>]*>\s*(.*?)\s*</title>`)

// textContent tells texts apart.
func textContent(head []byte, path string) (Format, string) {
	whole := len(head) < Sniffed
	for i := 0; i < utf8.UTFMax && !whole && len(head) > 0 && !utf8.Valid(head); i++ {
		head = head[:len(head)-1] // a character that the end cuts
	}
	if !utf8.Valid(head) || bytes.IndexByte(head, 0) >= 0 {
		return "", ""
	}
	text := strings.TrimPrefix(string(head), byteOrderMark)
	trimmed := strings.TrimSpace(text)
	low := strings.ToLower(trimmed[:min(len(trimmed), 512)])
	switch {
	case strings.HasPrefix(low, "<!doctype html") || strings.HasPrefix(low, "<") && strings.Contains(low, "<html"):
		title := ""
		if m := htmlTitle.FindStringSubmatch(text); m != nil {
			title = fmt.Sprintf(" with the title %q", begin(m[1]))
		}
		return "html", fmt.Sprintf("a web page (HTML)%s, saved in place of the file; fetch the file itself", title)
	case strings.HasPrefix(low, "<?xml") || strings.HasPrefix(low, "<error>"):
		return "xml", fmt.Sprintf("XML that begins with %q; a server that refuses a download may answer so",
			begin(trimmed))
	case isJSON(trimmed, whole):
		return JSON, fmt.Sprintf("JSON that begins with %q", begin(trimmed))
	case isTable(text, whole):
		return Table, fmt.Sprintf("a table whose first line is %q", begin(trimmed))
	}
	return Text, fmt.Sprintf("text that begins with %q", begin(trimmed))
}

// isJSON reports whether text is JSON, an object or a list, or the beginning of one.
func isJSON(text string, whole bool) bool {
	if !strings.HasPrefix(text, "{") && !strings.HasPrefix(text, "[") {
		return false
	}
	d := json.NewDecoder(strings.NewReader(text))
	for n := 0; ; n++ {
		if _, err := d.Token(); err != nil {
			if whole {
				return errors.Is(err, io.EOF)
			}
			return n > 1 && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF))
		}
	}
}

// isTable reports whether the lines have the same number of separators, of one kind, and at least one.
func isTable(text string, whole bool) bool {
	lines := strings.Split(strings.TrimRight(text, "\r\n"), "\n")
	if !whole && len(lines) > 1 {
		lines = lines[:len(lines)-1] // the last one may be cut
	}
	for _, sep := range []string{"\t", ",", ";"} {
		n := strings.Count(lines[0], sep)
		for _, l := range lines {
			if strings.Count(l, sep) != n {
				n = 0
			}
		}
		if n > 0 && (sep == "\t" || len(lines) > 1) {
			return true
		}
	}
	return false
}

// begin returns the first characters of the first line of a text.
func begin(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	line = strings.TrimRight(line, "\r")
	if r := []rune(line); len(r) > 40 {
		return string(r[:40]) + "..."
	}
	return line
}

// Explain adds to the error of a reader what the file at path is, if that is none of the formats that it reads.
func Explain(err error, path string, reads ...Format) error {
	if err == nil {
		return nil
	}
	if says := other(path, reads); says != "" {
		return fmt.Errorf("%w; the file is %s", err, says)
	}
	return err
}

// Expect returns an error if the format of the file at path is none of reads. Readers of text call it first: otherwise
// they would complain about lines of a file that is not text.
func Expect(path, what string, reads ...Format) error {
	if says := other(path, reads); says != "" {
		return fmt.Errorf("%s: expected %s; the file is %s", path, what, says)
	}
	return nil
}

// ExpectHead is Expect for a stream whose first bytes, up to Sniffed, have been read; name names it in messages.
func ExpectHead(head []byte, name, what string, reads ...Format) error {
	if format, says := Content(head, name); format != "" && !slices.Contains(reads, format) {
		return fmt.Errorf("%s: expected %s; it is %s", name, what, says)
	}
	return nil
}

// other says what the file at path is, or "" if it is of one of the formats, unknown or unreadable.
func other(path string, reads []Format) string {
	f, _, err := Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	head := make([]byte, Sniffed)
	n, err := f.ReadAt(head, 0)
	format, says := Content(head[:n], path)
	if err != nil && !errors.Is(err, io.EOF) || slices.Contains(reads, format) {
		return ""
	}
	return says
}

// ErrPointer is the error for a file that points to another file, which was not fetched.
var ErrPointer = errors.New("a pointer")

var lfsSize = regexp.MustCompile(`(?m)^size ([0-9]+)\r?$`)

// checkPointer returns an error for a pointer of Git LFS or git-annex, which Git leaves in place of a large file.
func checkPointer(f *os.File, size int64) error {
	const most = 1024 // Git LFS refuses longer pointers
	if size > most || size < 20 {
		return nil
	}
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); n < len(b) && !errors.Is(err, io.EOF) {
		return nil // its reader will fail
	}
	path := f.Name()
	switch {
	case bytes.HasPrefix(b, []byte("version https://git-lfs.github.com/spec/")),
		bytes.HasPrefix(b, []byte("version https://hawser.github.com/spec/")):
		to := "a file"
		if m := lfsSize.FindSubmatch(b); m != nil {
			to = fmt.Sprintf("a file of %s bytes", m[1])
		}
		return &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("%w of Git LFS to %s that was not fetched; `git "+
			"lfs pull` in the repository fetches it", ErrPointer, to)}
	case bytes.HasPrefix(b, []byte("/annex/objects/")):
		return &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("%w of git-annex to a file that was not fetched; "+
			"`git annex get %s` fetches it", ErrPointer, Quote(path))}
	}
	return nil
}

// plainWord is a word that needs no quotes in a shell.
var plainWord = regexp.MustCompile(`^[\pL\pN_./\\:=@%+,-]+$`)

// Quote returns a path as one word of a shell command, for commands in messages.
func Quote(path string) string {
	switch {
	case strings.HasPrefix(path, "-"):
		path = "./" + path
	case plainWord.MatchString(path):
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
