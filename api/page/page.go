// Package page is promwarp's own page for browsers: an editor for PromQL with charts and plans,
// resample requests, and what the cache, the devices and the server are doing.
//
// Its sources are in src, in TypeScript. What is served is dist, which `make page` builds from them
// and which is committed, so that building promwarp takes no node. The page has no address of its
// own in it: all that it asks for is relative to where it was loaded from.
//
// Start with Index.
package page

import (
	"embed"
	"fmt"
	"html"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/munnerz/goautoneg"
)

//go:embed dist
var dist embed.FS

// Assets is the path below which the page's scripts and styles are.
const Assets = "/assets/"

// policy lets the page load and ask nothing but what its own server has, and run no script that is
// written into the document.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Wanted reports whether a request is a browser's that wants a page to show: one whose Accept
// header names HTML. Other clients accept anything, and say so by naming nothing.
func Wanted(r *http.Request) bool {
	return slices.ContainsFunc(goautoneg.ParseAccept(strings.Join(r.Header.Values("Accept"), ",")), func(a goautoneg.Accept) bool {
		return strings.EqualFold(a.Type+"/"+a.SubType, "text/html") && a.Q > 0
	})
}

// Index answers with the page itself, which offers the examples, queries in PromQL. Browsers ask for
// it each time, since it names the assets of this version.
func Index(w http.ResponseWriter, r *http.Request, examples []string) {
	w.Header().Set("Content-Security-Policy", policy)
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Cross-Origin-Opener-Policy", "same-origin")
	answer(w, r, "index.html", "no-cache")
	if r.Method == http.MethodHead {
		return
	}
	for _, query := range examples {
		_, _ = fmt.Fprintf(w, "<template class=\"example\">%s</template>\n", html.EscapeString(query))
	}
}

// Asset answers with a script or style, whose name changes with its content, or with the licences of
// what they are made of. One that is not there is 404.
func Asset(w http.ResponseWriter, r *http.Request) {
	name, keep := path.Base(r.URL.Path), "public, max-age=31536000, immutable"
	if name == "licences.md" {
		keep = "no-cache"
	}
	answer(w, r, "assets/"+name, keep)
}

// media are the types of what is in dist, which must not depend on the machine's tables.
var media = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".css": "text/css; charset=utf-8", ".svg": "image/svg+xml", ".md": "text/plain; charset=utf-8",
}

// answer answers with a file of dist.
func answer(w http.ResponseWriter, r *http.Request, name, keep string) {
	content, err := dist.ReadFile("dist/" + name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", media[path.Ext(name)])
	w.Header().Set("Cache-Control", keep)
	if r.Method != http.MethodHead {
		_, _ = w.Write(content) // an error is the client's, which has gone
	}
}
