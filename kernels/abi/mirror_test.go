package abi

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMirrors: the numbers in functions.h are those of functions.go.
func TestMirrors(t *testing.T) {
	text, err := os.ReadFile("functions.h")
	require.NoError(t, err)
	have := map[string]map[string]uint32{}
	for _, line := range regexp.MustCompile(`(?m)^const (\w+) (.*?);`).FindAllStringSubmatch(string(text), -1) {
		if have[line[1]] == nil {
			have[line[1]] = map[string]uint32{}
		}
		for one := range strings.SplitSeq(line[2], ", ") {
			name, number, ok := strings.Cut(one, " = ")
			require.True(t, ok, one)
			n, err := strconv.ParseUint(number, 10, 32)
			require.NoError(t, err)
			have[line[1]][name] = uint32(n)
		}
	}
	require.Equal(t, map[string]map[string]uint32{
		"Ends": numbers(map[string]Ends{
			"kInstant": EndsInstant, "kNewest": EndsNewest, "kOldest": EndsOldest, "kNewestTime": EndsNewestTime,
			"kOldestTime": EndsOldestTime, "kNumber": EndsCount, "kInstantTime": EndsInstantTime,
		}),
		"Pairs": numbers(map[string]Pairs{
			"kLastRate": PairsLastRate, "kLastDifference": PairsLastDifference, "kChanges": PairsChanges, "kResets": PairsResets,
		}),
		"Statistic": numbers(map[string]Statistic{
			"kVariance": StatisticVariance, "kDeviation": StatisticDeviation, "kSlope": StatisticSlope, "kPrediction": StatisticPrediction,
			"kSmoothing": StatisticSmoothing, "kTimeOfMin": StatisticTimeOfMin, "kTimeOfMax": StatisticTimeOfMax,
		}),
		"Operator": numbers(map[string]Operator{
			"kSum": Sum, "kAvg": Avg, "kMin": Min, "kMax": Max, "kCount": Count, "kGroup": Group, "kStdDev": StdDev, "kStdVar": StdVar,
		}),
		"Map": numbers(map[string]Map{
			"kNegate": Negate, "kAbs": Abs, "kCeil": Ceil, "kFloor": Floor, "kSign": Sign, "kRoot": Root, "kRound": Round, "kClamp": Clamp,
			"kAdd": Add, "kSubtract": Subtract, "kSubtractFrom": SubtractFrom, "kMultiply": Multiply, "kDivide": Divide,
			"kDivideInto": DivideInto, "kScale": Scale, "kEqual": Equal, "kUnequal": Unequal, "kGreater": Greater, "kLess": Less,
			"kAtLeast": AtLeast, "kAtMost": AtMost,
		}),
	}, have)
}

func numbers[T ~uint32](in map[string]T) map[string]uint32 {
	out := map[string]uint32{}
	for name, n := range in {
		out[name] = uint32(n)
	}
	return out
}
