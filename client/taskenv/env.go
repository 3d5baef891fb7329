package taskenv

import (
	"maps"
	"strings"
)

// Env is an environment. It never changes and cannot be printed.
type Env struct {
	vars  map[string]string
	node  nodeRefs
	paths Paths
	calls *calls // evaluates calls of functions; nil outside of a driver's config
}

// Map returns a copy of the variables.
func (e *Env) Map() map[string]string { return maps.Clone(e.vars) }

// Var returns the value of a variable, or "".
func (e *Env) Var(name string) string { return e.vars[name] }

// String hides the values.
func (e *Env) String() string { return "env" }

// GoString hides the values from %#v.
func (e *Env) GoString() string { return "env" }

// Expand interpolates the references in s. Unknown references are left unchanged; "$${" stands
// for "${".
func (e *Env) Expand(s string) string {
	out, _ := e.expand(s)
	return out
}

// expand is Expand, and also returns the unknown references with a Nomad prefix. It reads s
// once, so its time is linear.
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
		if value, length := e.calls.call(after); length > 0 {
			out.WriteString(value)
			s = after[length:]
			continue
		}
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
			length = 0 // the rest may contain references too
		}
		s = after[length:]
	}
}

// reference parses a name and its closing brace. length is 0 if s does not start with a
// reference.
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
	if value, ok := e.node.lookup(name); ok {
		return value, true
	}
	if value, ok := e.vars[strings.TrimPrefix(name, "env.")]; ok {
		return value, true
	}
	return "", false
}

// ours reports whether a reference has a prefix that only Nomad uses.
func ours(name string) bool {
	for _, prefix := range []string{"NOMAD_", "attr.", "meta.", "node.", "env."} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
