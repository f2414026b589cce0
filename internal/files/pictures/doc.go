// Package pictures finds picture files by image id, decodes them (JPEG, PNG, WebP, GIF; the first frame of animations)
// and resizes them as Pillow does, so that a network sees the same pixels as in Python. A file is bounded in bytes and
// in pixels before memory is taken for it.
package pictures
