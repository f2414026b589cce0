// Package chart draws all figures, in files and in pages, in one style: colours, font, axes and number formats. The
// pages of internal/apps/view use its colours, axes and lines with a style sheet.
package chart

import (
	"fmt"
	"image/color"
	"strings"
)

// family lists the fonts in SVG and CSS. All of them have the widths of Liberation Sans, by which labels are placed.
const family = "'Liberation Sans',Arial,Helvetica,sans-serif"

// colour is a colour of the palette on light and on dark backgrounds.
type colour struct{ light, dark color.RGBA }

// palette holds the colours of Okabe and Ito ("Color Universal Design", 2008), which colour-blind readers can
// distinguish: darker for thin lines on white, lighter on black.
var palette = []colour{
	{rgb(0x0072b2), rgb(0x56b4e9)},
	{rgb(0xc14f00), rgb(0xf08a4b)},
	{rgb(0x00835d), rgb(0x3fc79a)},
	{rgb(0xb3508a), rgb(0xe08fc0)},
	{rgb(0xa06d00), rgb(0xe6b13a)},
	{rgb(0x2c8ec4), rgb(0x8fd0f5)},
	{rgb(0x444b52), rgb(0xc4cad0)},
	{rgb(0x7b5cc4), rgb(0xb19df0)},
}

// Colours is the number of colours in the palette.
var Colours = len(palette)

func rgb(v uint32) color.RGBA { return color.RGBA{uint8(v >> 16), uint8(v >> 8), uint8(v), 255} }

// Hex returns a colour as #RRGGBB.
func Hex(c color.RGBA) string { return fmt.Sprintf("#%02X%02X%02X", c.R, c.G, c.B) }

// Colour returns colour i of the palette on a light background; after its last colour the palette repeats.
func Colour(i int) color.RGBA { return palette[i%len(palette)].light }

// Variable returns the CSS variable of colour i of the palette.
func Variable(i int) string { return fmt.Sprintf("--s%d", i%len(palette)) }

// DashClass returns the CSS class with the dashes of series i.
func DashClass(i int) string { return fmt.Sprintf("d%d", i%len(dashes)) }

// CSS declares the font as --chart-font, Marker as --marker and the palette as variables --s0, --s1 ... The palette
// follows the light or dark theme of the system, unless data-theme of <html> chooses one. The dashes of series are
// classes.
func CSS() string {
	declare := func(of func(colour) color.RGBA) string {
		var b strings.Builder
		for i, c := range palette {
			fmt.Fprintf(&b, "%s:%s;", Variable(i), Hex(of(c)))
		}
		return b.String()
	}
	light := declare(func(c colour) color.RGBA { return c.light })
	dark := declare(func(c colour) color.RGBA { return c.dark })
	broken := ""
	for i, d := range dashes {
		if d != nil {
			broken += fmt.Sprintf(".%s{stroke-dasharray:%s}\n", DashClass(i), strings.Trim(fmt.Sprint(d), "[]"))
		}
	}
	return broken + ":root{--chart-font:" + family + ";--marker:" + Hex(Marker) + ";" + light + "}\n" +
		`@media (prefers-color-scheme: dark){:root:not([data-theme="light"]){` + dark + "}}\n" +
		`:root[data-theme="dark"]{` + dark + "}\n"
}

// Grey is the colour of grids, Soft the colour of axes and their numbers, Black the colour of other text.
var (
	Grey  = rgb(0xdcdfe2)
	Soft  = rgb(0x5d6368)
	Black = rgb(0)
	white = rgb(0xffffff)
)

// variables maps the colours of a file to CSS values for a page.
var variables = func() map[color.RGBA]string {
	m := map[color.RGBA]string{Black: "currentColor", white: "var(--ground)", Grey: "var(--line)", Soft: "var(--faint)"}
	for i, c := range palette {
		m[c.light] = "var(" + Variable(i) + ")"
	}
	return m
}()

// Marker is the colour of lines over pictures, between black lines.
var Marker = rgb(0xffcf33)

// stops are the colours of ramp, with decreasing lightness.
var stops = []color.RGBA{rgb(0xc8d6e5), rgb(0x9db8d2), rgb(0xb0a08c), rgb(0xd07a35), rgb(0xb34700)}

// ramp returns the colour for t in [0, 1]: from pale blue for low values to dark orange for high values.
func ramp(t float64) color.RGBA { return Between(stops, t) }

// Between interpolates linearly between equidistant colours, at t in [0, 1].
func Between(stops []color.RGBA, t float64) color.RGBA {
	x := min(max(t, 0), 1) * float64(len(stops)-1)
	i := min(int(x), len(stops)-2)
	a, b := stops[i], stops[i+1]
	mix := func(a, b uint8) uint8 { return uint8(float64(a) + (x-float64(i))*(float64(b)-float64(a)) + 0.5) }
	return color.RGBA{mix(a.R, b.R), mix(a.G, b.G), mix(a.B, b.B), 255}
}
