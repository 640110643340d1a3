package serve

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// dialect is what a reader understands beside XOR and the histogram encodings without
// start timestamps, which everybody does.
type dialect struct {
	xor2        bool
	histogramST bool
}

var everything = dialect{xor2: true, histogramST: true}

// The releases of Prometheus, 3.x, whose readers know an encoding. The encodings have not
// changed since.
const (
	minorXOR2        = 11
	minorHistogramST = 14
)

// dialectOf returns what the sender of r understands: what its URL says, or else what its
// User-Agent is known to.
func dialectOf(r *http.Request) (dialect, error) {
	switch text := r.URL.Query().Get("chunks"); text {
	case "as-is":
		return everything, nil
	case "xor":
		return dialect{}, nil
	case "", "auto":
		if strings.HasPrefix(r.UserAgent(), "promwarp/") {
			return everything, nil
		}
		release := releaseOf(r.UserAgent())
		since := func(minor int) bool { return release.Major > 3 || release.Major == 3 && release.Minor >= minor }
		return dialect{xor2: since(minorXOR2), histogramST: since(minorHistogramST)}, nil
	default:
		return dialect{}, refuse("parameter chunks: unknown chunk encodings %q; there are auto, xor and as-is", text)
	}
}

// Release is a release of Prometheus, such as 3.15.
type Release struct{ Major, Minor int }

// releaseOf returns the release of the Prometheus with this User-Agent, whose version is such
// as 3.15.0 or 3.15.0+build. One before a release, such as 3.15.0-rc.0, counts as the release
// before. A client that is no Prometheus, or does not say of which release, has the zero release.
func releaseOf(userAgent string) (r Release) {
	version, _, _ := strings.Cut(userAgent, "+")
	version, _, _ = strings.Cut(version, " ")
	if _, err := fmt.Sscanf(version, "Prometheus/%d.%d", &r.Major, &r.Minor); err != nil {
		return Release{}
	}
	if strings.Contains(version, "-") {
		r.Minor--
	}
	return r
}

// encoding returns the encoding in which chunks in encoding e are sent.
func (d dialect) encoding(e chunkenc.Encoding) chunkenc.Encoding {
	switch {
	case e == chunkenc.EncXOR2 && !d.xor2:
		return chunkenc.EncXOR
	case e == chunkenc.EncHistogramST && !d.histogramST:
		return chunkenc.EncHistogram
	case e == chunkenc.EncFloatHistogramST && !d.histogramST:
		return chunkenc.EncFloatHistogram
	}
	return e
}
