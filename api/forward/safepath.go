package forward

import (
	"encoding/hex"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/promwarp/promwarp/api/promapi"
)

// maxDecoded is how often a path is decoded in the search for what leads out of it.
const maxDecoded = 8

// staying has answer answer requests whose path stays where it is, however often servers on its
// way decode it: those behind get promwarp's credentials, and one that normalises paths
// would take these to another place.
func staying(answer http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if leaves(r.URL.EscapedPath()) {
			promapi.Error(w, http.StatusBadRequest, promapi.BadData,
				`the path has an element "." or "..", a backslash or a NUL, perhaps escaped, which is not forwarded; a label's name that has one can be given in its escaped form, U__...`)
			return
		}
		answer(w, r)
	}
}

// escaped is an escaped byte. What only looks so stays as it is.
var escaped = regexp.MustCompile(`%[0-9a-fA-F]{2}`)

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
		plain := escaped.ReplaceAllStringFunc(path, func(e string) string {
			b, _ := hex.DecodeString(e[1:]) // as the expression has it
			return string(b)
		})
		if plain == path {
			return false
		}
		path = plain
	}
	return true
}
