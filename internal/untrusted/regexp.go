package untrusted

import (
	"fmt"
	"regexp"
	"regexp/syntax"
)

// Limits of a regular expression.
const (
	maxRegexp = 4 << 10 // bytes
	// maxInstructions limits the compiled program. Repetitions are expanded in it.
	maxInstructions = 10_000
	classShare      = 16 // bounds of a character class that count as one instruction
)

// CompileRegexp compiles a regular expression.
func CompileRegexp(text string) (*regexp.Regexp, error) {
	re, _, err := SizedRegexp(text)
	return re, err
}

// SizedRegexp compiles a regular expression. size is about the number of its instructions.
func SizedRegexp(text string) (re *regexp.Regexp, size int, err error) {
	if _, size, err = parseRegexp(text); err != nil {
		return nil, 0, err
	}
	re, err = regexp.Compile(text)
	return re, size, err
}

// parseRegexp parses a regular expression without expanding it.
func parseRegexp(text string) (re *syntax.Regexp, size int, err error) {
	if len(text) > maxRegexp {
		return nil, 0, fmt.Errorf("the regular expression has %d bytes: the limit is %d", len(text), maxRegexp)
	}
	if re, err = syntax.Parse(text, syntax.Perl); err != nil {
		return nil, 0, err
	}
	if size = instructions(re); size > maxInstructions {
		return nil, 0, fmt.Errorf("the regular expression is too large: its repetitions and classes expand to more than %d instructions",
			maxInstructions)
	}
	return re, size, nil
}

// instructions returns about the number of instructions of the program, at most maxInstructions+1.
func instructions(re *syntax.Regexp) int {
	n := 1
	switch re.Op {
	case syntax.OpLiteral:
		n = len(re.Rune)
	case syntax.OpCharClass:
		n += len(re.Rune) / classShare
	}
	for _, sub := range re.Sub {
		n += instructions(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min+1, re.Max, 1)
	}
	return min(n, maxInstructions+1)
}
