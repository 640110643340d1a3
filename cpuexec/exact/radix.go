package exact

// ranked is a sample to be sorted: its value as an integer of the same order.
type ranked struct {
	key uint64
	at  int32
}

// radixSort sorts in by key, stable, a byte at a time from
// the lowest on. The sorted slice is in or tmp.
func radixSort(in, tmp []ranked) []ranked {
	var counts [8][256]int32
	for _, p := range in {
		for d := range counts {
			counts[d][byte(p.key>>(8*d))]++
		}
	}
	for d := range counts {
		c := &counts[d]
		if len(in) == 0 || int(c[byte(in[0].key>>(8*d))]) == len(in) {
			continue // all have this byte
		}
		sum := int32(0)
		for i, n := range c {
			c[i] = sum
			sum += n
		}
		for _, p := range in {
			b := byte(p.key >> (8 * d))
			tmp[c[b]] = p
			c[b]++
		}
		in, tmp = tmp, in
	}
	return in
}
