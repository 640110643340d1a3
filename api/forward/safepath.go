package forward

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/util/httputil"

	"github.com/promwarp/promwarp/api/promapi"
)

// maxDecoded is how often a path is decoded in the search for what leads out of it.
const maxDecoded = 8

// staying has h answer requests whose path stays where it is, however often servers on its
// way decode it: those behind get promwarp's credentials, and one that normalises paths
// would take these to another place.
func (f *Forwarder) staying(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if leaves(r.URL.EscapedPath()) {
			httputil.SetCORS(w, f.CORSOrigin, r)
			promapi.Error(w, http.StatusBadRequest, promapi.BadData,
				`the path has an element "." or "..", a backslash or a NUL, perhaps escaped, which is not forwarded; a label's name that has one can be given in its escaped form, U__...`)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// leaves reports whether an escaped path may lead somewhere else than it seems to.
func leaves(path string) bool {
	for range maxDecoded {
		// Some servers cut off what comes behind a semicolon.
		isDots := func(element string) bool {
			element, _, _ = strings.Cut(element, ";")
			return element == "." || element == ".."
		}
		if strings.ContainsAny(path, "\\\x00") || slices.ContainsFunc(strings.Split(path, "/"), isDots) {
			return true
		}
		if !strings.Contains(path, "%") {
			return false
		}
		plain := decodeLoosely(path)
		if plain == path {
			return false
		}
		path = plain
	}
	return true
}

// decodeLoosely decodes what is escaped in s, and leaves what only looks so.
func decodeLoosely(s string) string {
	if plain, err := url.PathUnescape(s); err == nil {
		return plain
	}
	parts := strings.Split(s, "%")
	var b strings.Builder
	b.WriteString(parts[0])
	for _, p := range parts[1:] {
		if plain, err := url.PathUnescape("%" + p[:min(2, len(p))]); err == nil {
			b.WriteString(plain + p[2:])
		} else {
			b.WriteString("%" + p)
		}
	}
	return b.String()
}
