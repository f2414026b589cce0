//go:build !linux || !amd64

package emulator

import "testing"

// Set skips the test: there is no emulator on this system.
func Set(t testing.TB, _ string, _, _ int) { t.Helper(); Library(t) }

// Mend skips the test.
func Mend(t testing.TB) { t.Helper(); Library(t) }

// Launches skips the test.
func Launches(t testing.TB) int { t.Helper(); Library(t); return 0 }

// Uploaded skips the test.
func Uploaded(t testing.TB) int { t.Helper(); Library(t); return 0 }

// Finished skips the test.
func Finished(t testing.TB) int { t.Helper(); Library(t); return 0 }

// Violations skips the test.
func Violations(t testing.TB) string { t.Helper(); Strict(t); return "" }

// StrictGPU skips the test.
func StrictGPU(t testing.TB, _ int, _ bool) { t.Helper(); Strict(t) }
