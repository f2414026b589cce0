package options

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// PerSplit is a whole number of at least 1 for all splits of a data set, such as "5", or for each named split, such as
// "train=20,test=1". With "auto" or "" the files decide.
type PerSplit string

// PerSplitExpected describes a PerSplit in messages.
const PerSplitExpected = "auto, a whole number >= 1, or one for each split such as train=20,test=1"

// Of returns the number of a split; 0 is auto.
func (p PerSplit) Of(split string) int {
	for part := range strings.SplitSeq(string(p), ",") {
		name, number, named := strings.Cut(part, "=")
		if !named {
			number = name
		}
		if n, err := ParseInt(number); err == nil && (!named || name == split) {
			return n
		}
	}
	return 0
}

// String returns the text.
func (p PerSplit) String() string {
	if p == "" {
		return "auto"
	}
	return string(p)
}

// MarshalText implements encoding.TextMarshaler.
func (p PerSplit) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *PerSplit) UnmarshalText(b []byte) error {
	text := strings.ReplaceAll(string(b), " ", "")
	var names []string
	for part := range strings.SplitSeq(text, ",") {
		name, number, named := strings.Cut(part, "=")
		if !named {
			name, number = "", part
		}
		n, err := ParseInt(number)
		single := text == part && !named
		if single && part == "auto" {
			break
		}
		if err != nil || n < 1 || n > 1e6 || !named && !single || named && name == "" || slices.Contains(names, name) {
			text := fmt.Sprintf("expected %s, found %q", PerSplitExpected, b)
			if zero := LeadingZero(number); zero != "" {
				text += "; " + zero
			}
			return errors.New(text)
		}
		names = append(names, name)
	}
	*p = PerSplit(text)
	return nil
}
