package serve

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"vsetrain/lab/try"
)

// Pages on the list may ask, from a browser that asks beforehand without the token; others get no leave.
func TestOrigins(t *testing.T) {
	s := readyServer(t, Options{Token: "0123456789abcdef", Origins: []string{"https://search.example.org"}},
		map[string]Searcher{"test": &stub{}})
	plain := readyServer(t, Options{}, map[string]Searcher{"test": &stub{}})
	for _, c := range []struct {
		server         *Server
		method, origin string
		status         int
		allowed        string
	}{
		{s, "OPTIONS", "https://search.example.org", 204, "https://search.example.org"},
		{s, "POST", "https://search.example.org", 200, "https://search.example.org"},
		{s, "OPTIONS", "https://evil.example.org", 405, ""},
		{s, "POST", "https://search.example.org.evil.org", 200, ""},
		{s, "POST", "http://search.example.org", 200, ""},
		{s, "POST", "null", 200, ""},
		{plain, "OPTIONS", "https://search.example.org", 405, ""},
		{plain, "POST", "https://search.example.org", 200, ""},
	} {
		headers := []string{"Origin: " + c.origin, "Authorization: Bearer 0123456789abcdef"}
		if c.status == 204 {
			headers = headers[:1]
		}
		r := do(c.server, c.method, "/v1/search", `{"query":"dog"}`, headers...)
		if r.StatusCode != c.status || r.Header.Get("Access-Control-Allow-Origin") != c.allowed {
			t.Errorf("%s from %s: %d, %q", c.method, c.origin, r.StatusCode,
				r.Header.Get("Access-Control-Allow-Origin"))
		}
		if methods := r.Header.Get("Access-Control-Allow-Methods"); (methods != "") != (c.status == 204) {
			t.Errorf("%s from %s: methods %q", c.method, c.origin, methods)
		}
		if (r.Header.Get("Vary") == "Origin") != (c.server == s) {
			t.Errorf("%s from %s: Vary %q", c.method, c.origin, r.Header.Get("Vary"))
		}
	}
	for _, bad := range []string{"*", "search.example.org", "https://search.example.org/", "ftp://a", "https://"} {
		try.Refuses(New(Options{Splits: []string{"test"}, Origins: []string{bad}}))(t, "--allow-origin")
	}
}

// The log has the trace that a request names as the W3C describes it.
func TestTraces(t *testing.T) {
	var log bytes.Buffer
	s := readyServer(t, Options{Log: &log}, map[string]Searcher{"test": &stub{}})
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	for header, want := range map[string]bool{"00-" + trace + "-00f067aa0ba902b7-01": true,
		"00-" + strings.Repeat("0", 32) + "-00f067aa0ba902b7-01": false, "00-" + trace + "-00f067aa0ba902b7": false,
		"ff-" + trace + "-00f067aa0ba902b7-01": false, "": false,
		strings.ToUpper("00-" + trace + "-00f067aa0ba902b7-01"): false} {
		log.Reset()
		if r := do(s, http.MethodGet, "/healthz", "", "Traceparent: "+header); r.StatusCode != 200 {
			t.Errorf("%d", r.StatusCode)
		}
		if got := strings.Contains(log.String(), " trace="+trace+"\n"); got != want {
			t.Errorf("%q: %s", header, log.String())
		}
	}
}
