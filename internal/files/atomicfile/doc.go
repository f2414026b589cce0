// Package atomicfile replaces files as a whole. It writes a new file in the folder of its target under a hidden name,
// syncs it, renames it over the target, and syncs the folder. So a kill, a power failure or a full disk leaves the
// earlier file unchanged.
//
//	WriteFile  one file, written by a function
//	WriteNew   one file, which must not exist yet
//	Create     one file, written in pieces: File
//	Set        several files that belong together, such as an array and its ids
//	MkdirTemp  a hidden folder that becomes a folder
//
// Hidden names are .NAME.tmp-MACHINE-PROCESS-COUNT. The next write of the same target removes what a killed process
// left behind.
//
// Why not google/renameio: it has only WriteFile, does not sync the folder, and tests cannot make it fail.
package atomicfile
