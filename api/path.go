package api

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/gorilla/mux"

	"github.com/promwarp/promwarp/api/respond"
)

// usualPath lets requests find their door however their path is written. One with
// empty elements or dots is redirected by http.ServeMux, as Prometheus does. In
// others only such characters stay escaped as mean something else unescaped.
func usualPath(doors http.Handler) http.Handler {
	m := http.NewServeMux()
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawPath != "" {
			u := *r.URL
			u.RawPath = leastEscaped(u.EscapedPath())
			r = shallowCopy(r, &u)
		}
		doors.ServeHTTP(w, r)
	})
	m.Handle("/", h)
	m.Handle(prefix+"/", h)
	return m
}

// shallowCopy returns r with another URL.
func shallowCopy(r *http.Request, u *url.URL) *http.Request {
	c := new(http.Request)
	*c = *r
	c.URL = u
	return c
}

// leastEscaped returns an escaped path with only what must be escaped.
func leastEscaped(path string) string {
	elements := strings.Split(path, "/")
	for i, e := range elements {
		if plain, err := url.PathUnescape(e); err == nil {
			elements[i] = url.PathEscape(plain)
		}
	}
	return strings.Join(elements, "/")
}

// elsewhere answers requests for which there is no door. Those that miss one by a
// slash at the end, or by capital letters, are redirected to it, as Prometheus's
// router does.
func (a *API) elsewhere(doors *mux.Router) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodOptions && strings.HasPrefix(r.URL.Path, prefix+"/") {
			a.options(w, r)
			return
		}
		if u := near(doors, r); u != nil {
			code := http.StatusTemporaryRedirect
			if r.Method == http.MethodGet {
				code = http.StatusMovedPermanently
			}
			http.Redirect(w, r, u.String(), code)
			return
		}
		respond.Error(w, http.StatusNotFound, respond.NotFound, fmt.Sprintf("promwarp has no %s; / lists what it has", r.URL.Path))
	})
}

// near returns the URL with which r would have found a door, or nil.
func near(doors *mux.Router, r *http.Request) *url.URL {
	u := *r.URL
	u.Path, u.RawPath = strings.TrimSuffix(u.Path, "/"), strings.TrimSuffix(u.RawPath, "/")
	if template(doors, r, &u) != "" {
		return &u
	}
	u.Path, u.RawPath = strings.ToLower(u.Path), ""
	if t := template(doors, r, &u); t != "" && !strings.Contains(t, "{") {
		return &u
	}
	return nil
}

// template is the path of the door that r would find with another URL, or empty.
func template(doors *mux.Router, r *http.Request, u *url.URL) string {
	var m mux.RouteMatch
	if !doors.Match(shallowCopy(r, u), &m) || m.MatchErr != nil {
		return ""
	}
	t, _ := m.Route.GetPathTemplate() // it was made from one
	return t
}
