package forward

import (
	"fmt"
	"net/http"

	"github.com/promwarp/promwarp/remoteread/urltext"
)

// maxRedirects is how many redirects of one forwarded request are followed.
const maxRedirects = 10

// redirectFollower is a transport that follows redirects itself: a client of promwarp need
// not be able to reach where they lead, nor is it to know. Credentials stay with the host
// that they are for, as http.Client and the transport below it see to.
type redirectFollower struct{ client http.Client }

func following(t http.RoundTripper) http.RoundTripper {
	return &redirectFollower{http.Client{Transport: t, CheckRedirect: checkRedirect}}
}

// checkRedirect follows a redirect that leaves the request what it is. Others would lose
// the parameters in its body.
func checkRedirect(req *http.Request, via []*http.Request) error {
	req.Header.Del("Referer") // which may hold a token
	switch {
	case req.Method != via[0].Method:
		return http.ErrUseLastResponse
	case len(via) >= maxRedirects:
		return fmt.Errorf("stopped after %d redirects", maxRedirects)
	}
	return nil
}

// RoundTrip implements http.RoundTripper.
func (f *redirectFollower) RoundTrip(req *http.Request) (*http.Response, error) {
	r := req.Clone(req.Context())
	r.RequestURI = "" // which a client's request must not have
	resp, err := f.client.Do(r)
	if err != nil {
		return nil, urltext.Err(err)
	}
	return resp, nil
}

// redirects reports whether a status is that of a redirect.
func redirects(status int) bool {
	return status >= 300 && status < 400 && status != http.StatusNotModified
}
