package ui

import (
	"fmt"
	"strings"
)

// Bytes formats a size in decimal units: 812 B, 3.4 MB, 33.4 GB.
func Bytes(n int64) string {
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	x := float64(n)
	for _, unit := range []string{"kB", "MB", "GB"} {
		x /= 1000
		if x < 999.5 {
			return fmt.Sprintf("%.3g %s", x, unit)
		}
	}
	return fmt.Sprintf("%.3g TB", x/1000)
}

// Count formats a number with its noun in the singular or plural: 1 epoch, 2 epochs, 0 batches.
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	ending := "s"
	if strings.HasSuffix(what, "tch") || strings.HasSuffix(what, "s") {
		ending = "es"
	}
	return fmt.Sprintf("%d %s%s", n, what, ending)
}
