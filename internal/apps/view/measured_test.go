package view

import (
	"errors"
	"testing"
)

// What was found is not looked for again, as long as there is room; an error is.
func TestMemo(t *testing.T) {
	var found []int
	m := memo[int, int]{most: 2}
	for _, key := range []int{1, 1, 2, 1, -1, -1, 3, 1} {
		v, err := m.get(key, func() (int, error) {
			found = append(found, key)
			if key < 0 {
				return 0, errors.New("none")
			}
			return 10 * key, nil
		})
		if (err != nil) != (key < 0) || err == nil && v != 10*key {
			t.Errorf("%d: %d, %v", key, v, err)
		}
	}
	if want := 6; len(found) != want {
		t.Errorf("%v were looked for, expected %d", found, want)
	}
}
