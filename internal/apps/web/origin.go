package web

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// CheckOrigins returns an error for the first origin that AllowOrigin cannot use.
func CheckOrigins(list []string) error {
	for _, origin := range list {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || origin != u.Scheme+"://"+u.Host {
			return fmt.Errorf("--allow-origin %q: expected an origin such as https://search.example.org, without a "+
				"path", origin)
		}
	}
	return nil
}

// AllowOrigin reports whether the origin of a request is on the list. If it is, scripts of the page may read the answer
// (CORS, https://fetch.spec.whatwg.org); browsers keep it from all others.
func AllowOrigin(list []string, h http.Header, r *http.Request) bool {
	if len(list) == 0 {
		return false
	}
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if !slices.Contains(list, strings.ToLower(origin)) {
		return false
	}
	h.Set("Access-Control-Allow-Origin", origin)
	if r.Method == http.MethodOptions { // a preflight request, which has no token
		h.Set("Access-Control-Allow-Methods", "GET, POST")
		h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Traceparent")
		h.Set("Access-Control-Max-Age", "600")
	}
	return true
}

// traceparent is the header of version 00 (https://www.w3.org/TR/trace-context/): trace, parent and flags.
var traceparent = regexp.MustCompile(`^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}$`)

// Trace returns the trace id of a request, or "".
func Trace(r *http.Request) string {
	m := traceparent.FindStringSubmatch(r.Header.Get("Traceparent"))
	if m == nil || strings.HasPrefix(m[0], "ff") || strings.Trim(m[1], "0") == "" {
		return ""
	}
	return m[1]
}
