package disk

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"math"
	"os"
	"testing"

	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/selection"
)

// oneFile is a directory with one file, which is not in any file system.
type oneFile struct{ content []byte }

func (d *oneFile) List() ([]string, error) {
	if d.content == nil {
		return nil, nil
	}
	return []string{nameOf(1)}, nil
}
func (d *oneFile) Create(string) (io.WriteCloser, error) { return nil, os.ErrPermission }
func (d *oneFile) Rename(string, string) error           { return os.ErrPermission }

func (d *oneFile) Remove(string) error {
	d.content = nil
	return nil
}

func (d *oneFile) Open(string) (ReadAtCloser, int64, error) {
	return struct {
		io.ReaderAt
		io.Closer
	}{bytes.NewReader(d.content), io.NopCloser(nil)}, int64(len(d.content)), nil
}

// FuzzFile opens any bytes as a file, as they are and with the checksums that they ought to
// have: the file is used or removed, and what is used can be decoded, or fails to.
func FuzzFile(f *testing.F) {
	for _, sel := range []*selection.Selection{some(f, 2, 0, 60_000, 0), selection.Empty()} {
		var b bytes.Buffer
		h := head{key: "k", covered: []Stretch{{0, 100_000, 5}}}
		require.NoError(f, writeFile(f.Context(), &b, sel, &h, &footer{seq: 1}))
		f.Add(b.Bytes(), false)
		f.Add(b.Bytes(), true)
		f.Add(b.Bytes()[:b.Len()/2], true)
		f.Add(b.Bytes()[b.Len()/3:], true)
	}
	f.Add([]byte{}, true)
	f.Fuzz(func(t *testing.T, b []byte, sums bool) {
		if sums {
			b = withSums(b)
		}
		d := &oneFile{content: b}
		s, err := Open(Options{Limit: math.MaxInt64, Files: d})
		require.NoError(t, err)
		defer s.Close()
		for _, key := range s.Keys() {
			for _, p := range loaded(t, s, key) {
				for set := p.Selection.SeriesSet(math.MinInt64, math.MaxInt64, nil); set.Next(); {
					it := set.At().Iterator(nil)
					for it.Next() != chunkenc.ValNone {
					}
				}
			}
		}
		require.Equal(t, d.content != nil, s.Stats().Files == 1)
	})
}

// withSums returns b with the checksums in it made right, as far as it has their places, and
// with the sizes that its footer gives if these are those of a file.
func withSums(b []byte) []byte {
	b = bytes.Clone(b)
	if len(b) < footerSize {
		return b
	}
	foot := b[len(b)-footerSize:]
	copy(foot, magic)
	copy(foot[8:24], identityOf(""))
	binary.LittleEndian.PutUint64(foot[24:], 1)
	binary.LittleEndian.PutUint64(foot[32:], uint64(len(b)))
	seriesLen, headLen := binary.LittleEndian.Uint64(foot[40:]), uint64(binary.LittleEndian.Uint32(foot[48:]))
	body := b[:len(b)-footerSize]
	if headLen <= uint64(len(body)) && seriesLen <= uint64(len(body))-headLen {
		index := body[uint64(len(body))-headLen:]
		series := body[uint64(len(body))-headLen-seriesLen:][:seriesLen]
		if h, err := parseHead(index); err == nil {
			at := uint64(0)
			for i, l := range h.slabs {
				if l.size > uint64(len(body))-at {
					break
				}
				h.slabs[i].sum = checksum(body[at : at+l.size])
				at += l.size
			}
			if again := h.append(nil); len(again) == len(index) {
				copy(index, again)
			}
		}
		binary.LittleEndian.PutUint32(foot[52:], checksum(series))
		binary.LittleEndian.PutUint32(foot[56:], checksum(index))
	}
	binary.LittleEndian.PutUint32(foot[60:], checksum(foot[:60]))
	return b
}

// identityOf is how files name a source.
func identityOf(name string) []byte {
	sum := sha256.Sum256([]byte(name))
	return sum[:16]
}
