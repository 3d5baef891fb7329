package endpoint

import (
	"slices"
	"strconv"
	"strings"

	exec2 "github.com/open-nomad/open-nomad/drivers/exec2/config"
	"github.com/open-nomad/open-nomad/nomad"
)

// What the servers ask of nodes on behalf of a job.
const (
	targetVersion     = "${attr.nomad.version}"
	identityVersion   = ">= 1.7.0-a"
	targetSignals     = "${attr.os.signals}"
	defaultKillSignal = "SIGINT"
	targetLandlock    = "${attr.driver.exec2.landlock.abi}"
)

// addImplicitConstraints adds to each group what its tasks need of a node beyond
// what the job says: clients that know identities, the signals that are to be
// sent, and how much of Landlock.
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

// constrain adds a constraint once: a job that was read back has it already.
func constrain(tg *nomad.TaskGroup, c *nomad.Constraint) {
	if !slices.ContainsFunc(tg.Constraints, func(o *nomad.Constraint) bool { return o != nil && *o == *c }) {
		tg.Constraints = append(tg.Constraints, c)
	}
}

// needsIdentities says whether something of the group has an identity of its own.
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

// landlockOf returns the newest version of Landlock that a task of the group needs.
func landlockOf(tg *nomad.TaskGroup) int {
	abi := 0
	for _, t := range tg.Tasks {
		if t.Driver == exec2.Driver {
			abi = max(abi, exec2.TaskABI(t.Config))
		}
	}
	return abi
}

// signalsOf returns the signals that tasks of the group may get, sorted.
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
