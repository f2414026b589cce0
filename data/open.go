package data

// OpenOptions says how Open reads a split. The zero value reads what the files hold and refuses what does not
// fit together.
type OpenOptions struct {
	// CaptionsPerImage is k; 0 derives it from the files (see Split.CaptionsPerImage).
	CaptionsPerImage int

	// FeatureDType insists on "f32" or "f16" features; "" and "auto" accept both.
	FeatureDType string

	// Semantics names an .npy matrix [captions, k] of semantic vectors; "" reads none.
	Semantics string

	// MaxCaptions keeps the first so many captions. 0 is the field's rule: 5,000 for the dev split, all for
	// others. A negative number keeps all.
	MaxCaptions int

	// AllowEmpty accepts captions without a word, which the references train on as <start> <end>.
	AllowEmpty bool
}

// RowSource is a matrix that is read row by row: a memory-mapped .npy file, or any stand-in.
type RowSource interface {
	Rows() int
	RowLen() int
	ReadRow(dst []float32, row int) error
}
