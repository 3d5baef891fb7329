package taskenv

import (
	"maps"
	"strings"
)

// Env is a finished environment. It never changes and never prints.
type Env struct {
	vars map[string]string
	node map[string]string
}

// Map returns the variables, in a map of the caller's own.
func (e *Env) Map() map[string]string { return maps.Clone(e.vars) }

// Var returns one variable, empty when it is not set.
func (e *Env) Var(name string) string { return e.vars[name] }

// String keeps the values out of every log.
func (e *Env) String() string { return "env" }

// GoString keeps the values out of %#v.
func (e *Env) GoString() string { return "env" }

// Expand fills in the references of s. Whatever is not a known reference stays
// as it is; "$${" stands for "${".
func (e *Env) Expand(s string) string {
	out, _ := e.expand(s)
	return out
}

// expand is Expand that also returns the references to Nomad's own names which
// nothing is known of. It reads s once, whatever its length.
func (e *Env) expand(s string) (string, []string) {
	if !strings.Contains(s, "${") {
		return s, nil
	}
	var out strings.Builder
	var unknown []string
	for {
		before, after, found := strings.Cut(s, "${")
		if !found {
			out.WriteString(s)
			return out.String(), unknown
		}
		if strings.HasSuffix(before, "$") {
			out.WriteString(before + "{")
			s = after
			continue
		}
		out.WriteString(before)
		name, length := reference(after)
		value, known := e.lookup(name)
		switch {
		case known:
			out.WriteString(value)
		case length > 0 && ours(name):
			unknown = append(unknown, name)
			fallthrough
		default:
			out.WriteString("${")
			length = 0 // what follows is looked at for references of its own
		}
		s = after[length:]
	}
}

// reference reads a name and its closing brace; length 0 says that it is none.
func reference(s string) (name string, length int) {
	const longest = 512
	end := strings.IndexByte(s[:min(len(s), longest)], '}')
	if end <= 0 {
		return "", 0
	}
	name = strings.TrimSpace(s[:end])
	if inner, ok := strings.CutPrefix(name, `env["`); ok && strings.HasSuffix(inner, `"]`) {
		name = "env." + strings.TrimSuffix(inner, `"]`)
	}
	for _, r := range name {
		if strings.ContainsRune(" \t\n\"'`$(){}:", r) {
			return "", 0
		}
	}
	return name, end + 1
}

func (e *Env) lookup(name string) (string, bool) {
	if name == "" {
		return "", false
	}
	if value, ok := e.node[name]; ok {
		return value, true
	}
	if value, ok := e.vars[strings.TrimPrefix(name, "env.")]; ok {
		return value, true
	}
	return "", false
}

// ours says whether a reference can only be meant for this package.
func ours(name string) bool {
	for _, prefix := range []string{"NOMAD_", "attr.", "meta.", "node.", "env."} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
