package options

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Numbers in files, flags, variables and lists have one syntax. They are decimal; whole numbers may also be 0x40, 0o100
// or 0b1000000, and _ may separate digits. A leading zero is an error, because some programs read the digits after it
// as octal and others do not.
var (
	decimal     = regexp.MustCompile(`^[+-]?(\d+(_\d+)*(\.(\d+(_\d+)*)?)?|\.\d+(_\d+)*)([eE][+-]?\d+)?$`)
	based       = regexp.MustCompile(`^[+-]?0([xX](_?[0-9a-fA-F])+|[oO](_?[0-7])+|[bB](_?[01])+)$`)
	leadingZero = regexp.MustCompile(`(^|[^\w.+-])([+-]?)(0[0_]*)([0-9][0-9_]*)` +
		`(\.?[0-9_]*(?:[eE][+-]?[0-9]+)?)(?:$|[^\w.])`)
	octal = regexp.MustCompile(`^[0-7_]*$`)
)

// LeadingZero says what to write instead of the first number with a leading zero in a text: "010 has a leading zero:
// write 10, or 0o10 for the octal number". It returns "" if there is no such number.
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

// plain returns a number in the syntax of package strconv. It is an error if the text has none of the forms.
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

// ParseFloat reads a finite number. It is an error if a float64 cannot hold it, because it is too large or too small.
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
	mantissa, _, _ := strings.Cut(strings.ToLower(t), "e")
	if err != nil || x == 0 && strings.ContainsAny(mantissa, "123456789") {
		return 0, fmt.Errorf("expected a number that a float64 holds, found %s", text)
	}
	return x, nil
}
