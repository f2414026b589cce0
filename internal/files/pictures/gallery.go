package pictures

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Endings are the endings of picture files, in the order in which Gallery looks for them.
var Endings = []string{".jpg", ".jpeg", ".png", ".webp", ".gif"}

// Gallery finds the picture files of images in a folder.
type Gallery struct{ dir string }

// FolderOf returns the folder of pictures of a data set: named, or else the folder images of the data set; "" if there
// is none.
func FolderOf(named, data string) string {
	if named != "" || data == "" {
		return named
	}
	dir := filepath.Join(data, "images")
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return ""
	}
	return dir
}

// OpenGallery opens a folder of pictures. It is an error if there is no folder.
func OpenGallery(dir string) (*Gallery, error) {
	switch st, err := os.Stat(dir); {
	case err != nil:
		return nil, fmt.Errorf("folder of pictures: %w", err)
	case !st.IsDir():
		return nil, fmt.Errorf("folder of pictures: %s is a file", dir)
	}
	return &Gallery{dir}, nil
}

// Path returns the picture of an image id: the file of that name, or of that name and one of Endings. An id that would
// leave the folder or has no file is an error (fs.ErrNotExist).
func (g *Gallery) Path(id string) (string, error) {
	for _, end := range append([]string{""}, Endings...) {
		name := filepath.FromSlash(id + end)
		if !filepath.IsLocal(name) {
			continue
		}
		path := filepath.Join(g.dir, name)
		if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s: no picture of image %q: %w", g.dir, id, fs.ErrNotExist)
}

// Open opens the picture of an image id. A link that leads outside the folder is an error.
func (g *Gallery) Open(id string) (*os.File, error) {
	path, err := g.Path(id)
	if err != nil {
		return nil, err
	}
	rel, err := filepath.Rel(g.dir, path)
	if err != nil {
		return nil, err
	}
	return os.OpenInRoot(g.dir, rel)
}
