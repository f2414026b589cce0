package options

import (
	"fmt"
	"strconv"
)

// AutoInt is a positive whole number or "auto", which is stored as 0 and leaves the choice to the program.
type AutoInt int

// String returns "auto" or the number.
func (a AutoInt) String() string {
	if a == 0 {
		return "auto"
	}
	return strconv.Itoa(int(a))
}

// MarshalText implements encoding.TextMarshaler.
func (a AutoInt) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *AutoInt) UnmarshalText(b []byte) error {
	if string(b) == "auto" {
		*a = 0
		return nil
	}
	n, err := strconv.Atoi(string(b))
	if err != nil || n < 1 {
		return fmt.Errorf("expected auto or a whole number >= 1, found %q", b)
	}
	*a = AutoInt(n)
	return nil
}
