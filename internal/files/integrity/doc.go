// Package integrity checks whether files are as they were written.
//
//	Sum       size, SHA-256 and CRCs of the blocks of a file
//	Manifest  the sums of the files of a folder, in a file of that folder
//	Mark      distinguishes versions of a file without reading all of it
//	Seal      adds the SHA-256 of a small text to it
//
// Checkpoints have a checksum in their format (safetensors.WriteSealed).
package integrity
