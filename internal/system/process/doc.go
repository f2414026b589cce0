// Package process tells whether a process of this machine still runs. A file that names its process, such as a claim or
// a temporary file, can so be told from one that was left behind.
package process
