package view

import (
	"log"
	"net/http"

	"vsetrain/internal/system/bind"
)

// Limits of a request.
const (
	maxBody  = 1 << 16
	maxQuery = 1 << 14
)

// policy lets a page load its own files and nothing else; no script or style in the page itself is run.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// guard checks every request before a page sees it.
//
//   - The Host header is an IP address, localhost or a name that was allowed. A page elsewhere that points its own name
//     at this address (DNS rebinding) sends its own name and is refused.
//   - POST comes from this page (Sec-Fetch-Site, Origin).
//   - Other methods than GET, HEAD and POST, and long queries and bodies, are refused.
func guard(hosts []string, next http.Handler) http.Handler {
	next = http.NewCrossOriginProtection().Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		defer func() {
			if e := recover(); e != nil {
				if e == http.ErrAbortHandler {
					panic(e)
				}
				log.Printf("%s %q: %v", r.Method, r.URL.Path, e)
				http.Error(w, "internal error; the terminal of vsetrain view tells more",
					http.StatusInternalServerError)
			}
		}()
		switch {
		case !bind.AllowedHost(r.Host, hosts):
			http.Error(w, "this page is served to localhost and IP addresses only; allow a host name with "+
				"--allow-host NAME", http.StatusMisdirectedRequest)
			return
		case r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodPost:
			w.Header().Set("Allow", "GET, HEAD, POST")
			http.Error(w, "expected GET or POST", http.StatusMethodNotAllowed)
			return
		case len(r.URL.RawQuery) > maxQuery:
			http.Error(w, "the query is too long", http.StatusRequestURITooLong)
			return
		}
		limit := int64(maxBody)
		if r.URL.Path == "/upload" {
			limit = maxUpload
		}
		r.Body = http.MaxBytesReader(w, r.Body, limit)
		next.ServeHTTP(w, r)
	})
}
