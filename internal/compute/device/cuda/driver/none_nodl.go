//go:build nodl

package driver

import "errors"

// ErrNone says why this program has no CUDA; it is nil if it has.
var ErrNone = errors.New("this program is the static build, which loads no libraries and so has no CUDA; use the " +
	"other build of vsetrain, which needs glibc (make build; docs/faq.md)")
