package ui

import "fmt"

// Bytes writes a size in decimal units: 812 B, 3.4 MB, 33.4 GB.
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
