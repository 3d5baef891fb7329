package admission

import (
	"fmt"
	"maps"
	"slices"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
)

// need is a right that a job requires of its asker.
type need struct {
	right acl.Question
	why   string // the part of the job that needs the right
	// ofEveryCaller means that who starts or scales a registered job needs the right too. Otherwise it is enough that
	// the author of the job had it, as in Nomad.
	ofEveryCaller bool
}

// needsOf returns the rights that a job requires, beyond that to write jobs in its namespace: running privileged tasks,
// mounting its volumes and running CSI plugins.
func needsOf(job *nomad.Job) (out []need) {
	for _, p := range Places(job) {
		if p.Task.Privileged {
			out = append(out, need{privilegeIn(job.Namespace),
				fmt.Sprintf("task %q of group %q is privileged", p.Task.Name, p.Group.Name), true})
		}
	}
	for _, tg := range job.TaskGroups {
		for _, name := range slices.Sorted(maps.Keys(tg.Volumes)) {
			for _, right := range ofVolume(job.Namespace, tg.Volumes[name]) {
				out = append(out, need{right, fmt.Sprintf("volume %q of group %q", name, tg.Name), false})
			}
		}
		anyVolume := false // required already by a mount that selects its volume by a reference
		for _, t := range tg.Tasks {
			for _, m := range t.VolumeMounts {
				if anyVolume || m == nil || !m.MayPropagate() {
					continue
				}
				out = append(out, ofPropagation(tg, t, m)...)
				anyVolume = tg.Volumes[m.Volume] == nil
			}
			if t.CSIPluginConfig != nil {
				out = append(out, need{acl.InNamespace(job.Namespace, acl.CSIRegisterPlugin), fmt.Sprintf("task %q", t.Name), false})
			}
		}
	}
	return out
}

// ofVolume returns the rights to mount a volume in a job. Validation rejects volumes of other types.
func ofVolume(namespace string, v *nomad.VolumeRequest) []acl.Question {
	switch {
	case v == nil:
		return nil
	case v.Type == nomad.VolumeTypeCSI:
		return []acl.Question{acl.InNamespace(namespace, acl.CSIMountVolume), acl.ToRead(acl.Plugins)}
	case v.Type != nomad.VolumeTypeHost:
		return nil
	}
	q := acl.OfHostVolume(v.Source, acl.MountReadWrite)
	if v.Reads() {
		q.Rights = []string{string(acl.MountReadOnly), string(acl.MountReadWrite)}
	}
	return []acl.Question{q}
}

// ofPropagation returns the rights to let mounts of a task appear on the node. If a reference selects the volume, it may
// be any of the group.
func ofPropagation(tg *nomad.TaskGroup, t *nomad.Task, m *nomad.VolumeMount) (out []need) {
	names := []string{m.Volume}
	if tg.Volumes[m.Volume] == nil {
		names = slices.Sorted(maps.Keys(tg.Volumes))
	}
	for _, name := range names {
		v := tg.Volumes[name]
		if v == nil || v.Type != nomad.VolumeTypeHost {
			continue
		}
		out = append(out, need{acl.OfHostVolume(v.Source, acl.MountReadWrite),
			fmt.Sprintf("volume_mount %q of task %q: bidirectional propagation of volume %q", m.Volume, t.Name, name), false})
	}
	return out
}

// Rights returns an error if the asker lacks a right that the job requires. Who writes nothing needs only the rights of
// every caller. Without access control, the servers need no right.
func (a *Admitter) Rights(who Asker, job *nomad.Job) error {
	if a.cfg.Open && who.access == nil {
		return nil
	}
	for _, n := range needsOf(job) {
		if who.dry && !n.ofEveryCaller {
			continue
		}
		if err := who.allow(n); err != nil {
			return err
		}
	}
	return nil
}
