package csi

import (
	"cmp"
	"slices"
	"strings"
)

// hidden replaces a secret in a text.
const hidden = "[REDACTED]"

// Shorter values are not replaced, because they are parts of usual words.
const (
	shortestSecret = 3 // bytes
	shortestFlag   = 6 // bytes
)

// Hide returns a text of a plugin without the values of the secrets, and without mount flags, which may contain passwords.
func Hide(text string, secrets Secrets, flags []string) string {
	var values []string
	for _, value := range secrets {
		if len(value) >= shortestSecret {
			values = append(values, value)
		}
	}
	for _, flag := range flags {
		if len(flag) >= shortestFlag {
			values = append(values, flag)
		}
		if _, value, _ := strings.Cut(flag, "="); len(value) >= shortestSecret {
			values = append(values, value)
		}
	}
	slices.SortFunc(values, func(a, b string) int { return cmp.Compare(len(b), len(a)) }) // one may contain another
	for _, value := range values {
		text = strings.ReplaceAll(text, value, hidden)
	}
	return text
}
