package encoding_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/selection/encoding"
	"github.com/promwarp/promwarp/selection/selectiontest"
)

// TestSampleCount compares with Prometheus's for every counter reset flag.
func TestSampleCount(t *testing.T) {
	for _, e := range selectiontest.Encodings {
		c, err := chunkenc.FromData(e, selectiontest.Encode(t, e, selectiontest.TimesBetween(0, 900, 100), selectiontest.Rising))
		require.NoError(t, err)
		if s, ok := c.(interface {
			SetCounterResetHeader(chunkenc.CounterResetHeader)
		}); ok {
			for _, h := range []chunkenc.CounterResetHeader{chunkenc.CounterReset, chunkenc.NotCounterReset, chunkenc.GaugeType, chunkenc.UnknownCounterReset} {
				s.SetCounterResetHeader(h)
				require.EqualValues(t, 10, encoding.SampleCount(e, c.Bytes()), e)
			}
		}
		require.EqualValues(t, c.NumSamples(), encoding.SampleCount(e, c.Bytes()), e)
	}
	// A gauge's flag is set with the first sample.
	for _, e := range []chunkenc.Encoding{chunkenc.EncHistogram, chunkenc.EncHistogramST} {
		c, err := chunkenc.NewEmptyChunk(e)
		require.NoError(t, err)
		app, err := c.Appender()
		require.NoError(t, err)
		for ts := range int64(5) {
			_, _, app, err = app.AppendHistogram(nil, ts, ts+1, tsdbutil.GenerateTestGaugeHistogram(ts), true)
			require.NoError(t, err)
		}
		require.EqualValues(t, 5, encoding.SampleCount(e, c.Bytes()), e)
	}
}

func TestCheckLayout(t *testing.T) {
	hs := []*histogram.Histogram{
		{},
		tsdbutil.GenerateTestHistogram(1), tsdbutil.GenerateTestGaugeHistogram(70), tsdbutil.GenerateTestCustomBucketsHistogram(3),
		{
			Schema: -4, ZeroThreshold: 0.123, Count: 4000,
			PositiveSpans:   []histogram.Span{{Offset: -3000, Length: 1}, {Offset: 4000, Length: 3}},
			PositiveBuckets: []int64{1000, 0, 0, 0},
		},
	}
	for i, h := range hs {
		for _, e := range []chunkenc.Encoding{chunkenc.EncHistogram, chunkenc.EncHistogramST, chunkenc.EncFloatHistogram, chunkenc.EncFloatHistogramST} {
			c, err := chunkenc.NewEmptyChunk(e)
			require.NoError(t, err)
			app, err := c.Appender()
			require.NoError(t, err)
			if e == chunkenc.EncHistogram || e == chunkenc.EncHistogramST {
				_, _, _, err = app.AppendHistogram(nil, 0, 1, h, true)
			} else {
				_, _, _, err = app.AppendFloatHistogram(nil, 0, 1, h.ToFloat(nil), true)
			}
			require.NoError(t, err)
			require.NoError(t, encoding.CheckLayout(e, c.Bytes()), "histogram %d, %s", i, e)
			for n := 3; n < 6; n++ {
				if i != 0 {
					require.Error(t, encoding.CheckLayout(e, c.Bytes()[:n]), "histogram %d, %s", i, e)
				}
			}
		}
	}

	// No zero threshold, schema 0, one span of 2^32-1 buckets at 0, none below.
	bits := "00000000" + "0" + "10001" + "11111110" + strings.Repeat("0", 24) + strings.Repeat("1", 32) + "0" + "0"
	bad := []byte{0, 1, 0}
	for i := 0; i+8 <= len(bits); i += 8 {
		v, err := strconv.ParseUint(bits[i:i+8], 2, 8)
		require.NoError(t, err)
		bad = append(bad, byte(v))
	}
	bad = append(bad, make([]byte, 40)...)
	for _, e := range []chunkenc.Encoding{chunkenc.EncHistogram, chunkenc.EncFloatHistogram} {
		require.ErrorContains(t, encoding.CheckLayout(e, bad), "buckets")
	}
	require.NoError(t, encoding.CheckLayout(chunkenc.EncXOR, bad))
	// Two spans of one bucket, the second at -2; the first may be below zero.
	for bits, ok := range map[string]bool{
		"00000000" + "0" + "10010" + "10001" + "10110" + "10001" + "10010" + "0": true,
		"00000000" + "0" + "10010" + "10001" + "10110" + "10001" + "10110" + "0": false,
	} {
		chunk := []byte{0, 1, 0}
		for bits += strings.Repeat("0", 200); len(bits) >= 8; bits = bits[8:] {
			v, err := strconv.ParseUint(bits[:8], 2, 8)
			require.NoError(t, err)
			chunk = append(chunk, byte(v))
		}
		require.Equal(t, ok, encoding.CheckLayout(chunkenc.EncHistogram, chunk) == nil)
	}
}
