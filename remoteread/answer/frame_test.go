package answer

import (
	"bytes"
	"io"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/prometheus/storage/remote"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/remoteread/answer/answertest"
)

// FuzzStream checks that the frame reader agrees with Prometheus's, except
// that it tells a stream cut off from one at its end.
func FuzzStream(f *testing.F) {
	f.Add(answertest.Frames(answertest.Series(0, 10, "a", "b"), answertest.Series(0, 10, "c", "d")), 100)
	f.Add(append(answertest.RawFrame(make([]byte, 300_000), true), answertest.RawFrame([]byte{1}, true)...), 1<<20)
	f.Add([]byte("this is not a stream of frames\n"), 1000)
	f.Fuzz(func(t *testing.T, data []byte, limit int) {
		limit = max(0, min(limit, 1<<20))
		theirs := remote.NewChunkedReader(bytes.NewReader(data), uint64(limit), nil)
		ours := newFrameReader(bytes.NewReader(data), int64(limit))
		for {
			want, wantErr := theirs.Next()
			got, err := ours.next()
			if wantErr != nil {
				require.Error(t, err)
				require.False(t, err == io.EOF && wantErr != io.EOF)
				return
			}
			require.NoError(t, err)
			require.True(t, bytes.Equal(want, got))
		}
	})
}

func TestFrameReaderAgreesWithPrometheus(t *testing.T) {
	var b bytes.Buffer
	w := remote.NewChunkedWriter(&b, httptest.NewRecorder())
	for _, n := range []int{1, 2, 127, 128, frameBuffer - 20, frameBuffer - 7, frameBuffer - 6, frameBuffer, frameBuffer + 1, 4*frameBuffer + 1, 12*frameBuffer + 5, 9, 1} {
		_, err := w.Write(bytes.Repeat([]byte{byte(n)}, n))
		require.NoError(t, err)
	}
	data := b.Bytes()
	theirs := remote.NewChunkedReader(bytes.NewReader(data), 1<<30, nil)
	ours := newFrameReader(bytes.NewReader(data), 1<<30)
	for {
		want, wantErr := theirs.Next()
		got, err := ours.next()
		require.Equal(t, wantErr, err)
		if err != nil {
			return
		}
		require.True(t, bytes.Equal(want, got))
	}
}
