package process

import (
	"path"
	"slices"

	"github.com/open-nomad/open-nomad/internal/sandbox"
)

// Environment is what a driver makes of the environment that a job and the client give.
// It holds no secrets: handles keep it.
type Environment struct {
	Default map[string]string // where nothing else says
	Set     map[string]string // whatever else says
	Without []string          // names to leave out, or patterns such as AWS_*
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

// means says whether a pattern is for a name.
func means(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return err == nil && ok || pattern == name
}
