package mesh

import (
	"cmp"
	"maps"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
)

// merge changes the task of a proxy as a sidecar_task block says. Fields that the block does not set keep their values. A
// driver other than that of the task replaces its config.
func merge(t *nomad.Task, with *nomad.SidecarTask) {
	if with == nil {
		return
	}
	with = codec.Copy(with) // the task must not share its parts
	t.Name = cmp.Or(with.Name, t.Name)
	t.User = cmp.Or(with.User, t.User)
	t.KillSignal = cmp.Or(with.KillSignal, t.KillSignal)
	if with.Driver != "" && with.Driver != t.Driver {
		t.Driver, t.Config = with.Driver, nil
	}
	t.Config = merged(t.Config, with.Config)
	t.Env = merged(t.Env, with.Env)
	t.Meta = merged(t.Meta, with.Meta)
	if with.Resources != nil {
		t.Resources = with.Resources
	}
	if with.LogConfig != nil && !isDefault(with.LogConfig) {
		t.LogConfig = with.LogConfig
	}
	if with.KillTimeout != nil {
		t.KillTimeout = *with.KillTimeout
	}
	if d := with.ShutdownDelay; d != nil && *d != 0 {
		t.ShutdownDelay = *d
	}
	if len(with.VolumeMounts) > 0 {
		t.VolumeMounts = with.VolumeMounts
	}
	if len(with.Identities) > 0 {
		t.Identities = mergeIdentities(t.Identities, with.Identities)
	}
}

// isDefault reports whether the log files are those that the CLI of Nomad sets in each sidecar_task. They would not fit the
// disk of a small group.
func isDefault(l *nomad.LogConfig) bool {
	return l.MaxFiles == 10 && l.MaxFileSizeMB == 10 && !l.Disabled && len(l.Sinks) == 0
}

// merged returns the entries of both maps. Those of the second one win.
func merged[V any](a, b map[string]V) map[string]V {
	if len(b) == 0 {
		return a
	}
	out := maps.Clone(a)
	if out == nil {
		out = map[string]V{}
	}
	maps.Copy(out, b)
	return out
}

// mergeIdentities returns the identities of with, and those of have with other names. The servers add some to a stored task.
func mergeIdentities(have, with []*nomad.WorkloadIdentity) []*nomad.WorkloadIdentity {
	names := map[string]bool{}
	for _, id := range with {
		names[id.Name] = true
	}
	for _, id := range have {
		if !names[id.Name] {
			with = append(with, id)
		}
	}
	return with
}
