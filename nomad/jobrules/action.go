package jobrules

import (
	"strings"

	"github.com/open-nomad/open-nomad/nomad"
)

// validateActions checks the action blocks of a task.
func validateActions(t *nomad.Task, f *faults) {
	seen := map[string]bool{}
	for i, a := range t.Actions {
		if a.Name == "" {
			f.add("action %d has no name: set the label of the block", i+1)
			continue
		}
		f := f.in("action", a.Name)
		validateName(f, a.Name)
		if seen[a.Name] {
			f.add("duplicate name in the task: rename one")
		}
		seen[a.Name] = true
		if a.Command == "" {
			f.add("missing command: set the program to run")
		}
		if strings.ContainsRune(a.Command+strings.Join(a.Args, ""), 0) {
			f.add("command or args contains a NUL character")
		}
	}
}
