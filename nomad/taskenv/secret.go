package taskenv

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// secretPrefix begins the references to values of secret blocks.
const secretPrefix = "secret."

// minRedacted is the length of the shortest value that Redact replaces. A shorter one is part of many words.
const minRedacted = 4

// WithSecrets returns the environment with these values of secret blocks, by NAME.KEY, instead of its own. Variables of the task
// still contain the secrets to which they refer.
func (e *Env) WithSecrets(values map[string]string) *Env {
	out := *e
	out.secrets = maps.Clone(values)
	return &out
}

// Redact replaces values of secret blocks in a text by their references. A library or a driver may repeat in an error what it
// was given.
func (e *Env) Redact(text string) string {
	if len(e.secrets) == 0 || text == "" {
		return text
	}
	keys := slices.SortedFunc(maps.Keys(e.secrets), func(a, b string) int { // a value can contain another
		return cmp.Or(cmp.Compare(len(e.secrets[b]), len(e.secrets[a])), cmp.Compare(a, b))
	})
	for _, key := range keys {
		if value := e.secrets[key]; len(value) >= minRedacted {
			text = strings.ReplaceAll(text, value, "<"+secretPrefix+key+">")
		}
	}
	return text
}

// Redact is Env.Redact with the current secrets.
func (b *Builder) Redact(text string) string {
	b.mu.Lock()
	e := Env{secrets: b.secrets}
	b.mu.Unlock()
	return e.Redact(text)
}
