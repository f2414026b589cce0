package data

// ImageSize returns the width and height in pixels of the picture of a feature row; 0, 0 without boxes.
func (s *Split) ImageSize(row int) (width, height float32) {
	if s.boxes == nil {
		return 0, 0
	}
	return s.boxes.sizes[2*row], s.boxes.sizes[2*row+1]
}
