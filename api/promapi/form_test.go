package promapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/planner"
)

const urlencoded = "application/x-www-form-urlencoded"

// repeated is n times the same parameter of a form.
func repeated(n int, parameter string) string {
	return strings.TrimSuffix(strings.Repeat(parameter+"&", n), "&")
}

// bounded sends a request through Bounded with small limits and returns the answer, and the body
// that the handler behind it read, if it was asked.
func bounded(t *testing.T, r *http.Request) (w *httptest.ResponseRecorder, read string, asked bool) {
	t.Helper()
	limits := planner.Limits{Selectors: 20, Items: 10}
	w = httptest.NewRecorder()
	if asked = Bounded(limits, w, r); asked {
		body, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		read = string(body)
	}
	return w, read, asked
}

func form(body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("Content-Type", urlencoded)
	return r
}

// TestBounded: a list is refused beyond its limit, in a URL and in a body, and not at the limit.
func TestBounded(t *testing.T) {
	commas := func(name string) func(int) string {
		return func(n int) string { return name + "=" + strings.TrimSuffix(strings.Repeat("l,", n), ",") }
	}
	times := func(parameter string) func(int) string {
		return func(n int) string { return repeated(n, parameter) }
	}
	query := func(item, between, format string) func(int) string {
		return func(n int) string {
			list := strings.TrimSuffix(strings.Repeat(item+between, n), between)
			return "query=" + url.QueryEscape(fmt.Sprintf(format, list))
		}
	}
	for name, c := range map[string]struct {
		most int
		list func(n int) string
		flag string
	}{
		"selectors":                  {20, times("match%5B%5D=up"), "query.max-selectors"},
		"selectors, short name":      {20, times("match=up"), "query.max-selectors"},
		"selectors of a query":       {20, query("up", " or ", "%s"), "query.max-selectors"},
		"matchers of a query":        {10, query(`a="b"`, ",", "up{%s}"), "query.max-items"},
		"labels of a query":          {10, query("a", ",", "sum by (%s) (up)"), "query.max-items"},
		"matchers of a selector":     {10, func(n int) string { return strings.Replace(query(`a="b"`, ",", "up{%s}")(n), "query", "match[]", 1) }, "query.max-items"},
		"labels in one value":        {10, commas("by"), "query.max-items"},
		"labels in one value, alias": {10, commas("groupby"), "query.max-items"},
		"labels left out":            {10, commas("without"), "query.max-items"},
		"labels in several values":   {10, times("by=l"), "query.max-items"},
		"aggregates":                 {10, commas("aggregates"), "query.max-items"},
		"aggregates, alias":          {10, commas("aggregation"), "query.max-items"},
		"definitions":                {10, times("define=x"), "query.max-items"},
		"anything else":              {10, times("whatever=x"), "query.max-items"},
		"parameters in all":          {40, times("&"), "query.max-selectors"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "parameters in all" {
				c.list = func(n int) string { return strings.Repeat("&", n-2) } // n-1 in the body, 1 in the URL
			}
			r := form(c.list(c.most))
			_, read, asked := bounded(t, r)
			require.True(t, asked, "at the limit")
			require.Equal(t, c.list(c.most), read)

			body, inURL := form(c.list(c.most+1)), httptest.NewRequest(http.MethodGet, "/?"+c.list(c.most+2), nil)
			for _, r := range []*http.Request{body, inURL} {
				w, _, asked := bounded(t, r)
				require.False(t, asked)
				require.Equal(t, http.StatusBadRequest, w.Code)
				require.Contains(t, w.Body.String(), "--"+c.flag+" allows is ")
				require.Contains(t, w.Body.String(), `"errorType":"bad_data"`)
				require.Less(t, w.Body.Len(), 500)
			}
		})
	}
}

// TestBoundedReadsAsTheHandlerDoes: whatever the handler would read as a form is bounded.
func TestBoundedReadsAsTheHandlerDoes(t *testing.T) {
	for _, kind := range []string{urlencoded, urlencoded + "; charset=utf-8", "Application/X-WWW-Form-Urlencoded", urlencoded + "; wrong", urlencoded + ";a=b;a=b"} {
		for n, want := range map[int]bool{20: true, 21: false} {
			r := form(repeated(n, "match[]=up"))
			r.Header.Set("Content-Type", kind)
			_, read, asked := bounded(t, r)
			require.Equal(t, want, asked, "%s with %d", kind, n)
			if want {
				require.Equal(t, repeated(n, "match[]=up"), read, kind)
			}
		}
	}
}

// TestBoundedPasses: small requests, other bodies and forms that are wrong reach the handler as they
// are sent.
func TestBoundedPasses(t *testing.T) {
	var parts bytes.Buffer
	several := multipart.NewWriter(&parts)
	require.NoError(t, several.WriteField("query", strings.Repeat("up+", 100)+"up"))
	require.NoError(t, several.Close())
	for name, c := range map[string]struct{ body, kind string }{
		"a small form":              {"query=up", urlencoded},
		"an empty form":             {"", urlencoded},
		"no type":                   {repeated(100, "match[]=up"), ""},
		"JSON":                      {`{"query":"` + strings.Repeat("up+", 100) + `up"}`, "application/json"},
		"a form in several parts":   {parts.String(), several.FormDataContentType()},
		"a type that is none":       {repeated(100, "match[]=up"), "/;"},
		"a wrong escape":            {"query=%zz&start=1", urlencoded},
		"semicolons":                {"query=up;start=1", urlencoded},
		"a long form that is wrong": {"query=up&" + strings.Repeat("a", 1000) + "=%zz", urlencoded},
		"a query that is wrong":     {"query=" + strings.Repeat("(", 15), urlencoded},
	} {
		r := form(c.body)
		r.Header.Set("Content-Type", c.kind)
		_, read, asked := bounded(t, r)
		require.True(t, asked, name)
		require.Equal(t, c.body, read, name)
	}
	small := form("query=up")
	body := small.Body
	_, _, asked := bounded(t, small)
	require.True(t, asked)
	require.NotNil(t, body)
	r := httptest.NewRequest(http.MethodGet, "/?query=up", nil)
	r.Header.Set("Content-Type", urlencoded)
	_, _, asked = bounded(t, r)
	require.True(t, asked, "no body")
}

// TestBoundedBodyFails: a body that cannot be read is answered for, and its closer stays.
func TestBoundedBodyFails(t *testing.T) {
	r := form("")
	r.Body = io.NopCloser(io.MultiReader(strings.NewReader("query="), failing{errors.New("it broke off")}))
	w, _, asked := bounded(t, r)
	require.False(t, asked)
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.Contains(t, w.Body.String(), "it broke off")

	closed := closer{Reader: strings.NewReader("query=up")}
	r = form("")
	r.Body = &closed
	require.True(t, Bounded(planner.Limits{}, httptest.NewRecorder(), r))
	require.NoError(t, r.Body.Close())
	require.True(t, closed.closed)
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

type closer struct {
	io.Reader
	closed bool
}

func (c *closer) Close() error {
	c.closed = true
	return nil
}
