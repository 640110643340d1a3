package planner

import (
	"strings"

	"github.com/grafana/regexp/syntax"
)

const (
	// classRanges is how many instructions the largest class of characters that has a name,
	// as \pL, takes the memory of.
	classRanges = 140
	// runesPerInstruction is how many runes of a class take the memory of an instruction.
	runesPerInstruction = 10
)

// regexpSize is about how many instructions a regular expression compiles to. Only one that
// repeats something is parsed: others are not larger than their text, but for classes. One
// beyond the most that is allowed before it is parsed is not.
func regexpSize(pattern string, most int) int {
	classes := strings.Count(pattern, `\p`) + strings.Count(pattern, `\P`)
	size := 2*len(pattern) + classes*classRanges
	if size > most && classes > 0 || !strings.Contains(pattern, "{") {
		return len(pattern) + classes*classRanges
	}
	re, err := syntax.Parse("^(?s:"+pattern+")$", syntax.Perl)
	if err != nil {
		return len(pattern) // whoever compiles it says what is wrong
	}
	return int(min(instructions(re), int64(most)+1))
}

// instructions estimates the size of what re compiles to: what is repeated is as large as
// all its repetitions. The parser bounds how deep re is.
func instructions(re *syntax.Regexp) int64 {
	var below int64
	for _, sub := range re.Sub {
		below += instructions(sub)
	}
	switch re.Op {
	case syntax.OpLiteral:
		return int64(len(re.Rune))
	case syntax.OpCharClass:
		return 1 + int64(len(re.Rune)/runesPerInstruction)
	case syntax.OpCapture:
		return below + 2
	case syntax.OpAlternate:
		return below + int64(len(re.Sub))
	case syntax.OpConcat:
		return below
	case syntax.OpRepeat:
		if re.Max < 0 {
			return max(int64(re.Min), 1)*below + 1
		}
		return int64(re.Max)*below + int64(re.Max-re.Min)
	}
	return below + 1
}
