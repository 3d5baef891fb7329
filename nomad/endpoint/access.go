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

// needOf requires one of the rights in the namespace of an object found by its ID. The
// namespace is "" when the object was not found. A caller without the rights gets the same
// error as for a missing object, so that IDs cannot be guessed.
func needOf(c *rpc.Call, namespace string, missing error, ops ...acl.NamespaceCapability) error {
	if namespace != "" && c.Access.Need(acl.InNamespace(namespace, ops...)) == nil {
		return nil
	}
	return lacking(c, missing, ops...)
}

// lacking appends to a not-found error that the object may be hidden. Management callers, and
// all callers when access control is disabled, get the plain error.
func lacking(c *rpc.Call, missing error, ops ...acl.NamespaceCapability) error {
	var coded *nomad.CodedError
	if c.Access.Off || c.Access.IsManagement() || !errors.As(missing, &coded) {
		return missing
	}
	return nomad.Errorf(coded.Code, "%s%s", coded.Message, nomad.Hidden(texts(ops)...))
}

// notSeen returns the error of a read of one object that the caller did not see. It is nil
// for management callers and nodes, which expect an empty response.
func notSeen(c *rpc.Call, missing error, ops ...acl.NamespaceCapability) error {
	if c.Access.Off || c.Access.IsManagement() || authz.NodeID(c.Identity) != "" {
		return nil
	}
	return lacking(c, missing, ops...)
}

func texts[C ~string](ops []C) []string {
	return each(ops, func(op C) string { return string(op) })
}

// grants returns a function that reports whether the caller has one of the rights in a
// namespace. Each namespace is checked once.
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

// readsAlloc reports whether the caller may read an allocation. Nodes may read their own
// allocations, and those whose ephemeral disk they migrate.
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

// fetchesDisk reports whether a non-terminal allocation on the node migrates the ephemeral
// disk of the allocation with the ID.
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

// forOperators rejects the identities of tasks and nodes when access control is disabled.
// Without this check they would have an operator's rights. With access control enabled, their
// policies apply.
func forOperators(c *rpc.Call) error {
	if c.Access.Off && c.Identity.Claims != nil {
		return nomad.ErrPermissionDenied
	}
	return nil
}

// needAll checks every item, and returns the first error.
func needAll[T any](c *rpc.Call, things []T, question func(T) acl.Question) error {
	c.Access.Open() // an empty list needs no right
	for _, t := range things {
		if err := c.Access.Need(question(t)); err != nil {
			return err
		}
	}
	return nil
}

// needJob checks the caller's rights to run the job: overriding policies, mounting its
// volumes and running CSI plugins.
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
