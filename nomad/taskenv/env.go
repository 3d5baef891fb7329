package taskenv

import (
	"maps"
	"strings"
	"time"

	"golang.org/x/time/rate"
)

// Limits of the values that references of one environment insert. A short job can refer to a long value many times, and
// from values to which others refer. The kernel refuses a program with more arguments and variables than maxInserted.
const (
	maxInserted = 16 << 20 // bytes at once
	insertRate  = 1 << 20  // bytes per second later, for tasks that run long
)

// Env is an environment. It never changes and cannot be printed.
type Env struct {
	vars     map[string]string
	node     nodeRefs
	paths    Paths
	secrets  map[string]string // by NAME.KEY; shared, never written
	tokens   map[string]string // those of the task by their variables, which Redact replaces
	calls    *calls            // evaluates calls of functions; nil outside of a driver's config
	inserted *rate.Limiter     // of bytes; copies share it
}

func newInserted(most int) *rate.Limiter { return rate.NewLimiter(insertRate, most) }

// mayInsert reports whether a reference may be replaced by the value.
func (e *Env) mayInsert(value string) bool { return e.inserted.AllowN(time.Now(), len(value)) }

// Map returns a copy of the variables.
func (e *Env) Map() map[string]string { return maps.Clone(e.vars) }

// Var returns the value of a variable, or "".
func (e *Env) Var(name string) string { return e.vars[name] }

// String hides the values.
func (e *Env) String() string { return "env" }

// GoString hides the values from %#v.
func (e *Env) GoString() string { return "env" }

// Expand interpolates the references in s. Unknown references, and those whose values exceed the limits, are left
// unchanged; "$${" stands for "${".
func (e *Env) Expand(s string) string {
	out, _ := e.expand(s)
	return out
}

// expand is Expand, and also returns the unknown references with a Nomad prefix, and tooLarge if a limit was exceeded.
// It reads s once, so its time is linear.
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
		value, length := e.calls.call(after)
		name, known := "", length > 0
		if !known {
			name, length = reference(after)
			value, known = e.lookup(name)
		}
		switch {
		case known && e.mayInsert(value):
			out.WriteString(value)
		case known:
			unknown = append(unknown, tooLarge)
			out.WriteString("${" + after[:length])
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

// tooLarge is in place of the references whose values exceed the limits. It is not a name.
const tooLarge = "}"

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
		return e.withEnvoy(value), true
	}
	if value, ok := e.vars[strings.TrimPrefix(name, "env.")]; ok {
		return value, true
	}
	if key, ok := strings.CutPrefix(name, secretPrefix); ok {
		value, ok := e.secrets[key]
		return value, ok
	}
	return "", false
}

// EnvoyVersion is the variable with the version of Envoy that the Consul of the node supports. The names of images in the
// meta of nodes refer to it: it is the only reference that is replaced in a value.
const EnvoyVersion = "NOMAD_envoy_version"

// withEnvoy replaces the version of Envoy in a value of the node, for tasks that have it.
func (e *Env) withEnvoy(value string) string {
	version, ok := e.vars[EnvoyVersion]
	if !ok || !strings.Contains(value, "${"+EnvoyVersion+"}") {
		return value
	}
	return strings.ReplaceAll(value, "${"+EnvoyVersion+"}", version)
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
