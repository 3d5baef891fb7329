package profile

import (
	"os"
	"slices"
	"strings"
)

// CommandLine returns the command line of this process without the values of secret flags. A NUL
// separates the arguments.
func CommandLine() string { return strings.Join(redacted(os.Args), "\x00") }

// redactedValue replaces a secret.
const redactedValue = "<redacted>"

// secretWords are parts of the names of flags whose values are secret.
var secretWords = []string{"token", "encrypt", "secret", "password", "key", "auth"}

// redacted returns the arguments without the values of secret flags.
func redacted(args []string) []string {
	out := slices.Clone(args)
	for i := 1; i < len(out); i++ {
		name, _, inline := strings.Cut(out[i], "=")
		switch {
		case !strings.HasPrefix(name, "-") || !secret(name):
		case inline:
			out[i] = name + "=" + redactedValue
		case i+1 < len(out):
			i++
			out[i] = redactedValue
		}
	}
	return out
}

func secret(flag string) bool {
	flag = strings.ToLower(flag)
	return slices.ContainsFunc(secretWords, func(word string) bool { return strings.Contains(flag, word) })
}
