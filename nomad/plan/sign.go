package plan

import (
	"context"
	"fmt"
	"maps"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/identity"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// defaultIdentity is used for tasks without an identity block. Registration adds one to each task,
// but jobs of older state may have none.
var defaultIdentity = &nomad.WorkloadIdentity{
	Name:     nomad.WorkloadIdentityDefaultName,
	Audience: []string{nomad.IdentityDefaultAud},
}

// slot is the place for a token.
type slot struct {
	alloc *nomad.Allocation
	task  string
}

// sign adds the default identity to every task of the allocations in the result. An allocation
// keeps existing identities, for example after an in-place update.
func (a *Applier) sign(ctx context.Context, c *candidate) error {
	var slots []slot
	var claims []*idtoken.Claims
	c.signed = make(map[string]*nomad.Allocation)
	for _, allocs := range c.result.NodeAllocation {
		for _, alloc := range allocs {
			job := alloc.Job
			if job == nil {
				job = c.job
			}
			signed := c.keepIdentities(alloc)
			c.signed[alloc.ID] = signed
			a.promise(c, signed, job)
			for _, task := range tasksOf(job, alloc.TaskGroup) {
				if _, ok := signed.SignedIdentities[task.Name]; ok {
					continue
				}
				slots = append(slots, slot{signed, task.Name})
				claims = append(claims, a.claims(c, signed, job, task))
			}
		}
	}
	if len(claims) == 0 {
		return nil
	}
	within, cancel := context.WithTimeout(ctx, signWithin)
	defer cancel()
	tokens, err := a.cfg.Minter.MintAll(within, claims)
	if err != nil {
		return fmt.Errorf("sign identities of evaluation %s: %w", c.plan.EvalID, err)
	}
	for i, s := range slots {
		s.alloc.SignedIdentities[s.task] = tokens[i].Reveal()
		// RS256 keys need no reference here: state keeps them while a job requests RS256.
		if s.alloc.SigningKeyID == "" || claims[i].Alg != nomad.IdentityAlgRS256 {
			s.alloc.SigningKeyID = tokens[i].KeyID()
		}
	}
	return nil
}

// keepIdentities returns a copy of alloc with the identities from state. Identities in the plan are
// ignored: only the leader signs.
func (c *candidate) keepIdentities(alloc *nomad.Allocation) *nomad.Allocation {
	clone := *alloc
	clone.SignedIdentities, clone.SigningKeyID = make(map[string]string), ""
	if old := c.view.snap.Alloc(nil, alloc.ID); old != nil {
		maps.Copy(clone.SignedIdentities, old.SignedIdentities)
		clone.SigningKeyID = old.SigningKeyID
	}
	return &clone
}

// promise sets the isolation levels that the node must enforce for a new allocation. An allocation
// keeps those from state: its tokens claim them. Levels in the plan are ignored.
func (a *Applier) promise(c *candidate, alloc *nomad.Allocation, job *nomad.Job) {
	alloc.Isolation = nil
	if old := c.view.snap.Alloc(nil, alloc.ID); old != nil {
		alloc.Isolation = old.Isolation
		return
	}
	if job == nil || job.TaskGroup(alloc.TaskGroup) == nil {
		return
	}
	alloc.Isolation = a.cfg.Kinds.Promise(c.view.snap.Namespace(nil, alloc.Namespace), c.view.snap.Node(nil, alloc.NodeID),
		job.TaskGroup(alloc.TaskGroup))
}

func tasksOf(job *nomad.Job, group string) []*nomad.Task {
	if job == nil {
		return nil
	}
	tg := job.TaskGroup(group)
	if tg == nil {
		return nil
	}
	return tg.Tasks
}

func (a *Applier) claims(c *candidate, alloc *nomad.Allocation, job *nomad.Job, task *nomad.Task) *idtoken.Claims {
	named := task.Identity
	if named == nil {
		named = defaultIdentity
	}
	handle := message.WIHandle{
		IdentityName:       named.Name,
		WorkloadIdentifier: task.Name,
		WorkloadType:       message.WorkloadTypeTask,
	}
	return a.cfg.Minter.Workload(identity.Subject{Alloc: alloc, Job: job, Handle: handle, Identity: named,
		Namespace: c.view.snap.Namespace(nil, alloc.Namespace)}, c.now)
}
