package answer

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/golang/snappy"
	"github.com/stretchr/testify/require"
)

// bombOf is a snappy stream that says that it is n bytes long.
func bombOf(n uint64) []byte { return append(binary.AppendUvarint(nil, n), 0, 'x') }

// FuzzAnswer decompresses any bytes as an answer of samples: what snappy itself makes of them
// within the limit, or an error.
func FuzzAnswer(f *testing.F) {
	whole := snappy.Encode(nil, bytes.Repeat([]byte("samples "), 100))
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add(append(bytes.Clone(whole), 0))
	f.Add([]byte{})
	f.Add(bombOf(1 << 16))
	f.Add(bombOf(1 << 40))
	const most = 1 << 16
	f.Fuzz(func(t *testing.T, data []byte) {
		var s samplesReader
		got, err := s.read(bytes.NewReader(data), most)
		want, wantErr := snappy.Decode(nil, data)
		switch {
		case err == nil:
			require.NoError(t, wantErr)
			require.True(t, bytes.Equal(want, got))
		case len(data) <= most && len(want) <= most:
			require.Error(t, wantErr, err)
		}
		if cap(s.data) > 2*most || cap(s.data) > 2*mostCompressed*(len(data)+64) {
			t.Errorf("%d bytes taken for %d", cap(s.data), len(data))
		}
	})
}
