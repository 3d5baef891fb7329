package process

import (
	"path"
	"slices"

	"github.com/open-nomad/open-nomad/internal/sandbox"
)

// Environment is a driver's change to the environment of a job and its client. It contains no
// secrets, since handles store it.
type Environment struct {
	Default map[string]string // used if not set otherwise
	Set     map[string]string // overrides other values
	Without []string          // names to omit, or patterns such as AWS_*
}

// Apply returns the variables of a program.
func (e Environment) Apply(given map[string]string) sandbox.Environment {
	env := map[string]string{}
	for _, part := range []map[string]string{e.Default, given} {
		for name, value := range part {
			if !slices.ContainsFunc(e.Without, func(pattern string) bool { return means(pattern, name) }) {
				env[name] = value
			}
		}
	}
	for name, value := range e.Set {
		env[name] = value
	}
	return Environ(env)
}

// means reports whether a pattern matches a name.
func means(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return err == nil && ok || pattern == name
}
