package jobs

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/admission"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
	"github.com/open-nomad/open-nomad/nomad/kinds"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Targets and values of implicit constraints.
const (
	targetVersion     = "${attr.nomad.version}"
	identityVersion   = ">= 1.7.0-a"
	targetSignals     = "${attr.os.signals}"
	defaultKillSignal = "SIGINT"
)

// addImplicitConstraints adds constraints for what the tasks of each group require of a node:
// workload identities, services, signals, the plugins of its network, providers of secrets, features that Nomad does not have,
// and what their drivers need, such as a version of Landlock.
func addImplicitConstraints(job *nomad.Job, names *kinds.Names) {
	for _, tg := range job.TaskGroups {
		if needsIdentities(tg) {
			admission.Constrain(tg, &nomad.Constraint{LTarget: targetVersion, RTarget: identityVersion, Operand: nomad.ConstraintSemver})
		}
		if signals := signalsOf(tg); len(signals) > 0 {
			admission.Constrain(tg, &nomad.Constraint{LTarget: targetSignals, RTarget: strings.Join(signals, ","), Operand: nomad.ConstraintSetContains})
		}
		if tg.UsesSpiffe() {
			admission.Constrain(tg, &nomad.Constraint{LTarget: "${attr." + nomad.NodeSpiffeAttribute + "}", Operand: nomad.ConstraintAttributeIsSet})
		}
		for _, provider := range secretProvidersOf(tg) {
			admission.Constrain(tg, &nomad.Constraint{LTarget: "${attr." + nomad.SecretsAttribute(provider) + "}", Operand: nomad.ConstraintAttributeIsSet})
		}
		for _, sink := range sinksOf(tg) {
			admission.Constrain(tg, &nomad.Constraint{LTarget: "${attr." + nomad.LogSinkAttribute(sink) + "}", Operand: nomad.ConstraintAttributeIsSet})
		}
		for _, c := range slices.Concat(ofNetworks(tg), admission.ServiceConstraints(tg), ofOurClients(tg), least(tg, names)) {
			admission.Constrain(tg, c)
		}
	}
}

// bridgePlugins are the CNI plugins of a network of mode bridge.
var bridgePlugins = []string{"bridge", "firewall", "host-local", "loopback", "portmap"}

// pluginVersion is the least version of these plugins.
const pluginVersion = ">= 0.4.0"

// ofNetworks returns the constraints of a group's network.
func ofNetworks(tg *nomad.TaskGroup) (out []*nomad.Constraint) {
	if tg.NetworkMode() != nomad.NetworkModeBridge {
		return nil
	}
	for _, name := range bridgePlugins {
		out = append(out, &nomad.Constraint{LTarget: "${attr.plugins.cni.version." + name + "}", RTarget: pluginVersion,
			Operand: nomad.ConstraintSemver})
	}
	if slices.ContainsFunc(tg.Networks, func(n *nomad.NetworkResource) bool { return n.Isolate || n.Egress != nil }) {
		out = append(out, &nomad.Constraint{LTarget: "${attr." + nomad.AttrBridgeIsolation + "}", RTarget: "true", Operand: "="})
	}
	return out
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

// least returns the constraints for the minimum values of node attributes that the tasks of the group
// need, sorted by attribute.
func least(tg *nomad.TaskGroup, names *kinds.Names) (out []*nomad.Constraint) {
	values := map[string]int{}
	for _, t := range tg.Tasks {
		k := names.Kind(t.Driver)
		if k == nil || k.Least == nil {
			continue
		}
		for key, value := range k.Least(t.Config) {
			attribute := drivers.Attribute(t.Driver, key)
			values[attribute] = max(values[attribute], value)
		}
	}
	for _, attribute := range slices.Sorted(maps.Keys(values)) {
		out = append(out, &nomad.Constraint{LTarget: "${attr." + attribute + "}", RTarget: strconv.Itoa(values[attribute]), Operand: ">="})
	}
	return out
}

// sinksOf returns the log sinks that tasks of the group use, sorted.
func sinksOf(tg *nomad.TaskGroup) []string {
	var out []string
	for _, t := range tg.Tasks {
		if t.LogConfig != nil && !t.LogConfig.Disabled {
			out = append(out, t.LogConfig.Sinks...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// secretProvidersOf returns the providers of the secret blocks in the group, sorted.
func secretProvidersOf(tg *nomad.TaskGroup) []string {
	var out []string
	for _, t := range tg.Tasks {
		for _, s := range t.Secrets {
			out = append(out, s.Provider)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
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
	out = append(out, jobrules.VaultSignals(tg)...)
	slices.Sort(out)
	return slices.Compact(out)
}
