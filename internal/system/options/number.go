package options

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Numbers that people write are read in one way, wherever they stand: in files, flags, variables and lists. They are
// decimal; whole ones may also be 0x40, 0o100 or 0b1000000, and _ may stand between digits. A leading zero is refused,
// because some programs take the digits after it as octal and others do not.
var (
	decimal     = regexp.MustCompile(`^[+-]?(\d+(_\d+)*(\.(\d+(_\d+)*)?)?|\.\d+(_\d+)*)([eE][+-]?\d+)?$`)
	based       = regexp.MustCompile(`^[+-]?0([xX](_?[0-9a-fA-F])+|[oO](_?[0-7])+|[bB](_?[01])+)$`)
	leadingZero = regexp.MustCompile(`(^|[^\w.+-])([+-]?)(0[0_]*)([0-9][0-9_]*)` +
		`(\.?[0-9_]*(?:[eE][+-]?[0-9]+)?)(?:$|[^\w.])`)
	octal = regexp.MustCompile(`^[0-7_]*$`)
)

// LeadingZero says what to write instead of the first number with a leading zero in a text: "010 has a leading zero:
// write 10, or 0o10 for the octal number". It is "" where there is none.
func LeadingZero(text string) string {
	m := leadingZero.FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	sign, zeros, digits, rest := m[2], m[3], m[4], m[5]
	says := fmt.Sprintf("%s has a leading zero: write %s", sign+zeros+digits+rest, sign+digits+rest)
	if rest == "" && octal.MatchString(digits) && strings.Trim(digits, "0_") != "" {
		says += fmt.Sprintf(", or %s0o%s for the octal number", sign, digits)
	}
	return says
}

// plain returns a number as package strconv reads it. It is an error where the text is none.
func plain(text, expected string, forms ...*regexp.Regexp) (string, error) {
	if zero := LeadingZero(text); zero != "" {
		return "", fmt.Errorf("expected %s; %s", expected, zero)
	}
	for _, form := range forms {
		if form.MatchString(text) {
			return strings.ReplaceAll(text, "_", ""), nil
		}
	}
	return "", fmt.Errorf("expected %s, found %q", expected, text)
}

// wholeForm is a decimal number without a fraction.
var wholeForm = regexp.MustCompile(`^[+-]?\d+(_\d+)*$`)

// ParseInt reads a whole number.
func ParseInt(text string) (int, error) {
	t, err := plain(text, "a whole number", wholeForm, based)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(t, 0, strconv.IntSize)
	if err != nil {
		return 0, fmt.Errorf("expected a whole number of %d bits, found %s", strconv.IntSize, text)
	}
	return int(n), nil
}

// ParseUint reads a whole number of at least 0.
func ParseUint(text string) (uint64, error) {
	t, err := plain(text, "a whole number >= 0", wholeForm, based)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(t, "+"), 0, 64)
	if err != nil {
		return 0, fmt.Errorf("expected a whole number from 0 to 2^64 - 1, found %s", text)
	}
	return n, nil
}

// ParseFloat reads a finite number. One that is too small for a float64 is refused as one that is too large is.
func ParseFloat(text string) (float64, error) {
	t, err := plain(text, "a number", decimal, based)
	if err != nil {
		return 0, err
	}
	if based.MatchString(t) {
		n, err := ParseInt(text)
		return float64(n), err
	}
	x, err := strconv.ParseFloat(t, 64)
	if err != nil || x == 0 && strings.ContainsAny(t[:mantissa(t)], "123456789") {
		return 0, fmt.Errorf("expected a number that a float64 holds, found %s", text)
	}
	return x, nil
}

// mantissa is the length of a number up to its exponent.
func mantissa(t string) int {
	if i := strings.IndexAny(t, "eE"); i >= 0 {
		return i
	}
	return len(t)
}
