package jobs

import (
	"context"
	"strings"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// identifyPolicies sets the IDs of the scaling policies of a job. Groups and tasks keep the IDs of their stored
// policies. The IDs in the request are ignored.
func identifyPolicies(snap *state.Snapshot, job *nomad.Job) {
	type scaled struct{ group, task, kind string }
	stored := map[scaled]*nomad.ScalingPolicy{}
	for p := range snap.ScalingPoliciesByJob(nil, job.Namespace, job.ID) {
		stored[scaled{p.Target[nomad.ScalingTargetGroup], p.Target[nomad.ScalingTargetTask], p.Type}] = p
	}
	job.EachScaling(func(tg *nomad.TaskGroup, t *nomad.Task, p *nomad.ScalingPolicy) {
		target := job.ScalingTarget(tg, t)
		p.CreateIndex, p.ModifyIndex = 0, 0
		if old := stored[scaled{target[nomad.ScalingTargetGroup], target[nomad.ScalingTargetTask], p.Type}]; old != nil {
			p.ID = old.ID
		} else {
			p.ID = nomad.NewID()
		}
	})
}

// mayList reports whether the caller may list the scaling policies of a namespace.
func mayList(c *rpc.Call) func(namespace string) bool {
	return mayEither(c, acl.ListScalingPolicies)
}

// mayEither reports whether the caller has a right in a namespace, or the rights to list and read
// its jobs.
func mayEither(c *rpc.Call, op acl.NamespaceCapability) func(namespace string) bool {
	has, lists, reads := handler.Grants(c, op), handler.Grants(c, acl.ListJobs), handler.Grants(c, acl.ReadJob)
	return func(namespace string) bool { return has(namespace) || lists(namespace) && reads(namespace) }
}

// Policies lists scaling policies, by ID. For the namespace "*" it lists those in namespaces with
// the right.
func (s *Service) Policies(ctx context.Context, c *rpc.Call,
	req *message.ScalingPolicyListRequest) (*message.ScalingPolicyListResponse, error) {
	return handler.ReadList(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.ScalingPolicyListResponse) error {
			all, err := handler.Within(snap, handler.Scope{Namespace: req.Namespace, May: mayList(c)}, snap.ScalingPolicies(ws),
				func(p *nomad.ScalingPolicy) string { return p.Target[nomad.ScalingTargetNamespace] })
			if err != nil {
				return err
			}
			out.Policies = []*nomad.ScalingPolicyListStub{}
			for p := range all {
				if strings.HasPrefix(p.ID, req.Prefix) && strings.HasPrefix(p.Type, req.Type) &&
					(req.Job == "" || p.Target[nomad.ScalingTargetJob] == req.Job) {
					out.Policies = append(out.Policies, p.Stub())
				}
			}
			out.Index = max(snap.TableIndex(state.TableScalingPolicy), 1)
			return nil
		})
}

// Policy returns a scaling policy, or nil if it does not exist or is hidden from the caller.
func (s *Service) Policy(ctx context.Context, c *rpc.Call,
	req *message.ScalingPolicySpecificRequest) (*message.SingleScalingPolicyResponse, error) {
	may := mayEither(c, acl.ReadScalingPolicy)
	out, err := handler.Read(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.SingleScalingPolicyResponse) error {
			p := snap.ScalingPolicy(nil, req.ID)
			if p == nil || !may(p.Target[nomad.ScalingTargetNamespace]) { // the same for a missing policy
				snap.ScalingPolicies(ws)
				out.Index = snap.TableIndex(state.TableScalingPolicy)
				return nil
			}
			out.Policy = snap.ScalingPolicy(ws, req.ID)
			out.Index = out.Policy.ModifyIndex
			return nil
		})
	if err != nil || out.Policy != nil {
		return out, err
	}
	c.Access.MarkChecked()
	return out, handler.NotFoundOrHidden(c, apierror.Errorf(404, "policy not found"), acl.ReadScalingPolicy)
}
