package view

import (
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"

	"vsetrain/internal/files/pictures"
	"vsetrain/internal/system/options"
)

// splitPictures are the picture files of the images of a split.
type splitPictures struct {
	gallery *pictures.Gallery // nil without a folder
	missing map[string]bool   // ids without a picture
}

// openPictures looks for the picture of every image; "" is no folder.
func openPictures(dir string, x searcher) (*splitPictures, error) {
	p := &splitPictures{missing: map[string]bool{}}
	if dir == "" {
		return p, nil
	}
	var err error
	if p.gallery, err = pictures.OpenGallery(dir); err != nil {
		return nil, err
	}
	for i := range x.Info().Images {
		id := x.Image(i).ID
		if _, err := p.gallery.Path(id); err != nil {
			p.missing[id] = true
		}
	}
	return p, nil
}

// has reports whether an image has a picture.
func (p *splitPictures) has(id string) bool { return p.gallery != nil && !p.missing[id] }

// maxPicture bounds the file that is sent.
const maxPicture = 64 << 20

// picture sends the picture of image i of an open split. The request has only a number; the name of the file comes from
// the ids file.
func (s *Server) picture(w http.ResponseWriter, hr *http.Request) {
	f := s.networks.openPicture(hr.URL.Query())
	if f == nil {
		http.NotFound(w, hr)
		return
	}
	defer f.Close()
	kind, st, err := pictureKind(f)
	if err != nil {
		http.NotFound(w, hr)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "private, max-age=600")
	http.ServeContent(w, hr, "", st.ModTime(), f)
}

// openPicture opens the picture that a request names; nil if there is none.
func (s *networks) openPicture(q url.Values) *os.File {
	b, release := s.acquire(keyOf(q))
	if b == nil {
		return nil
	}
	defer release()
	i, err := options.ParseInt(q.Get("i"))
	if err != nil || i < 0 || i >= b.index.Info().Images || !b.pictures.has(b.index.Image(i).ID) {
		return nil
	}
	f, err := b.pictures.gallery.Open(b.index.Image(i).ID)
	if err != nil {
		return nil
	}
	return f
}

// pictureKind returns the media type of a file by its first bytes, or an error if it is not a raster picture.
func pictureKind(f *os.File) (string, fs.FileInfo, error) {
	st, err := f.Stat()
	if err != nil {
		return "", nil, err
	}
	if !st.Mode().IsRegular() || st.Size() > maxPicture {
		return "", nil, errors.New("not a picture file")
	}
	head := make([]byte, 512)
	n, err := f.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return "", nil, err
	}
	switch kind := http.DetectContentType(head[:n]); kind {
	case "image/jpeg", "image/png", "image/gif", "image/webp", "image/bmp":
		return kind, st, nil
	}
	return "", nil, errors.New("not a picture file")
}
