// Package atomicfile replaces files as a whole. A new file is written beside its target under a hidden name, synced,
// and renamed over the target, and the folder is synced. So a kill, a power failure or a full disk leaves the earlier
// file as it was.
//
//	WriteFile  one file, written by a function
//	WriteNew   one file, which must not exist yet
//	Create     one file, written bit by bit: File
//	Set        several files that belong together, such as an array and its ids
//	MkdirTemp  a hidden folder for what becomes a folder
//
// Hidden names are .NAME.tmp-MACHINE-PROCESS-COUNT. What a killed process left behind is removed when the same target
// is written again.
//
// Why not google/renameio: it does the first of these alone, does not sync the folder, and cannot be made to fail by
// tests.
package atomicfile
