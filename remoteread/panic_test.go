package remoteread

import (
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/internal/rescue"
)

// panicking is a transport with a bug.
type panicking struct{}

func (panicking) RoundTrip(*http.Request) (*http.Response, error) { panic("a bug") }

// A panic in one of the requests of a fetch, each of which has a goroutine, is its error.
func TestPanicIsAnError(t *testing.T) {
	c := newClient(t, readConfig(t, "http://x"), Options{Piece: 40 * time.Second, Retries: -1})
	c.http = &http.Client{Transport: panicking{}}
	_, _, err := c.Fetch(t.Context(), 0, 200_000, []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, "__name__", "m")})
	var p *rescue.Panic
	require.ErrorAs(t, err, &p)
	require.Equal(t, "a bug", p.Value)
}
