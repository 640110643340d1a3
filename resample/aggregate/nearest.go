package aggregate

// Nearest is the name that takes the fewest changes to become from text, at most a third of its
// length and one; or nothing.
func Nearest(text string, names []string) (nearest string) {
	if len(text) > 64 {
		return ""
	}
	least := len(text)/3 + 2
	for _, name := range names {
		if n := changes(text, name); n < least {
			least, nearest = n, name
		}
	}
	return nearest
}

// changes is Levenshtein's distance in bytes.
func changes(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			n := diagonal
			if a[i] != b[j] {
				n = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], n
		}
	}
	return row[len(b)]
}
