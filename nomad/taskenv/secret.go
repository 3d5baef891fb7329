package taskenv

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strconv"
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

// Redact replaces values of secret blocks by their references in a text, and the tokens of the task by the names of their
// variables. A library or a driver may repeat in an error what it was given, also quoted or as part of a URL.
func (e *Env) Redact(text string) string {
	if len(e.secrets)+len(e.tokens) == 0 || text == "" {
		return text
	}
	type private struct{ value, shown string }
	var all []private
	for key, value := range e.secrets {
		all = append(all, private{value, "<" + secretPrefix + key + ">"})
	}
	for name, value := range e.tokens {
		all = append(all, private{value, "<" + name + ">"})
	}
	slices.SortFunc(all, func(a, b private) int { // a value can contain another
		return cmp.Or(cmp.Compare(len(b.value), len(a.value)), cmp.Compare(a.shown, b.shown))
	})
	// One pass with all of them: a task can have many secrets, and an error much text.
	var pairs []string
	for _, p := range all {
		if len(p.value) < minRedacted || len(p.value) > len(text) {
			continue
		}
		for _, form := range written(p.value) {
			pairs = append(pairs, form, p.shown)
		}
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// written returns the forms in which a text contains a value. None is shorter than the value.
func written(value string) []string {
	quoted := strconv.Quote(value)
	forms := []string{value, quoted[1 : len(quoted)-1], url.QueryEscape(value), url.PathEscape(value)}
	slices.Sort(forms)
	return slices.Compact(forms)
}

// tokenNames are the beginnings of the names of variables in which hooks give a task its tokens.
var tokenNames = []string{"NOMAD_TOKEN", "VAULT_TOKEN", "CONSUL_TOKEN", "CONSUL_HTTP_TOKEN"}

// tokens returns the tokens of the task by the names of their variables. The caller holds mu.
func (b *Builder) tokens() map[string]string {
	var out map[string]string
	for _, vars := range b.hooks {
		for name, value := range vars {
			if !slices.ContainsFunc(tokenNames, func(begin string) bool { return strings.HasPrefix(name, begin) }) {
				continue
			}
			if out == nil {
				out = map[string]string{}
			}
			out[name] = value
		}
	}
	return out
}

// Redact is Env.Redact with the current secrets and tokens.
func (b *Builder) Redact(text string) string {
	b.mu.Lock()
	e := Env{secrets: b.secrets, tokens: b.tokens()}
	b.mu.Unlock()
	return e.Redact(text)
}
