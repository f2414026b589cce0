// Package integrity tells whether files are as they were written.
//
//	Sum       size, SHA-256 and CRCs of the blocks of a file
//	Manifest  the sums of the files of a folder, which lie in it
//	Mark      tells versions of a file apart without reading all of it
//	Seal      gives a small text its SHA-256 on a line of its own
//
// Checkpoints carry a checksum in their format (safetensors.WriteSealed).
package integrity
