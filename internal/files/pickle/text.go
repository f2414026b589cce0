package pickle

import (
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The text forms of protocol 0.

func textIndex(s string) uint64 {
	i, err := strconv.ParseUint(strings.TrimSuffix(s, "L"), 10, 64)
	if err != nil {
		failf("memo index %.100q is not a number", s)
	}
	return i
}

// textInt reads "12", "12L" and the bools "00", "01" of protocol 1.
func textInt(s string) any {
	switch s {
	case "00":
		return false
	case "01":
		return true
	}
	if len(s) > 2*maxIntBytes {
		failf("integer of %d digits: at most %d are read", len(s), 2*maxIntBytes)
	}
	v, ok := new(big.Int).SetString(strings.TrimSuffix(s, "L"), 10)
	if !ok {
		failf("%.100q is not an integer", s)
	}
	return shortInt(v)
}

func textFloat(s string) float64 {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil && v == 0 {
		failf("%.100q is not a float", s)
	}
	return v
}

// quoted reads a byte string in Python's quotes and escapes.
func quoted(s string) []byte {
	s = strings.TrimRight(s, " \r")
	if len(s) < 2 || s[0] != '\'' && s[0] != '"' || s[len(s)-1] != s[0] {
		failf("string %.100q without quotes", s)
	}
	s = s[1 : len(s)-1]
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b = append(b, s[i])
			continue
		}
		if i++; i == len(s) {
			failf("string ends in a backslash")
		}
		switch c := s[i]; c {
		case '\\', '\'', '"':
			b = append(b, c)
		case 'a', 'b', 'f', 'n', 'r', 't', 'v':
			b = append(b, "\a\b\f\n\r\t\v"[strings.IndexByte("abfnrtv", c)])
		case 'x':
			v, err := strconv.ParseUint(s[i+1:min(i+3, len(s))], 16, 8)
			if err != nil || i+3 > len(s) {
				failf("bad escape in string %.100q", s)
			}
			b = append(b, byte(v))
			i += 2
		default:
			failf("unknown escape \\%c in string %.100q", c, s)
		}
	}
	return b
}

// escaped reads a str in Python's raw-unicode-escape: Latin-1 bytes with \uXXXX and \UXXXXXXXX.
func escaped(s string) string {
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		digits := 0
		if s[i] == '\\' && i+1 < len(s) {
			switch s[i+1] {
			case 'u':
				digits = 4
			case 'U':
				digits = 8
			}
		}
		if digits == 0 {
			b = utf8.AppendRune(b, rune(s[i]))
			continue
		}
		end := i + 2 + digits
		v, err := strconv.ParseUint(s[i+2:min(end, len(s))], 16, 32)
		if err != nil || end > len(s) {
			failf("bad escape in string %.100q", s)
		}
		b = utf8.AppendRune(b, rune(min(v, utf8.MaxRune+1)))
		i = end - 1
	}
	return string(b)
}
