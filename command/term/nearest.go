package term

import (
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
)

// Nearest returns the candidate that a mistyped word most likely means, "" if none is close.
func Nearest(word string, candidates []string) string {
	slices.Sort(candidates)
	word = strings.ToLower(word)
	best, least := "", max(2, len(word)/3)+1
	for _, c := range candidates {
		n := levenshtein.Distance(word, c, nil)
		if len(word) > 1 && (strings.HasPrefix(c, word) || sorted(c) == sorted(word)) {
			n = min(n, 1) // the beginning of a name, or its letters in another order
		}
		if n < least && n < len(c) {
			best, least = c, n
		}
	}
	return best
}

// sorted returns the letters of a word in order.
func sorted(word string) string {
	letters := []byte(word)
	slices.Sort(letters)
	return string(letters)
}

// flagError returns the error of parsing flags, with the flag that an unknown one most likely means.
func flagError(err error, f *flag.FlagSet) error {
	name, ok := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !ok {
		return err
	}
	var names []string
	f.VisitAll(func(fl *flag.Flag) { names = append(names, fl.Name) })
	if similar := Nearest(name, names); similar != "" {
		return fmt.Errorf("%w\nDid you mean: -%s", err, similar)
	}
	return err
}
