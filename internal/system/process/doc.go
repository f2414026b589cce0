// Package process reports whether a process of this machine runs, to recognise files that name their process, such as
// claims and temporary files, as left behind.
package process
