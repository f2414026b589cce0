package options

import (
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
)

// spelling draws a way to write a whole number of at least 0, and whether it may be read.
func spelling(rng *rand.Rand, n uint64) (text string, good bool) {
	bases := []struct {
		prefix string
		base   int
	}{{"", 10}, {"", 10}, {"0x", 16}, {"0X", 16}, {"0o", 8}, {"0b", 2}}
	b := bases[rng.IntN(len(bases))]
	digits := new(big.Int).SetUint64(n).Text(b.base)
	if rng.IntN(3) == 0 && len(digits) > 1 {
		i := 1 + rng.IntN(len(digits)-1)
		digits = digits[:i] + "_" + digits[i:]
	}
	kind := rng.IntN(12)
	if b.base != 10 && kind < 2 { // 0b1 of b1
		kind = 11
	}
	switch kind {
	case 0: // which other programs read as octal, as decimal, or not at all
		return "0" + digits, false
	case 1:
		return "00" + digits, false
	case 2:
		return b.prefix + digits + "_", false
	case 3:
		return b.prefix + "_" + digits + "__1", false
	case 4:
		return digits + ".0", false
	case 5:
		return digits + "e1", false
	case 6:
		return "٣" + digits, false
	}
	return b.prefix + digits, true
}

// A whole number is the one that is written, or none; what a message proposes is read, as the number that was meant.
func TestParseNumbers(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	refused := 0
	for range 20000 {
		n := rng.Uint64() >> rng.IntN(64)
		text, good := spelling(rng, n)
		got, err := ParseUint(text)
		if good != (err == nil) || good && got != n {
			t.Fatalf("%s: %d, %v, want %d, read %v", text, got, err, n, good)
		}
		if i, err := ParseInt("-" + text); n < 1<<63 && (good != (err == nil) || good && i != -int(n)) {
			t.Fatalf("-%s: %d, %v", text, i, err)
		}
		if x, err := ParseFloat(text); good && (err != nil && n < 1<<63 || err == nil && x != float64(n)) {
			t.Fatalf("%s as a float: %v, %v", text, x, err)
		}
		if good {
			continue
		}
		refused++
		says := LeadingZero(text)
		if says == "" {
			continue
		}
		_, proposed, _ := strings.Cut(says, "write ")
		decimal, octal, both := strings.Cut(proposed, ", or ")
		if strings.ContainsAny(decimal, ".e") || strings.HasSuffix(decimal, "_") || strings.Contains(decimal, "__") {
			continue
		}
		want, _ := new(big.Int).SetString(strings.ReplaceAll(text, "_", ""), 10)
		if x, err := ParseUint(decimal); want != nil && want.IsUint64() && (err != nil || x != want.Uint64()) {
			t.Fatalf("%s: %s, which is %d, %v", text, says, x, err)
		}
		if both {
			octal, _, _ = strings.Cut(octal, " ")
			want, _ := new(big.Int).SetString(strings.ReplaceAll(text, "_", ""), 8)
			if x, err := ParseUint(octal); want.IsUint64() && (err != nil || x != want.Uint64()) {
				t.Fatalf("%s: %s, which is %d, %v", text, says, x, err)
			}
		}
	}
	if refused < 5000 {
		t.Errorf("only %d spellings were refused", refused)
	}
}

func TestParseFloat(t *testing.T) {
	for text, want := range map[string]float64{"0": 0, "-0": math.Copysign(0, -1), "0.5": 0.5, ".5": 0.5, "5.": 5,
		"1e-3": 1e-3,
		"1E3":  1000, "+1.5e+2": 150, "1_000.5": 1000.5, "0x10": 16, "0b11": 3, "0o17": 15, "0e5": 0, "0.0": 0} {
		if x, err := ParseFloat(text); err != nil || x != want {
			t.Errorf("%s: %v, %v, want %v", text, x, err, want)
		}
	}
	for _, text := range []string{"", ".", "-", "010", "00", "08", "01.5", "-010", "+007", "0_1", "1e400", "1e-400",
		"inf", "nan",
		"Infinity", "0x1p-2", "1.5.2", "1e", "e5", "1 ", " 1", "1,5", "1_", "_1", "1__0", "0x", "0b2", "0o8", "١"} {
		if x, err := ParseFloat(text); err == nil {
			t.Errorf("%q is read as %v", text, x)
		}
	}
	for text, want := range map[string]string{"010": "010 has a leading zero: write 10, or 0o10 for the octal number",
		"08": "08 has a leading zero: write 8", "-007": "-007 has a leading zero: write -7, or -0o7 for the octal " +
			"number",
		"train=010": "010 has a leading zero: write 10, or 0o10 for the octal number",
		"00":        "00 has a leading zero: write 0", "0": "", "0.5": "", "10": "", "1.05": "", "0x10": "",
		"v0.01": ""} {
		if got := LeadingZero(text); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
