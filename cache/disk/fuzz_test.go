package disk

import "testing"

// FuzzHead reads heads and footers of any bytes: what is read must be what is written again.
func FuzzHead(f *testing.F) {
	good := head{key: "{a=\"b\"}", covered: []Stretch{{1, 2, 3}}, replaces: []uint64{7}, slabs: []slabHead{{8, 9}}}
	f.Add(good.append(nil))
	f.Add((&footer{seq: 1, size: 64}).append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, err := parseHead(b); err == nil {
			again, err := parseHead(h.append(nil))
			if err != nil || again.key != h.key || len(again.slabs) != len(h.slabs) || len(again.covered) != len(h.covered) {
				t.Fatalf("%v %v %v", h, again, err)
			}
		}
		if x, err := parseFooter(b); err == nil {
			if y, err := parseFooter(x.append(nil)); err != nil || x != y {
				t.Fatalf("%v %v %v", x, y, err)
			}
		}
	})
}

// FuzzSeries reads the series of a file of any bytes: an error or a selection.
func FuzzSeries(f *testing.F) {
	f.Add([]byte{1, 1, 1, 1, 'a', 1, 'b', 0})
	f.Add([]byte{0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		sizes := []uint64{64, 64}
		read := table{from: 0, to: 1000, sizes: sizes, needs: func(k, _ int, need []byteRange) {
			for _, n := range need {
				if n.from < 0 || n.to < n.from || uint64(n.to) > sizes[k] {
					t.Fatal(k, need)
				}
			}
		}}
		_ = read.parse(t.Context(), b)
	})
}
