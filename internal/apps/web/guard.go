package web

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"unicode"
)

// MaxQuery bounds the query of a URL, in bytes.
const MaxQuery = 1 << 14

// guard refuses requests with a foreign host or a long query.
func (s *Site) guard(r *http.Request) error {
	switch {
	case (s.AnyHost == nil || !s.AnyHost()) && !allowedHost(r.Host, s.Hosts):
		return Errorf(http.StatusMisdirectedRequest, "host", "this server answers to localhost and IP addresses only; "+
			"allow a host name with --allow-host NAME")
	case len(r.URL.RawQuery) > MaxQuery:
		return Errorf(http.StatusRequestURITooLong, "long_query", "expected a query of at most %d bytes, found %d",
			MaxQuery, len(r.URL.RawQuery))
	}
	return nil
}

// allowedHost reports whether a Host header, with or without port, is localhost, an IP address or one of the names. In
// DNS rebinding, a foreign page points its own name at this machine, and the browser sends that name.
func allowedHost(host string, names []string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	} else if inside, ok := strings.CutPrefix(host, "["); ok { // an IPv6 address without port
		if host, ok = strings.CutSuffix(inside, "]"); !ok {
			return false
		}
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if host == "localhost" || slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, host) }) {
		return true
	}
	_, err := netip.ParseAddr(host)
	return err == nil
}

// CheckHosts returns an error for the first name that cannot be in Site.Hosts.
func CheckHosts(names []string) error {
	for _, h := range names {
		if _, _, err := net.SplitHostPort(h); err == nil || h == "" {
			return fmt.Errorf("--allow-host %q: expected a name without port", h)
		}
	}
	return nil
}

// Bears reports whether a request carries a bearer token, in constant time.
func Bears(r *http.Request, token string) bool {
	scheme, bearer, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	got, want := sha256.Sum256([]byte(strings.TrimSpace(bearer))), sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1 && strings.EqualFold(scheme, "Bearer")
}

// leastToken is the length of the shortest token that is accepted.
const leastToken = 16

// CheckToken returns an error for a token that cannot be used; "" is no token.
func CheckToken(token string) error {
	if token == "" {
		return nil
	}
	if len(token) < leastToken {
		return fmt.Errorf("a token of %d characters; expected at least %d, such as from: openssl rand -hex 32",
			len(token), leastToken)
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r > unicode.MaxASCII || r <= ' ' || r == 0x7f }) {
		return errors.New("a token with spaces or non-ASCII characters; expected one word")
	}
	return nil
}

// ReadToken reads the token in a file, with or without a newline at the end.
func ReadToken(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("token file: %w", err)
	}
	defer f.Close()
	const most = 4096
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return "", fmt.Errorf("token file: %w", err)
	}
	token := strings.TrimSpace(string(b))
	if len(b) > most || token == "" {
		return "", fmt.Errorf("token file %s: expected one line with the token", path)
	}
	if err := CheckToken(token); err != nil {
		return "", fmt.Errorf("token file %s: %w", path, err)
	}
	return token, nil
}
