package view

import (
	"fmt"
	"html/template"
	"net/url"
	"strings"
	"time"

	"vsetrain/internal/apps/chart"
)

// functions are the functions of templates.
var functions = template.FuncMap{
	"asset":   func(name string) string { return "/assets/" + name + "?v=" + assetVersion },
	"percent": func(v float64) string { return fmt.Sprintf("%.0f %%", 100*v) },
	"fixed":   func(digits int, v float64) string { return minus(fmt.Sprintf("%.*f", digits, v)) },
	"signed":  func(digits int, v float64) string { return minus(fmt.Sprintf("%+.*f", digits, v)) },
	"number":  chart.Number,
	"at":      func(a chart.Axis, v float64) string { return chart.Coordinate(a.At(v)) },
	"class":   class,
	"add":     func(a, b int) int { return a + b },
	"when": func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.Local().Format("2006-01-02 15:04:05")
	},
	"join":  func(s []string) string { return strings.Join(s, " ") },
	"run":   func(id string) string { return "/run?" + url.Values{"id": {id}}.Encode() },
	"dot":   func(class string) bool { return strings.HasSuffix(class, " dot") },
	"faint": func(class string) bool { return strings.Contains(class, "faint") },
	"grey":  func(class string) bool { return strings.HasPrefix(class, "trial") },
	"bytes": func(n uint64) string { return fmt.Sprintf("%.1f GB", float64(n)/1e9) },
}

// minus replaces a hyphen by the minus sign, which is as wide as a plus.
func minus(number string) string { return strings.Replace(number, "-", "\u2212", 1) }
