package jobs

import (
	"fmt"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// needRights checks the caller's rights to run the job: overriding policies, mounting its
// volumes and running CSI plugins.
func needRights(c *rpc.Call, job *nomad.Job, override bool) error {
	if override {
		if err := c.Access.Need(acl.InNamespace(job.Namespace, acl.SentinelOverride)); err != nil {
			return err
		}
	}
	for _, tg := range job.TaskGroups {
		for name, v := range tg.Volumes {
			if err := needVolume(c, job.Namespace, v); err != nil {
				return fmt.Errorf("volume %q of group %q: %w", name, tg.Name, err)
			}
		}
		for _, t := range tg.Tasks {
			for _, m := range t.VolumeMounts {
				if err := needPropagation(c, tg, m); err != nil {
					return fmt.Errorf("volume_mount %q of task %q: %w", m.Volume, t.Name, err)
				}
			}
			if t.CSIPluginConfig == nil {
				continue
			}
			if err := c.Access.Need(acl.InNamespace(job.Namespace, acl.CSIRegisterPlugin)); err != nil {
				return fmt.Errorf("task %q: %w", t.Name, err)
			}
		}
	}
	return nil
}

// needVolume checks that the caller may mount a volume in a job.
func needVolume(c *rpc.Call, namespace string, v *nomad.VolumeRequest) error {
	switch {
	case v == nil:
		return nil
	case v.Type == nomad.VolumeTypeCSI:
		return c.Access.Need(acl.InNamespace(namespace, acl.CSIMountVolume))
	case v.Type != nomad.VolumeTypeHost:
		return nil // rejected by validation
	}
	q := acl.OfHostVolume(v.Source, acl.MountReadWrite)
	if v.Reads() {
		q.Rights = []string{string(acl.MountReadOnly), string(acl.MountReadWrite)}
	}
	return c.Access.Need(q)
}

// needPropagation checks that the caller may let mounts of a task appear on the node. If a reference
// selects the volume, it may be any of the group.
func needPropagation(c *rpc.Call, tg *nomad.TaskGroup, m *nomad.VolumeMount) error {
	if m == nil || !m.MayPropagate() {
		return nil
	}
	for name, v := range tg.Volumes {
		if v == nil || v.Type != nomad.VolumeTypeHost || m.Volume != name && tg.Volumes[m.Volume] != nil {
			continue
		}
		if err := c.Access.Need(acl.OfHostVolume(v.Source, acl.MountReadWrite)); err != nil {
			return fmt.Errorf("bidirectional propagation of volume %q: %w", name, err)
		}
	}
	return nil
}
