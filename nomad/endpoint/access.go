package endpoint

import (
	"errors"
	"fmt"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/authz"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// needOf asks for one of the rights in the namespace of a thing that was found by its
// ID, "" for one that was not found. Who lacks them hears what is said of a thing that
// there is not: nobody can try out IDs.
func needOf(c *rpc.Call, namespace string, missing error, ops ...acl.NamespaceCapability) error {
	if namespace != "" && c.Access.Need(acl.InNamespace(namespace, ops...)) == nil {
		return nil
	}
	return lacking(c, missing, ops...)
}

// lacking adds to what is said of a thing that there is not that it may be hidden. Only
// who may see everything knows that it is not.
func lacking(c *rpc.Call, missing error, ops ...acl.NamespaceCapability) error {
	var coded *nomad.CodedError
	if c.Access.Off || c.Access.IsManagement() || !errors.As(missing, &coded) {
		return missing
	}
	return nomad.Errorf(coded.Code, "%s%s", coded.Message, nomad.Hidden(texts(ops)...))
}

// notSeen is the end of a read of one thing that the caller did not see: nil for who may
// see everything, whose answer is nothing, and for nodes, which take that for an answer.
func notSeen(c *rpc.Call, missing error, ops ...acl.NamespaceCapability) error {
	if c.Access.Off || c.Access.IsManagement() || authz.NodeID(c.Identity) != "" {
		return nil
	}
	return lacking(c, missing, ops...)
}

func texts[C ~string](ops []C) []string {
	return each(ops, func(op C) string { return string(op) })
}

// grants answers of namespaces whether the caller has one of the rights there. Each is
// asked for once.
func grants(c *rpc.Call, ops ...acl.NamespaceCapability) func(namespace string) bool {
	known := map[string]bool{}
	return func(namespace string) bool {
		may, ok := known[namespace]
		if !ok {
			may = c.Access.Allows(acl.InNamespace(namespace, ops...))
			known[namespace] = may
		}
		return may
	}
}

// readsAlloc reports whether the caller may read an allocation. Nodes read their own
// allocations, and those whose disk they must fetch.
func readsAlloc(snap *state.Snapshot, c *rpc.Call, a *nomad.Allocation) bool {
	switch {
	case a == nil:
		return false
	case c.Access.Allows(acl.InNamespace(a.Namespace, acl.ReadJob)), ownAlloc(snap, c.Identity, a) == nil:
		return true
	}
	node := authz.NodeID(c.Identity)
	return node != "" && fetchesDisk(snap, node, a.ID)
}

// fetchesDisk reports whether an allocation on the node takes over the disk of the allocation
// with the ID. One that has ended takes over nothing more.
func fetchesDisk(snap *state.Snapshot, node, id string) bool {
	for a := range snap.AllocsByNode(nil, node) {
		if a.PreviousAllocation != id || a.TerminalStatus() || a.Job == nil {
			continue
		}
		if tg := a.Job.TaskGroup(a.TaskGroup); tg != nil && tg.EphemeralDisk != nil && tg.EphemeralDisk.Migrate {
			return true
		}
	}
	return false
}

// forOperators refuses the identities of tasks and nodes while there is no access
// control: nothing else would keep them from what is an operator's. With access control
// they have what their policies grant.
func forOperators(c *rpc.Call) error {
	if c.Access.Off && c.Identity.Claims != nil {
		return nomad.ErrPermissionDenied
	}
	return nil
}

// needAll asks the same of several things, before anything is said of one of them.
func needAll[T any](c *rpc.Call, things []T, question func(T) acl.Question) error {
	c.Access.Open() // of nothing, nothing is asked
	for _, t := range things {
		if err := c.Access.Need(question(t)); err != nil {
			return err
		}
	}
	return nil
}

// needJob asks whether the caller may run the job as it is: what it mounts, and what its
// tasks offer to others, needs rights of its own.
func needJob(c *rpc.Call, job *nomad.Job, override bool) error {
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

// needVolume asks whether the caller's jobs may mount a volume.
func needVolume(c *rpc.Call, namespace string, v *nomad.VolumeRequest) error {
	switch {
	case v == nil:
		return nil
	case v.Type == nomad.VolumeTypeCSI:
		return c.Access.Need(acl.InNamespace(namespace, acl.CSIMountVolume))
	case v.Type != nomad.VolumeTypeHost:
		return nil // validation refuses it
	}
	q := acl.OfHostVolume(v.Source, acl.MountReadWrite)
	if v.Reads() {
		q.Rights = []string{string(acl.MountReadOnly), string(acl.MountReadWrite)}
	}
	return c.Access.Need(q)
}
