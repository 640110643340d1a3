//go:build !amd64

package column

const nearestLanes = 4

func hasNearest() bool { return false }

func nearestLate(out Nearest, late []uint16, e *EvenRun, since, interval int64) int { return 0 }

func apartLate(out []float64, to []int32, late []uint16, every int64) int { return 0 }
