// Package fill writes one value to all of a list, several at a time.
package fill

// With makes all of list v.
func With[T any](list []T, v T) {
	if len(list) > 0 {
		list[0] = v
	}
	for n := 1; n < len(list); n *= 2 {
		copy(list[n:], list[:n])
	}
}
