package resampling

import (
	"net/url"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/resample"
	"github.com/promwarp/promwarp/resample/aggregate"
	"github.com/promwarp/promwarp/resample/custom"
)

// TestCustom: custom aggregates stay on cores, with others beside them and over aggregates, too.
func TestCustom(t *testing.T) {
	l, err := custom.AddTo(aggregate.Library{}, []custom.Source{{Name: "total", State: map[string]string{"x": "0"}, Add: map[string]string{"x": "x + v"}, Result: "x"}})
	require.NoError(t, err)
	for text, want := range map[string]string{
		"aggregates=sum,max&by=job":           "",
		"aggregates=sum,total":                "the aggregate total is not on the GPU yet",
		"aggregates=rate:total&by=job":        "the aggregate rate:total is not on the GPU yet",
		"aggregates=sum&reaggregate=total":    "aggregating again by total is not on the GPU yet",
		"aggregates=sum&reaggregate=max&by=a": "",
	} {
		f, err := url.ParseQuery("metric=m&start=0&end=60&every=1m&" + text)
		require.NoError(t, err)
		r, err := resample.Parse(f, time.Unix(60, 0), resample.Known{Parser: parser.NewParser(parser.Options{}), Aggregates: l})
		require.NoError(t, err)
		p, err := resample.NewPlan(r)
		require.NoError(t, err)
		require.Equal(t, want, Suits(p), text)
	}
}
