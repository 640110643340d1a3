package api

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/api/forward"
	"github.com/promwarp/promwarp/api/promapi"
)

// What leads out of the upstream's API, however it is escaped, is not forwarded.
func TestPathsThatLeave(t *testing.T) {
	var asked []string
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.EscapedPath())
		promapi.Data(w, []string{})
	}))
	defer up.Close()
	base, err := url.Parse(up.URL + "/tenant")
	require.NoError(t, err)
	one := &forward.Remote{Name: "one", Base: base}
	for _, remotes := range [][]*forward.Remote{{one}, {one, {Name: "two", Base: base}}} {
		a := newTestAPI(t, func(o *Options) { o.Remotes = remotes })
		for name, forwarded := range map[string]bool{
			"..%2f..%2fadmin":                 false,
			"..%2F..%2Fadmin":                 false,
			"%2e%2e%2f%2e%2e%2fadmin":         false,
			"%252e%252e%252fadmin":            false,
			"a%252f..%252fadmin":              false,
			"%25252e%25252e%25252fadmin":      false,
			"a%2f.%2fb":                       false,
			"%2e%2e":                          false,
			"%252e":                           false,
			"..;x%2fadmin":                    false,
			"..%5c..%5cadmin":                 false,
			"%255c":                           false,
			"a%00b":                           false,
			"a%2500b":                         false,
			"%25zz%2f%252e%252e%2fb":          false,
			"%25252525252525252525252525252e": false,
			"a%2Fb":                           true,
			"a%2F%2Fb":                        true,
			"a..b":                            true,
			"...":                             true,
			"a.b":                             true,
			"100%25":                          true,
			"%25zz":                           true,
			"U__a_2e__2e_b":                   true,
			"%C3%A9":                          true,
		} {
			asked = nil
			r := httptest.NewRequest(http.MethodGet, "http://promwarp/", nil)
			r.URL, err = url.ParseRequestURI("/api/v1/label/" + name + "/values")
			require.NoError(t, err)
			code, got := decode(t, do(t, a, r))
			if forwarded {
				require.Equal(t, 200, code, "%s: %s", name, got.Error)
				require.Len(t, asked, len(remotes), name)
				continue
			}
			require.Equal(t, 400, code, name)
			require.Equal(t, "bad_data", got.ErrorType, name)
			require.Empty(t, asked, name)
		}
	}
}
