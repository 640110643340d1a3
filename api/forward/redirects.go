package forward

import (
	"net/http"

	"github.com/promwarp/promwarp/remoteread"
	"github.com/promwarp/promwarp/remoteread/urltext"
)

// redirectFollower is a transport that follows redirects itself: a client of promwarp need
// not be able to reach where they lead, nor is it to know. Credentials stay with the host
// that they are for, as http.Client and the transport below it see to.
type redirectFollower struct{ http.Client }

func following(t http.RoundTripper) http.RoundTripper {
	return &redirectFollower{http.Client{Transport: t, CheckRedirect: remoteread.CheckRedirect}}
}

// RoundTrip implements http.RoundTripper.
func (f *redirectFollower) RoundTrip(req *http.Request) (*http.Response, error) {
	r := req.Clone(req.Context())
	r.RequestURI = "" // which a client's request must not have
	resp, err := f.Do(r)
	if err != nil {
		return nil, urltext.Err(err)
	}
	return resp, nil
}

// redirects reports whether a status is that of a redirect.
func redirects(status int) bool {
	return status >= 300 && status < 400 && status != http.StatusNotModified
}
