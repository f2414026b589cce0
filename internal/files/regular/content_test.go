package regular

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"vsetrain/lab/try"
)

// wide encodes text in UTF-16.
func wide(text string, order binary.AppendByteOrder, mark bool) string {
	var b []byte
	if mark {
		text = "\ufeff" + text
	}
	for _, u := range utf16.Encode([]rune(text)) {
		b = order.AppendUint16(b, u)
	}
	return string(b)
}

// member begins a zip archive with a member of this name.
func member(name string) string {
	return "PK\x03\x04" + strings.Repeat("\x14", 22) + string([]byte{byte(len(name)), 0, 0, 0}) + name + "data"
}

const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"

func TestContent(t *testing.T) {
	long := strings.Repeat("a dog runs in the street .\n", 400)
	for _, c := range []struct {
		begin  string
		format Format
		says   string
	}{
		{"\x93NUMPY\x01\x00", NPY, "name should end in .npy"},
		{member("features.npy"), NPZ, "with the array features; its name should end in .npz"},
		{member("archive/data.pkl"), Torch, "a file of PyTorch"},
		{member("x/version"), Torch, "a file of PyTorch"},
		{"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03.", Torch, "a file of PyTorch"},
		{member("pictures/1.jpg"), "zip", `begins with the member "pictures/1.jpg"; ` + "`unzip 'my file'`"},
		{"PK\x05\x06" + strings.Repeat("\x00", 18), "zip", "a zip archive"},
		{"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00}\x94.", Pickle, "a pickle of Python"},
		{"(dp0\nS'word2idx'\np1\n", Pickle, "a pickle of Python"},
		{"\x40\x00\x00\x00\x00\x00\x00\x00{\"a\":{\"dtype\":\"F32\"", Safetensors, "name should end in .safetensors"},
		{"\x89HDF\r\n\x1a\n\x00", "hdf5", "docs/data.md"},
		{"\x1f\x8b\x08\x08", "gzip", "`gzip -dc 'my file' > NEW` unpacks it"},
		{"BZh91AY&SY", "bzip2", "bzip2 -dc"},
		{"\xfd7zXZ\x00\x00", "xz", "xz -dc"},
		{"\x28\xb5\x2f\xfd\x04", "zstd", "zstd -dc"},
		{"7z\xbc\xaf\x27\x1c\x00", "7z", "7z x"},
		{"Rar!\x1a\x07\x01\x00", "rar", "unrar x"},
		{"features/" + strings.Repeat("\x00", 248) + "ustar\x0000", "tar", "tar -xf"},
		{"\xff\xd8\xff\xe0\x00\x10JFIF", Picture, "data extract"},
		{"RIFF\x24\x00\x00\x00WEBPVP8 ", Picture, "data extract"},
		{"\n<!DOCTYPE html>\n<html><head>\n<title>Google Drive - Virus scan warning</title>", "html",
			`a web page (HTML) with the title "Google Drive - Virus scan warning"`},
		{"\ufeff<HTML>\n<body>" + long, "html", "a web page (HTML), saved in place of the file"},
		{"<?xml version=\"1.0\"?>\n<Error><Code>AccessDenied</Code>", "xml", "XML"},
		{`{"images": [{"filename": "a.jpg"}]}`, JSON, `JSON that begins with "{\"images\": [{`},
		{`[[[0, 2], [2, 1]],` + "\n" + strings.Repeat(" [[0, 1]],\n", 900), JSON, "JSON"},
		{"a\tdog\nthe\tcat\n", Table, `a table whose first line is "a\tdog"`},
		{"image,caption\n1.jpg,a dog\n2.jpg,a cat\n", Table, `a table whose first line is "image,caption"`},
		{long, Text, `text that begins with "a dog runs in the street ."`},
		{"a dog , a cat\na man\n", Text, "text"},
		{"[1] a dog\n" + long, Text, "text"},
		{"[1] a dog\n", Text, "text"}, {"{ 0.1 0.2\n", Text, "text"}, {"[ 0.1 0.2\n", Text, "text"},
		{"<unk> 0.1\n", Text, "text"}, {"zwei Hunde spielen im Schnee. Größe\n", Text, "text"},
		{wide("a dog\n", binary.LittleEndian, true), "utf16",
			`in UTF-16 that begins with "a dog"; ` + "`iconv -f UTF-16"},
		{wide("a dog\n", binary.BigEndian, true), "utf16", `"a dog"`},
		{wide("a dog\n", binary.LittleEndian, false), "utf16", `"a dog"`},
		{wide("a dog\n", binary.BigEndian, false), "utf16", `"a dog"`},
		{"", "empty", "empty"},
		{strings.Repeat("\x00", 600), "zeros", "nothing but zeros in its first 600 bytes"},
		{"caf\xe9\n", "", ""}, {"\x00\x01\x02\x03\x7f", "", ""},
		{strings.Repeat("a", Sniffed-1) + "é", Text, "text"}, // cut within a character
	} {
		format, says := Content([]byte(c.begin)[:min(len(c.begin), Sniffed)], "my file")
		if format != c.format || !strings.Contains(says, c.says) {
			t.Errorf("%.40q: %q, %q; want %q, %q", c.begin, format, says, c.format, c.says)
		}
	}
}

// A pointer that Git left is told wherever a file is opened; a reader that expects another format says what it found.
func TestOpenPointer(t *testing.T) {
	dir := try.Files(t, map[string]string{"lfs": pointer, "annex": "/annex/objects/SHA256E-s9--0.npy\n",
		"text": "a dog\n", "zip": member("a.npy"), "json": "[1]", "utf16": wide("a dog\n", binary.LittleEndian, true),
		"latin1": "a dog\ncaf\xe9\n", "zero": "a\x00b\n"})
	at := func(name string) string { return filepath.Join(dir, name) }
	try.Refuses(ReadFile(at("lfs"), 1000, "a test"))(t, "lfs", "a pointer of Git LFS to a file of 12345 bytes",
		"`git lfs pull`")
	if _, err := ReadFile(at("annex"), 100, "a test"); !errors.Is(err, ErrPointer) {
		t.Errorf("git-annex: %v", err)
	}
	mistake := errors.New("no text")
	for _, name := range []string{"text", "nothing", "lfs"} { // is right, or cannot be read
		if err := Explain(mistake, at(name), Text); err != mistake {
			t.Errorf("%s is explained: %v", name, err)
		}
	}
	if got := Explain(mistake, at("zip"), Text); !errors.Is(got, mistake) {
		t.Errorf("the mistake is gone: %v", got)
	}
	try.Fails(t, Explain(mistake, at("zip"), Text), "no text; the file is a NumPy archive")
	try.Fails(t, Expect(at("zip"), "words", Text), "zip: expected words; the file is a NumPy archive")
	try.Do(t, errors.Join(Explain(nil, at("zip")), Expect(at("text"), "words", Text),
		Expect(at("latin1"), "words", Text)))

	if s, err := ReadText(at("text"), 6, "captions"); s != "a dog\n" || err != nil {
		t.Errorf("%q, %v", s, err)
	}
	for name, want := range map[string]string{"zip": "zip:1: expected captions as text in UTF-8, found", "json": "JSON",
		"utf16": "iconv -f UTF-16",
		"latin1": "latin1:2: expected captions as text in UTF-8, found bytes that are not UTF-8; the file is text of " +
			"another encoding, such as Latin-1; `iconv -f LATIN1",
		"zero": "zero:1: expected captions as text in UTF-8, found a zero byte", "lfs": "git lfs pull",
		"nothing": "no such file"} {
		try.Refuses(ReadText(at(name), 1000, "captions"))(t, want)
	}
	try.Refuses(ReadText(at("text"), 5, "captions"))(t, "too large", "expected captions of at most 5")
}

// The commands that messages name turn the file into the text that it holds.
func TestRemedies(t *testing.T) {
	const text = "a dog runs\nGröße\n"
	var gz, archive, zipped bytes.Buffer
	z := gzip.NewWriter(&gz)
	try.Get(z.Write([]byte(text)))(t)
	tw := tar.NewWriter(&archive)
	try.Do(t, tw.WriteHeader(&tar.Header{Name: "NEW", Mode: 0o644, Size: int64(len(text)), Format: tar.FormatUSTAR}))
	try.Get(tw.Write([]byte(text)))(t)
	zw := zip.NewWriter(&zipped)
	member := try.Get(zw.Create("NEW"))(t)
	try.Get(member.Write([]byte(text)))(t)
	try.Do(t, errors.Join(z.Close(), tw.Close(), zw.Close()))
	latin := strings.ReplaceAll(strings.ReplaceAll(text, "ö", "\xf6"), "ß", "\xdf")
	for name, content := range map[string]string{"gzip": gz.String(), "tar": archive.String(), "zip": zipped.String(),
		"utf16": wide(text, binary.LittleEndian, true), "utf16be": wide(text, binary.BigEndian, true),
		"latin1": latin} {
		dir := try.Files(t, map[string]string{"my file": content})
		_, err := ReadText(filepath.Join(dir, "my file"), 1<<20, "captions")
		try.Fails(t, err, "the file is")
		_, run, _ := strings.Cut(err.Error(), "`")
		run, _, _ = strings.Cut(run, "`")
		if tool, _, _ := strings.Cut(run, " "); tool == "" {
			t.Errorf("%s: no command in %v", name, err)
		} else if _, missing := exec.LookPath(tool); missing != nil {
			t.Logf("%s: %v", name, missing)
			continue
		}
		cmd := exec.Command("sh", "-c", run)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		got, readErr := os.ReadFile(filepath.Join(dir, "NEW"))
		if err := errors.Join(err, readErr); err != nil || strings.TrimPrefix(string(got), "\ufeff") != text {
			t.Errorf("%s: %s: %v %s: %q", name, run, err, out, got)
		}
	}
}

func TestQuote(t *testing.T) {
	for path, want := range map[string]string{"data/a.npy": "data/a.npy", `C:\x\a.npy`: `C:\x\a.npy`,
		"my data": "'my data'", `a\b c`: `'a\b c'`, "it's": `'it'\''s'`, "-x": "'./-x'",
		"a$b": "'a$b'", "größe.npy": "größe.npy", "": "''"} {
		if got := Quote(path); got != want {
			t.Errorf("%q: %s, want %s", path, got, want)
		}
	}
}

func FuzzContent(f *testing.F) {
	for _, s := range []string{pointer, member("a.npy"), "[1, 2", "\xff\xfe", "<html", "PK\x03\x04", "\x00"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		format, says := Content(b[:min(len(b), Sniffed)], "x")
		if (format == "") != (says == "") {
			t.Errorf("%q, %q", format, says)
		}
	})
}
