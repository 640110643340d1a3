package serve

import (
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/prometheus/prompb"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/internal/memory"
)

// TestTooLarge: a remote read that alone finds no memory is at fault itself, and the same one, over a
// range that begins at about the same time, is refused before anything is fetched.
func TestTooLarge(t *testing.T) {
	const limit = 1 << 30
	read := func(start int64, name string) *prompb.ReadRequest {
		return &prompb.ReadRequest{Queries: []*prompb.Query{{
			StartTimestampMs: start, EndTimestampMs: start + 1000,
			Matchers: []*prompb.LabelMatcher{matcher(prompb.LabelMatcher_EQ, "a", name)},
		}}}
	}
	for name, c := range map[string]struct {
		err   error
		alone bool
		code  int
	}{
		"busy, alone":  {&memory.BusyError{Limit: limit}, true, http.StatusUnprocessableEntity},
		"busy, others": {&memory.BusyError{Limit: limit}, false, http.StatusServiceUnavailable},
		"too large":    {&memory.TooLargeError{Limit: limit}, false, http.StatusUnprocessableEntity},
	} {
		m := &inMemory{err: c.err}
		h := newHandler(t, m, func(o *Options) {
			o.TooLarge, o.Memory, o.Alone = memory.NewTooLarge(), memory.New(memory.Options{Limit: limit}), func() bool { return c.alone }
		})
		require.Equal(t, c.code, ask(t, h, read(0, "x")).Code, name)
		m.err, m.sel = nil, holding(t, map[string][]int64{`{a="x"}`: {1}}) // asked again it would be answered
		refused := c.code == http.StatusUnprocessableEntity
		w := ask(t, h, read(15_000, "x"))
		if refused {
			require.Equal(t, http.StatusUnprocessableEntity, w.Code, name)
			require.Contains(t, w.Body.String(), "not tried again", name)
		} else {
			require.Equal(t, http.StatusOK, w.Code, name)
		}
		require.Equal(t, http.StatusOK, ask(t, h, read(2*time.Hour.Milliseconds(), "x")).Code, "another time")
		require.Equal(t, http.StatusOK, ask(t, h, read(0, "y")).Code, "other series")
	}
}
