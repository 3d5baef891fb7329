package jobs

import (
	"slices"
	"strconv"
	"strings"

	exec2 "github.com/open-nomad/open-nomad/drivers/exec2/config"
	"github.com/open-nomad/open-nomad/nomad"
)

// Targets and values of implicit constraints.
const (
	targetVersion     = "${attr.nomad.version}"
	identityVersion   = ">= 1.7.0-a"
	targetSignals     = "${attr.os.signals}"
	defaultKillSignal = "SIGINT"
	targetLandlock    = "${attr.driver.exec2.landlock.abi}"
)

// addImplicitConstraints adds constraints for what the tasks of each group require of a node:
// workload identities, signals, and a version of Landlock.
func addImplicitConstraints(job *nomad.Job) {
	for _, tg := range job.TaskGroups {
		if needsIdentities(tg) {
			constrain(tg, &nomad.Constraint{LTarget: targetVersion, RTarget: identityVersion, Operand: nomad.ConstraintSemver})
		}
		if signals := signalsOf(tg); len(signals) > 0 {
			constrain(tg, &nomad.Constraint{LTarget: targetSignals, RTarget: strings.Join(signals, ","), Operand: nomad.ConstraintSetContains})
		}
		if abi := landlockOf(tg); abi > 0 {
			constrain(tg, &nomad.Constraint{LTarget: targetLandlock, RTarget: strconv.Itoa(abi), Operand: ">="})
		}
	}
}

// constrain adds a constraint unless the group has it. A job that was read from the API and
// submitted again already has it.
func constrain(tg *nomad.TaskGroup, c *nomad.Constraint) {
	if !slices.ContainsFunc(tg.Constraints, func(o *nomad.Constraint) bool { return o != nil && *o == *c }) {
		tg.Constraints = append(tg.Constraints, c)
	}
}

// needsIdentities reports whether a task or service of the group has a named identity.
func needsIdentities(tg *nomad.TaskGroup) bool {
	for _, s := range tg.Services {
		if s.Identity != nil {
			return true
		}
	}
	for _, t := range tg.Tasks {
		if len(t.Identities) > 0 {
			return true
		}
		for _, s := range t.Services {
			if s.Identity != nil {
				return true
			}
		}
	}
	return false
}

// landlockOf returns the highest Landlock ABI version that a task of the group requires.
func landlockOf(tg *nomad.TaskGroup) int {
	abi := 0
	for _, t := range tg.Tasks {
		if t.Driver == exec2.Driver {
			abi = max(abi, exec2.TaskABI(t.Config))
		}
	}
	return abi
}

// signalsOf returns the signals that may be sent to tasks of the group, sorted.
func signalsOf(tg *nomad.TaskGroup) []string {
	var out []string
	add := func(name string) {
		if name != "" && name != defaultKillSignal {
			out = append(out, name)
		}
	}
	for _, t := range tg.Tasks {
		add(t.KillSignal)
		if t.Identity != nil {
			add(t.Identity.ChangeSignal)
		}
		for _, id := range t.Identities {
			add(id.ChangeSignal)
		}
		for _, tmpl := range t.Templates {
			add(tmpl.ChangeSignal)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
